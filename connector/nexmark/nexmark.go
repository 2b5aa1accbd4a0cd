// Package nexmark makes the events of Nexmark, the benchmark of an auction
// house: people register, auctions open, bids come in.
//
// Kinds, ids, references, prices, sizes and times are distributed as in the
// generator of github.com/nexmark/nexmark (that of Apache Beam before it), with
// its default configuration. Two things differ on purpose. Every event depends
// on the seed and its number alone, so that a source goes on from any of them
// and every run and parallelism sees the same events; there the fields are drawn
// anew at each run. And bidders have ids of people; there the first id of people
// is added to them twice.
package nexmark

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/connector/datagen"
)

// Kind tells what an event is.
type Kind uint8

// The kinds of events.
const (
	PersonEvent Kind = iota
	AuctionEvent
	BidEvent
)

// Event is one event. Person and Auction are nil unless it is of their kind.
type Event struct {
	Kind    Kind     `json:"kind"`
	Person  *Person  `json:"person,omitempty"`
	Auction *Auction `json:"auction,omitempty"`
	Bid     Bid      `json:"bid,omitzero"`
}

// Millis is when the event happened, in milliseconds since the epoch.
func (e Event) Millis() int64 {
	switch e.Kind {
	case PersonEvent:
		return e.Person.DateTime
	case AuctionEvent:
		return e.Auction.DateTime
	}
	return e.Bid.DateTime
}

// Person is somebody who registers. DateTime is in milliseconds since the epoch,
// here and below.
type Person struct {
	ID           int64  `json:"id"`
	Name         string `json:"name"`
	EmailAddress string `json:"emailAddress"`
	CreditCard   string `json:"creditCard"`
	City         string `json:"city"`
	State        string `json:"state"`
	DateTime     int64  `json:"dateTime"`
	Extra        string `json:"extra"`
}

// Auction is an auction that opens, and ends at Expires.
type Auction struct {
	ID          int64  `json:"id"`
	ItemName    string `json:"itemName"`
	Description string `json:"description"`
	InitialBid  int64  `json:"initialBid"`
	Reserve     int64  `json:"reserve"`
	DateTime    int64  `json:"dateTime"`
	Expires     int64  `json:"expires"`
	Seller      int64  `json:"seller"`
	Category    int64  `json:"category"`
	Extra       string `json:"extra"`
}

// Bid is a bid for an auction.
type Bid struct {
	Auction  int64  `json:"auction"`
	Bidder   int64  `json:"bidder"`
	Price    int64  `json:"price"`
	Channel  string `json:"channel"`
	URL      string `json:"url"`
	DateTime int64  `json:"dateTime"`
	Extra    string `json:"extra"`
}

// Config says what to make. Zero values are the defaults of the public generator.
type Config struct {
	// Events is how many there are, 0 for no end.
	Events int64
	// Seed makes other events of the same distribution.
	Seed uint64
	// Start is the time of the first event, 2015-07-15 00:00 UTC by default.
	Start time.Time
	// EventRate is how many events happen per second of event time, 10,000 by
	// default. It does not limit how fast they are made: datagen.Rate does.
	EventRate float64
	// Persons, Auctions and Bids are how many of their kind there are among so
	// many events in a row: 1, 3 and 46.
	Persons, Auctions, Bids int
	// HotAuctions is 2: all but one in so many bids go to one of the hot
	// auctions. HotSellers and HotBidders, 4, are the same for sellers of auctions
	// and bidders.
	HotAuctions, HotSellers, HotBidders int
	// InFlight is among how many of the last auctions other bids choose, 100;
	// ActivePeople among how many people sellers and bidders are, 1000.
	InFlight, ActivePeople int
	// PersonBytes, AuctionBytes and BidBytes are average sizes: 200, 500, 100.
	PersonBytes, AuctionBytes, BidBytes int
	// OutOfOrder is in groups of how many events the order is mixed up, 1 for not
	// at all. With a number of Events that it does not divide, the last ones are
	// some of a whole group.
	OutOfOrder int64
}

