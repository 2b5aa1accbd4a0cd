// Command orderprices joins orders with prices by broadcast state: every subtask
// knows all prices, and the orders are divided by customer. An order whose item
// has no price yet waits for it.
//
//	go run ./examples/orderprices run
package main

import (
	"flag"
	"fmt"
	"time"

	"github.com/weirstream/weir/checkpoint"
	"github.com/weirstream/weir/connector/datagen"
	"github.com/weirstream/weir/runner"
	"github.com/weirstream/weir/state"
	"github.com/weirstream/weir/stream"
)

// options are the flags of the job.
type options struct {
	orders int
	rate   float64
}

func (o *options) define(f *flag.FlagSet) {
	f.IntVar(&o.orders, "orders", 8, "number of orders")
	f.Float64Var(&o.rate, "rate", 0, "orders per second; 0 is as fast as possible")
}

var (
	items     = []string{"bread", "cheese", "olives", "wine"}
	customers = []string{"ann", "ben", "eve"}
)

type order struct {
	Number         int
	Customer, Item string
}

func (o order) customer() string { return o.Customer }

// price is what an item costs from now on.
type price struct {
	Item  string
	Cents int64
}

// bill is an order with its price.
type bill struct {
	order
	cents int64
}

func (b bill) String() string {
	return fmt.Sprintf("%s pays %d for order %d, %s", b.Customer, b.cents, b.Number, b.Item)
}

// pricing holds all prices in each subtask, and the orders that wait per customer.
type pricing struct {
	prices  state.Broadcast[string, int64]
	waiting state.List[order]
}

func newPricing(r *state.Registry) *pricing {
	return &pricing{
		prices:  state.BroadcastIn[string, int64](r, "prices"),
		waiting: state.ListIn[order](r, "waiting"),
	}
}

// Process reads prices; it cannot write them.
func (p *pricing) Process(ctx *stream.Ctx[string, bill], o order) error {
	cents, known, err := p.prices.Get(o.Item)
	if err != nil {
		return err
	}
	if !known {
		return p.waiting.Add(o)
	}
	ctx.Emit(bill{o, cents})
	return nil
}

// ProcessBroadcast runs in every subtask for every price, and so they all hold
// the same. Then each goes through its own customers.
func (p *pricing) ProcessBroadcast(ctx *stream.Ctx[string, bill], v price) error {
	if err := p.prices.Put(v.Item, v.Cents); err != nil {
		return err
	}
	return ctx.EachKey(func(string) error {
		orders, err := p.waiting.Get()
		if err != nil {
			return err
		}
		var rest []order
		for _, o := range orders {
			if o.Item == v.Item {
				ctx.Emit(bill{o, v.Cents})
			} else {
				rest = append(rest, o)
			}
		}
		return p.waiting.Update(rest)
	})
}

func (o *options) build(job *stream.Job) stream.Stream[bill] {
	job.Parallelism(2)
	job.Checkpoints(checkpoint.Options{Interval: 500 * time.Millisecond})
	orders := make([]order, o.orders)
	for i := range orders {
		orders[i] = order{i + 1, customers[i%len(customers)], items[i%len(items)]}
	}
	prices := make([]price, len(items))
	for i := range prices {
		prices[i] = price{items[i], int64(i+1) * 100}
	}
	var limit []datagen.Option
	if o.rate > 0 {
		limit = append(limit, datagen.Rate(o.rate))
	}
	ordered := stream.From(job, "orders", datagen.FromSlice(orders, limit...))
	priced := stream.From(job, "prices", datagen.FromSlice(prices))
	connected := stream.Connect(stream.KeyBy(ordered, order.customer), stream.Broadcast(priced))
	return stream.KeyedBroadcastProcess(connected, "pricing", newPricing)
}

func main() {
	var o options
	runner.Main("orderprices", func(job *stream.Job) {
		stream.Print(o.build(job), "bill")
	}, runner.Flags(o.define))
}
