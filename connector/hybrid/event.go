package hybrid

// What enumerator and readers tell each other. A reader that registers is
// greeted, and says which source it has splits of. The enumerator tells it which
// source to read, and, when it has come to the end of that, the next one.
type (
	// hello greets a reader that has registered.
	hello struct{}
	// ready says that a reader has nothing to read before source lowest, the
	// number of sources if it has no splits.
	ready struct{ lowest int }
	// begin tells a reader to read a source.
	begin struct {
		member   int
		position []byte
	}
	// noMore is NoMoreSplits of a source that is not the last.
	noMore struct{ member int }
	// over says that a reader has come to the end of a source, and has nothing to
	// read before source lowest.
	over struct{ member, lowest int }
	// request is a RequestSplit, and custom an event, of a source's own.
	request struct {
		member int
		host   string
	}
	custom struct {
		member int
		event  any
	}
)