func (c *Config) ensureDefaults() {
	for _, d := range []struct {
		value *int
		def   int
	}{
		{&c.Persons, 1}, {&c.Auctions, 3}, {&c.Bids, 46}, {&c.HotAuctions, 2}, {&c.HotSellers, 4}, {&c.HotBidders, 4},
		{&c.InFlight, 100}, {&c.ActivePeople, 1000}, {&c.PersonBytes, 200}, {&c.AuctionBytes, 500}, {&c.BidBytes, 100},
	} {
		if *d.value == 0 {
			*d.value = d.def
		}
	}
	if c.Start.IsZero() {
		c.Start = time.Date(2015, 7, 15, 0, 0, 0, 0, time.UTC)
	}
	if c.EventRate == 0 {
		c.EventRate = 10_000
	}
	if c.OutOfOrder == 0 {
		c.OutOfOrder = 1
	}
}

// shuffle is the factor by which the order of a group is mixed up, a prime.
const shuffle = 953

func (c *Config) check() error {
	var errs []error
	for _, v := range []struct {
		name  string
		value int
	}{
		{"Persons", c.Persons}, {"Auctions", c.Auctions}, {"Bids", c.Bids}, {"HotAuctions", c.HotAuctions}, {"HotSellers", c.HotSellers}, {"HotBidders", c.HotBidders},
		{"InFlight", c.InFlight}, {"ActivePeople", c.ActivePeople}, {"PersonBytes", c.PersonBytes}, {"AuctionBytes", c.AuctionBytes}, {"BidBytes", c.BidBytes},
	} {
		if v.value < 0 || v.value > math.MaxInt32/4 {
			errs = append(errs, fmt.Errorf("%s is %d; give a number from 1 on, or 0 for the default", v.name, v.value))
		}
	}
	if !(c.EventRate >= 1e-3 && c.EventRate <= 1e12) {
		errs = append(errs, fmt.Errorf("EventRate is %v; give a number from 0.001 to 1e12", c.EventRate))
	}
	if c.Events < 0 {
		errs = append(errs, fmt.Errorf("Events is %d; 0 is without end", c.Events))
	}
	if c.OutOfOrder < 0 || c.OutOfOrder > math.MaxInt32 || c.OutOfOrder%shuffle == 0 {
		errs = append(errs, fmt.Errorf("OutOfOrder is %d; give a group size from 1 on that %d does not divide", c.OutOfOrder, shuffle))
	}
	if len(errs) > 0 {
		return connector.Fatal(fmt.Errorf("nexmark: %w", errors.Join(errs...)))
	}
	return nil
}

// Events is a source of events.
type Events struct {
	*datagen.Sequence[Event]
	err error
}

// Source makes the events of a configuration, with their times as source
// timestamps, dealt out in turn to the subtasks: all are at about the same time.
// With OutOfOrder at 1 the times of a split never fall; otherwise they are out of
// order by less than the time of a group.
func Source(c Config, opts ...datagen.Option) *Events {
	g, err := New(c)
	if err != nil {
		return &Events{datagen.FromSlice[Event](nil), err}
	}
	n := c.Events
	if n == 0 {
		n = -1
	}
	opts = append([]datagen.Option{datagen.Interleaved(), datagen.Millis(g.Millis)}, opts...)
	return &Events{datagen.Source(n, g.Event, opts...), nil}
}

// NewEnumerator makes the enumerator.
func (s *Events) NewEnumerator(ctx connector.EnumeratorContext[datagen.Split], restored *datagen.Enumeration) (connector.Enumerator[datagen.Split, datagen.Enumeration], error) {
	if s.err != nil {
		return nil, s.err
	}
	return s.Sequence.NewEnumerator(ctx, restored)
}
