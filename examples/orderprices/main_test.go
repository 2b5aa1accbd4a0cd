package main

import (
	"github.com/weirstream/weir/internal/jobtest"
	"reflect"
	"testing"

	"github.com/weirstream/weir/streamtest"
)

func TestAnOrderWaitsForItsPrice(t *testing.T) {
	h := streamtest.KeyedBroadcastProcess(t, order.customer, newPricing, streamtest.Parallelism(2))
	early, other := order{1, "ann", "wine"}, order{2, "bob", "bread"}
	h.Push(early, other)
	h.Expect()
	h.PushSecond(price{"wine", 400})
	h.Expect(bill{early, 400})
	h.Rescale(3)
	late := order{3, "cid", "wine"}
	h.Push(late)
	h.Expect(bill{late, 400})
	h.PushSecond(price{"bread", 100})
	h.Expect(bill{other, 100})
	prices := map[string]int64{"wine": 400, "bread": 100}
	if got := streamtest.Broadcast[string, int64](h, "prices"); !reflect.DeepEqual(got, prices) {
		t.Errorf("the prices are %v, want %v", got, prices)
	}
}

// However orders and prices mix, each order has one bill.
func TestBillsSurviveCrashesAtAnyParallelism(t *testing.T) {
	o := options{orders: 500}
	bills := streamtest.Survives(t, o.build, streamtest.AtRecord(100).Then(3), streamtest.AfterCheckpoint(2).Then(1), streamtest.AtRandom(3).Then(4))
	if len(bills) != o.orders {
		t.Errorf("%d bills for %d orders", len(bills), o.orders)
	}
}

func TestBatchGivesTheSame(t *testing.T) {
	o := options{orders: 20}
	jobtest.SameInBatch(t, o.build)
}
