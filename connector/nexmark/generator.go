package nexmark

import (
	"fmt"
	"math"
	"math/bits"
	"strconv"
)

const (
	firstPerson, firstAuction, firstCategory = 1000, 1000, 10
	categories                               = 5
	// block is of how many people, or auctions, one is hot.
	block = 100
	// lead is how many ids ahead of the last one may be referred to, as if the
	// events had changed places.
	lead = 10
	// minString is the length of the shortest text; texts are cut from textSize
	// random bytes.
	minString, textSize = 3, 1 << 20
)

var (
	states     = []string{"AZ", "CA", "ID", "OR", "WA", "WY"}
	cities     = []string{"Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland", "Bend", "Redmond", "Seattle", "Kent", "Cheyenne"}
	firstNames = []string{"Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter"}
	lastNames  = []string{"Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris"}
)

// Generator makes events by their number. It is safe for concurrent use.
type Generator struct {
	c       Config
	total   int64
	delay   float64 // of one event, in µs
	start   int64
	letters string // random
	words   string // with blanks
	places  places
}

// New makes a generator.
func New(c Config) (*Generator, error) {
	c.ensureDefaults()
	if err := c.check(); err != nil {
		return nil, err
	}
	g := &Generator{
		c: c, total: int64(c.Persons + c.Auctions + c.Bids), delay: 1e6 / c.EventRate, start: c.Start.UnixMilli(),
	}
	r := random(c.Seed, 0)
	size := textSize + 2*max(c.PersonBytes, c.AuctionBytes, c.BidBytes)
	letters, words := make([]byte, size), make([]byte, textSize)
	for i := range letters {
		letters[i] = byte('a' + r.below(26))
	}
	for i := range words {
		if words[i] = byte('a' + r.below(26)); r.below(13) == 0 {
			words[i] = ' '
		}
	}
	g.letters, g.words = string(letters), string(words)
	g.places = newPlaces(&r)
	return g, nil
}

// number is the event that comes as the i-th: its id and its time.
func (g *Generator) number(i int64) int64 {
	n := g.c.OutOfOrder
	return i/n*n + i%n*shuffle%n
}

// Millis is the time of the i-th event, from 0, in milliseconds since the epoch.
func (g *Generator) Millis(i int64) int64 { return g.millis(g.number(i)) }

func (g *Generator) millis(id int64) int64 { return g.start + int64(float64(id)*g.delay)/1000 }

// Event makes the i-th event, from 0.
func (g *Generator) Event(i int64) Event {
	id := g.number(i)
	r := random(g.c.Seed, uint64(id)+1)
	switch rem := id % g.total; {
	case rem < int64(g.c.Persons):
		return Event{Kind: PersonEvent, Person: g.person(id, &r)}
	case rem < int64(g.c.Persons+g.c.Auctions):
		return Event{Kind: AuctionEvent, Auction: g.auction(id, &r)}
	}
	return Event{Kind: BidEvent, Bid: g.bid(id, &r)}
}

// lastPerson is the number of the newest person at an event, from 0.
func (g *Generator) lastPerson(id int64) int64 {
	persons := int64(g.c.Persons)
	return id/g.total*persons + min(id%g.total, persons-1)
}

// lastAuction is the number of the newest auction at an event, from 0, or -1.
func (g *Generator) lastAuction(id int64) int64 {
	persons, auctions := int64(g.c.Persons), int64(g.c.Auctions)
	return id/g.total*auctions + max(-1, min(id%g.total-persons, auctions-1))
}

// anyPerson is one of the active people, or one who registers soon.
func (g *Generator) anyPerson(id int64, r *draws) int64 {
	people := g.lastPerson(id) + 1
	active := min(people, int64(g.c.ActivePeople))
	return people - active + r.below(active+lead)
}

func (g *Generator) anyAuction(id int64, r *draws) int64 {
	last := g.lastAuction(id)
	first := max(last-int64(g.c.InFlight), 0)
	return first + r.below(last-first+1+lead)
}

func (g *Generator) person(id int64, r *draws) *Person {
	p := &Person{
		ID:   firstPerson + g.lastPerson(id),
		Name: pick(firstNames, r) + " " + pick(lastNames, r), EmailAddress: g.text(7, r) + "@" + g.text(5, r) + ".com",
		CreditCard: fmt.Sprintf("%04d %04d %04d %04d", r.below(10_000), r.below(10_000), r.below(10_000), r.below(10_000)),
		City:       pick(cities, r), State: pick(states, r), DateTime: g.millis(id),
	}
	p.Extra = g.extra(8+len(p.Name)+len(p.EmailAddress)+len(p.CreditCard)+len(p.City)+len(p.State), g.c.PersonBytes, r)
	return p
}

