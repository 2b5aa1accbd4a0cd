// Command bootstrap is a job that begins with state from elsewhere: balances of
// accounts, kept in a CSV file until now.
//
//	go run ./examples/bootstrap seed balances.csv DIR    write a savepoint of them
//	go run ./examples/bootstrap run -s DIR               start the job from it
//	go run ./examples/bootstrap repair DIR OTHER         correct one, in a copy
package main

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"

	"github.com/weirstream/weir/runner"
	"github.com/weirstream/weir/savepoint"
	"github.com/weirstream/weir/state"
	"github.com/weirstream/weir/stream"
)

const job = "accounts"

// payment moves cents into an account, or out of it.
type payment struct {
	Account string
	Cents   int64
}

// ledger keeps the balance of each account.
type ledger struct{ balance state.Value[int64] }

func newLedger(r *state.Registry) *ledger {
	return &ledger{balance: state.ValueIn[int64](r, "balance")}
}

func (l *ledger) Process(ctx *stream.Ctx[string, string], p payment) error {
	balance, err := l.balance.Get()
	if err != nil {
		return err
	}
	balance += p.Cents
	ctx.Emit(fmt.Sprintf("%s has %d cents", p.Account, balance))
	return l.balance.Set(balance)
}

// accounts tells the new balance of an account after each payment.
func accounts(j *stream.Job) stream.Stream[string] {
	payments := stream.FromSlice(j, "payments", []payment{{"alice", 250}, {"bob", -100}, {"carol", 1000}})
	byAccount := stream.KeyBy(payments, func(p payment) string { return p.Account })
	return stream.Process(byAccount, "ledger", newLedger)
}

func build(j *stream.Job) { stream.Print(accounts(j), "out") }

func main() {
	switch args := os.Args[1:]; {
	case len(args) == 3 && args[0] == "seed":
		exit(seed(args[1], args[2]))
	case len(args) == 3 && args[0] == "repair":
		exit(repair(args[1], args[2]))
	}
	runner.Main(job, build)
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bootstrap:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// seed writes a savepoint with the balances in a CSV file.
func seed(file, dir string) error {
	in, err := os.Open(file)
	if err != nil {
		return err
	}
	defer in.Close()
	w := savepoint.New(job, 0)
	err = savepoint.Bootstrap(w, "ledger", newLedger, func(accounts *savepoint.Keys[string], l *ledger) error {
		rows := csv.NewReader(in)
		rows.FieldsPerRecord = 2
		for {
			row, err := rows.Read()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return err
			}
			cents, err := strconv.ParseInt(row[1], 10, 64)
			if err != nil {
				return err
			}
			accounts.Select(row[0])
			if err := l.balance.Set(cents); err != nil {
				return err
			}
		}
	})
	if err != nil {
		return err
	}
	return w.Write(context.Background(), dir)
}

// repair writes a copy of a savepoint in which bob's balance is not negative.
func repair(from, to string) error {
	ctx := context.Background()
	s, err := savepoint.Open(ctx, from)
	if err != nil {
		return err
	}
	w := savepoint.From(s)
	err = savepoint.Edit(w, "ledger", newLedger, func(account string, l *ledger) error {
		cents, err := l.balance.Get()
		if err != nil || cents >= 0 {
			return err
		}
		return l.balance.Set(0)
	}, "bob")
	if err != nil {
		return err
	}
	return w.Write(ctx, to)
}
