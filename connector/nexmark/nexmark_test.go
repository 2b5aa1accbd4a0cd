package nexmark

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"math/bits"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/agg"
	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/connector/collect"
	"github.com/weirstream/weir/connector/connectortest"
	"github.com/weirstream/weir/connector/datagen"
	"github.com/weirstream/weir/internal/jobtest"
	"github.com/weirstream/weir/runner/embedded"
	"github.com/weirstream/weir/stream"
	"github.com/weirstream/weir/watermark"
	"github.com/weirstream/weir/window"
)

func generator(t testing.TB, c Config) *Generator {
	t.Helper()
	g, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// near checks a share of something.
func near(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if math.Abs(got-want) > tolerance {
		t.Errorf("%s: %.4f, want %.4f ± %.4f", what, got, want, tolerance)
	}
}

// Of 50 events in a row the first is a person, the next three are auctions; ids
// count up.
func TestKindsAndIDs(t *testing.T) {
	g := generator(t, Config{})
	persons, auctions := int64(1000), int64(1000)
	for i := range int64(5000) {
		e := g.Event(i)
		switch rem := i % 50; {
		case rem == 0:
			if e.Kind != PersonEvent || e.Person.ID != persons || e.Auction != nil || e.Bid != (Bid{}) {
				t.Fatalf("event %d: %+v, want person %d alone", i, e, persons)
			}
			persons++
		case rem < 4:
			if e.Kind != AuctionEvent || e.Auction.ID != auctions || e.Person != nil {
				t.Fatalf("event %d: %+v, want auction %d alone", i, e, auctions)
			}
			auctions++
		default:
			if e.Kind != BidEvent || e.Person != nil || e.Auction != nil {
				t.Fatalf("event %d: %+v, want a bid alone", i, e)
			}
		}
		if want := time.Date(2015, 7, 15, 0, 0, 0, 0, time.UTC).UnixMilli() + i/10; e.Millis() != want || g.Millis(i) != want {
			t.Fatalf("event %d: at %d and %d, want %d: a tenth of a millisecond each", i, e.Millis(), g.Millis(i), want)
		}
	}
}

func TestDistributionOfBids(t *testing.T) {
	const n = 100_000
	g := generator(t, Config{})
	var bids, hotAuction, hotBidder, hotChannel, withID, others, cheap, size float64
	for i := range int64(n) {
		e := g.Event(i)
		if e.Kind != BidEvent {
			continue
		}
		b := e.Bid
		bids++
		lastAuction, lastPerson := 1000+i/50*3+2, 1000+i/50
		if b.Auction < lastAuction-100 && (b.Auction-1000)%100 != 0 || b.Auction > lastAuction+10 || b.Auction < 1000 {
			t.Fatalf("event %d: bid for auction %d, the last one is %d", i, b.Auction, lastAuction)
		}
		if b.Bidder < 1000 || b.Bidder > lastPerson+10 || b.Bidder < lastPerson-1000 {
			t.Fatalf("event %d: bidder %d, the last person is %d", i, b.Bidder, lastPerson)
		}
		if b.Price < 100 || b.Price > 100_000_000 {
			t.Fatalf("event %d: price %d", i, b.Price)
		}
		if b.Auction == 1000+(lastAuction-1000)/100*100 {
			hotAuction++
		}
		if b.Bidder == 1000+(lastPerson-1000)/100*100+1 {
			hotBidder++
		}
		if b.Price < 100_000 { // half of the way by the logarithm
			cheap++
		}
		if strings.HasPrefix(b.Channel, "channel-") {
			others++
			var n uint32
			if _, err := fmt.Sscanf(b.Channel, "channel-%d", &n); err != nil || n >= 10_000 {
				t.Fatalf("channel %q", b.Channel)
			}
			if _, id, ok := strings.Cut(b.URL, "&channel_id="); ok {
				withID++
				// The bits of the number backwards, without the sign.
				if r := int32(bits.Reverse32(n)); id != fmt.Sprint(max(r, -r)) {
					t.Fatalf("channel %d has id %s", n, id)
				}
			}
		} else {
			hotChannel++
		}
		size += 32 + float64(len(b.Extra))
	}
	near(t, "bids", bids/n, 46.0/50, 0)
	near(t, "bids for the hot auction", hotAuction/bids, 1.0/2+1.0/2/111, 0.006)
	near(t, "bids of the hot bidder", hotBidder/bids, 3.0/4+1.0/4/1010, 0.006)
	near(t, "prices below the middle", cheap/bids, 0.5, 0.005)
	near(t, "bids of the four channels", hotChannel/bids, 0.5, 0.005)
	near(t, "URLs of other channels with an id", withID/others, 0.9, 0.01)
	near(t, "bytes of a bid", size/bids, 100, 1)
}

func TestDistributionOfPeopleAndAuctions(t *testing.T) {
	const n = 200_000
	g := generator(t, Config{Seed: 7})
	var auctions, hot, size, length, people, personSize float64
	categories, cities, names := map[int64]int{}, map[string]int{}, map[string]int{}
	for i := range int64(n) {
		e := g.Event(i)
		switch e.Kind {
		case PersonEvent:
			p := e.Person
			people++
			cities[p.City]++
			names[p.Name]++
			personSize += float64(8 + len(p.Name) + len(p.EmailAddress) + len(p.CreditCard) + len(p.City) + len(p.State) + len(p.Extra))
			if user, host, ok := strings.Cut(p.EmailAddress, "@"); !ok || len(user) > 6 || !strings.HasSuffix(host, ".com") || len(p.CreditCard) != 19 {
				t.Fatalf("person %+v", p)
			}
		case AuctionEvent:
			a := e.Auction
			auctions++
			categories[a.Category]++
			last := 1000 + i/50
			if a.Seller < 1000 || a.Seller > last+10 || a.Seller < last-1000 {
				t.Fatalf("event %d: seller %d, the last person is %d", i, a.Seller, last)
			}
			if a.Seller == 1000+(last-1000)/100*100 {
				hot++
			}
			if a.Reserve <= a.InitialBid || a.Expires <= a.DateTime || len(a.ItemName) >= 20 || len(a.Description) >= 100 {
				t.Fatalf("auction %+v", a)
			}
			length += float64(a.Expires - a.DateTime)
			size += float64(8 + len(a.ItemName) + len(a.Description) + 40 + len(a.Extra))
		}
	}
	near(t, "auctions of the hot seller", hot/auctions, 3.0/4+1.0/4/1010, 0.01)
	near(t, "bytes of an auction", size/auctions, 500, 2)
	near(t, "bytes of a person", personSize/people, 200, 2)
	// A hundred auctions open in 1,666 events, that is 166 ms.
	near(t, "milliseconds of an auction", length/auctions, 1+166-0.5, 3)
	if !slices.Equal(slices.Sorted(maps.Keys(categories)), []int64{10, 11, 12, 13, 14}) || len(cities) != 10 || len(names) != 99 {
		t.Errorf("categories %v, %d cities, %d names", categories, len(cities), len(names))
	}
	for c, k := range categories {
		near(t, fmt.Sprint("category ", c), float64(k)/auctions, 0.2, 0.01)
	}
}

// A group has the events it would have in order, and no other.
func TestOutOfOrder(t *testing.T) {
	const group = 100
	g, sorted := generator(t, Config{OutOfOrder: group}), generator(t, Config{})
	moved := 0
	for first := int64(0); first < 1000; first += group {
		var got, want []string
		for i := first; i < first+group; i++ {
			e, s := fmt.Sprintf("%+v", g.Event(i).Bid), fmt.Sprintf("%+v", sorted.Event(i).Bid)
			if got, want = append(got, e), append(want, s); e != s {
				moved++
			}
			if g.Event(i).Millis() != g.Millis(i) {
				t.Fatalf("event %d is at %d, and its timestamp is %d", i, g.Event(i).Millis(), g.Millis(i))
			}
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Fatalf("the group at %d has other events than in order", first)
		}
	}
	if moved < 800 {
		t.Errorf("%d of 1000 events are not where they would be in order", moved)
	}
}

// What an event is must not change from one release to the next: a restored job
// goes on with it.
func TestEventsStay(t *testing.T) {
	g := generator(t, Config{Seed: 1})
	for i, want := range map[int64]string{
		0:     `{ID:1000 Name:Vicky Spencer EmailAddress:dvpr@pdtz.com CreditCard:8204 6707 1088 4607 City:Seattle State:WA DateTime:1436918400000 Extra:xpgyrnsbvvvgkthjhvgvvjkfkdchbnaawpxffrmgagpclmlrqjjfhmjwlehmahvcijnbwnqqgdflkxtwoucujxrnqcblhrawytuglxtkdvvvsfrdqtykmtrfnkduzwpvdpgutcfefhygwbxracklkr}`,
		2:     `{ID:1001 ItemName:hih Description:yjhnntubukjkzqathvkfepqsavfbdmuwzasn tfqr InitialBid:161 Reserve:31872 DateTime:1436918400000 Expires:1436918400051 Seller:1000 Category:13 Extra:foywettspvxfobncfvlzmmvjayxmtpzzareuxcdlrhjlabxemdlqcpulyoirdbxyvqcosgdrmfpzqvnxiveadcpbprzazgqukobtfzeddbeehfcibmeiegksukehzfyqbrnozordsvyjqxocadaqunkpgjekkpqcoyehbjuhslubdsxtjxfejefozsrjxdzswxwtbeggtjsvfzppzusqkjbdkaiqumbiyykrjknkhxwjvxkopqyeaqayuhxcplhokqynzecdvidigpbnwueewhwyptxzgsfiquovvcxfybcjshuqmsobhfnkkysicwiaoafyjnxcinejgvkdnrdyqbcreobilmaijzuvjttqfeujir}`,
		12345: `{Auction:1700 Bidder:1201 Price:1221 Channel:channel-7022 URL:https://www.nexmark.com/rhxb/d_ee/odj/item.htm?query=1&channel_id=1993867264 DateTime:1436918401234 Extra:akvuqfmhrberttnknhifkrdmhylkbamfmokrwilgehaveggynbthwklffytsjjjpwtlkvtyapzzqj}`,
	} {
		e := g.Event(i)
		got := fmt.Sprintf("%+v", e.Bid)
		switch e.Kind {
		case PersonEvent:
			got = fmt.Sprintf("%+v", *e.Person)
		case AuctionEvent:
			got = fmt.Sprintf("%+v", *e.Auction)
		}
		if got != want {
			t.Errorf("event %d is\n%s\nwant\n%s", i, got, want)
		}
	}
	if other := generator(t, Config{Seed: 2}); other.Event(5) == g.Event(5) {
		t.Error("another seed makes the same bid")
	}
}

func TestBadConfig(t *testing.T) {
	for want, c := range map[string]Config{
		"Persons is -1":       {Persons: -1},
		"EventRate is -5":     {EventRate: -5},
		"EventRate is NaN":    {EventRate: math.NaN()},
		"EventRate is 1e-300": {EventRate: 1e-300},
		"Events is -2":        {Events: -2},
		"OutOfOrder is 953":   {OutOfOrder: 953},
		"BidBytes is":         {BidBytes: math.MaxInt32},
	} {
		_, err := connectortest.StartSource[Event, datagen.Split, datagen.Enumeration](Source(c), 1, nil, nil)
		if err == nil || !strings.Contains(err.Error(), want) || !errors.Is(err, connector.ErrFatal) {
			t.Errorf("%+v: %v, want %q", c, err, want)
		}
	}
	if Source(Config{}).Bounded() || !Source(Config{Events: 1}).Bounded() {
		t.Error("a source is bounded if it has a number of events")
	}
}

func TestAcceptance(t *testing.T) {
	c := Config{Events: 60, Seed: 3}
	g := generator(t, c)
	var want []Event
	for i := range c.Events {
		want = append(want, g.Event(i))
	}
	src := Source(c) // its texts take longer to make than the events
	connectortest.TestSource(t, connectortest.SourceSuite[Event, datagen.Split, datagen.Enumeration]{
		New:  func() connector.Source[Event, datagen.Split, datagen.Enumeration] { return src },
		Want: want, Time: Event.Millis, Points: 8,
		Key: func(e Event) string {
			if e.Kind == BidEvent {
				return fmt.Sprint(e.Bid)
			}
			return fmt.Sprint(e.Kind, e.Person, e.Auction)
		},
	})
}

// Query 7 in small: the highest bid of each second, at any parallelism.
func TestHighestBids(t *testing.T) {
	c := Config{Events: 50_000, OutOfOrder: 200}
	g := generator(t, c)
	highest := map[int64]int64{}
	for i := range c.Events {
		if e := g.Event(i); e.Kind == BidEvent {
			highest[e.Millis()/1000] = max(highest[e.Millis()/1000], e.Bid.Price)
		}
	}
	for _, p := range []int{1, 3} {
		out := collect.New[[2]int64]()
		jobtest.Run(t, embedded.Options{Parallelism: p}, func(j *stream.Job) {
			events := stream.From(j, "events", Source(c), watermark.Bounded[Event](20*time.Millisecond, nil))
			bids := stream.Filter(events, func(e Event) bool { return e.Kind == BidEvent })
			all := stream.KeyBy(bids, func(Event) string { return "" })
			stream.To(stream.Aggregate(all, "highest", window.Tumbling(time.Second), agg.Max(func(e Event) int64 { return e.Bid.Price }),
				func(_ string, w window.Span, price int64) [2]int64 { return [2]int64{w.Start / 1000, price} }), "out", out)
		})
		got := map[int64]int64{}
		for _, r := range out.Values() {
			got[r[0]] = r[1]
		}
		if len(highest) != 5 || !maps.Equal(got, highest) {
			t.Errorf("parallelism %d: %v, want %v", p, got, highest)
		}
	}
}

func BenchmarkEvent(b *testing.B) {
	g := generator(b, Config{})
	b.ReportAllocs()
	for i := range b.N {
		sink = g.Event(int64(i))
	}
}

var sink Event
