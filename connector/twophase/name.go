package twophase

import (
	"fmt"
	"strconv"
	"strings"
)

// Name is what tells the transactions of all lineages, attempts, sinks and
// subtasks apart.
type Name struct {
	Lineage  string
	Attempt  int64
	Operator string
	Subtask  int
	Slot     int
}

// String returns "lineage.attempt.operator.subtask.slot", each part escaped.
// ParseName reads it.
func (n Name) String() string {
	return Escape(n.Lineage) + "." + strconv.FormatInt(n.Attempt, 10) + "." + Escape(n.Operator) +
		"." + strconv.Itoa(n.Subtask) + "." + strconv.Itoa(n.Slot)
}

// ParseName reads what String wrote and nothing else: for every other string
// it is an error.
func ParseName(s string) (Name, error) {
	parts := strings.Split(s, ".")
	if len(parts) != 5 {
		return Name{}, fmt.Errorf("%q is not the name of a transaction: five parts are needed", s)
	}
	attempt, err1 := strconv.ParseInt(parts[1], 10, 64)
	subtask, err2 := strconv.ParseInt(parts[3], 10, 32)
	slot, err3 := strconv.ParseInt(parts[4], 10, 32)
	n := Name{
		Lineage:  Unescape(parts[0]),
		Attempt:  attempt,
		Operator: Unescape(parts[2]),
		Subtask:  int(subtask),
		Slot:     int(slot),
	}
	if err1 != nil || err2 != nil || err3 != nil || attempt < 0 || subtask < 0 || slot < 0 || n.String() != s {
		return Name{}, fmt.Errorf("%q is not the name of a transaction", s)
	}
	return n, nil
}

var (
	escaper   = strings.NewReplacer("%", "%25", ".", "%2E")
	unescaper = strings.NewReplacer("%25", "%", "%2E", ".")
)

// Escape makes a part of a name: it has no dot.
func Escape(part string) string { return escaper.Replace(part) }

// Unescape is the inverse of Escape.
func Unescape(part string) string { return unescaper.Replace(part) }