func (g *Generator) auction(id int64, r *draws) *Auction {
	seller := g.lastPerson(id) / block * block
	if r.below(int64(g.c.HotSellers)) == 0 {
		seller = g.anyPerson(id, r)
	}
	now, initial := g.millis(id), price(r)
	// On average an auction lasts until so many others have opened.
	horizon := g.millis(id+int64(g.c.InFlight)*g.total/int64(g.c.Auctions)) - now
	a := &Auction{
		ID: firstAuction + g.lastAuction(id), ItemName: g.text(20, r), Description: g.text(100, r),
		InitialBid: initial, Reserve: initial + price(r), DateTime: now, Expires: now + 1 + r.below(max(2*horizon, 1)),
		Seller: firstPerson + seller, Category: firstCategory + r.below(categories),
	}
	a.Extra = g.extra(8+len(a.ItemName)+len(a.Description)+5*8, g.c.AuctionBytes, r)
	return a
}

func (g *Generator) bid(id int64, r *draws) Bid {
	auction := g.lastAuction(id) / block * block
	if r.below(int64(g.c.HotAuctions)) == 0 {
		auction = g.anyAuction(id, r)
	}
	bidder := g.lastPerson(id)/block*block + 1 // not the hot seller
	if r.below(int64(g.c.HotBidders)) == 0 {
		bidder = g.anyPerson(id, r)
	}
	b := Bid{Auction: firstAuction + auction, Bidder: firstPerson + bidder, Price: price(r), DateTime: g.millis(id)}
	b.Channel, b.URL = g.places.pick(r)
	b.Extra = g.extra(4*8, g.c.BidBytes, r)
	return b
}

// price is between 100 and 100,000,000, its logarithm evenly distributed.
func price(r *draws) int64 { return int64(math.Round(math.Pow(10, r.float()*6) * 100)) }

func pick(of []string, r *draws) string { return of[r.below(int64(len(of)))] }

// text is some words of 3 to less than most bytes, but for blanks at its ends.
func (g *Generator) text(most int64, r *draws) string {
	n := minString + r.below(most-minString)
	from := r.below(textSize - most)
	s := g.words[from : from+n]
	for s != "" && s[0] == ' ' {
		s = s[1:]
	}
	for s != "" && s[len(s)-1] == ' ' {
		s = s[:len(s)-1]
	}
	return s
}

// extra fills an event of size bytes up, to average bytes give or take a fifth
// of what is missing.
func (g *Generator) extra(size, average int, r *draws) string {
	if size > average {
		return ""
	}
	missing := int64(average - size)
	delta := int64(math.Round(float64(missing) * 0.2))
	n := missing - delta
	if delta > 0 {
		n += r.below(2 * delta)
	}
	from := r.below(textSize)
	return g.letters[from : from+n]
}

// places are where bids come from: half from one of four channels.
type places struct{ hot, other []place }

type place struct{ channel, url string }

func newPlaces(r *draws) places {
	url := func() string {
		return "https://www.nexmark.com/" + path(r) + "/" + path(r) + "/" + path(r) + "/item.htm?query=1"
	}
	var p places
	for _, name := range []string{"Google", "Facebook", "Baidu", "Apple"} {
		p.hot = append(p.hot, place{name, url()})
	}
	for i := range 10_000 {
		u := url()
		if r.below(10) > 0 {
			reversed := int32(bits.Reverse32(uint32(i)))
			u += "&channel_id=" + strconv.Itoa(int(max(reversed, -reversed)))
		}
		p.other = append(p.other, place{"channel-" + strconv.Itoa(i), u})
	}
	return p
}

func (p places) pick(r *draws) (channel, url string) {
	from := p.other
	if r.below(2) > 0 {
		from = p.hot
	}
	at := from[r.below(int64(len(from)))]
	return at.channel, at.url
}

// path is a part of a URL.
func path(r *draws) string {
	part := make([]byte, minString+r.below(5-minString))
	for i := range part {
		if part[i] = byte('a' + r.below(26)); r.below(13) == 0 {
			part[i] = '_'
		}
	}
	return string(part)
}
