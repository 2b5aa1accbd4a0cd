package splitreader

import (
	"hash/fnv"
	"strconv"
)

// Model says which splits share a fetcher, that is a goroutine with a
// SplitReader of its own. A fetcher begins with its first split. What is fetched
// goes through one queue, whose capacity all fetchers share.
type Model[S any] struct {
	name func(S) string
	// keep says that a fetcher stays when it has no split left.
	keep bool
}

// OneFetcher is the model of one fetcher for all splits: for clients that read
// many at once, as Kafka's, or of which one is enough.
func OneFetcher[S any]() Model[S] {
	return Model[S]{name: func(S) string { return "" }, keep: true}
}

// FetcherPerSplit is the model of one fetcher for each split, which ends with
// it: for clients that block for one split at a time.
func FetcherPerSplit[S interface{ SplitID() string }]() Model[S] {
	return Model[S]{name: S.SplitID}
}

// FetcherPool is the model of up to n fetchers, at least one, over which splits
// are spread by the hash of their id.
func FetcherPool[S interface{ SplitID() string }](n int) Model[S] {
	n = max(1, n)
	return Model[S]{keep: true, name: func(s S) string {
		h := fnv.New32a()
		_, _ = h.Write([]byte(s.SplitID()))
		return strconv.Itoa(int(h.Sum32() % uint32(n)))
	}}
}

// FetcherBy is a model of one's own: splits for which name is the same share a
// fetcher, which ends when it has none left. Splits of a server, for example,
// share a connection by its name.
func FetcherBy[S any](name func(S) string) Model[S] { return Model[S]{name: name} }
