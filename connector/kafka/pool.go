package kafka

import (
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
)

// pools has a consuming client use its memory again: records always, what
// compressed batches are unpacked to if elements do not alias it.
func pools(unpacked bool) kgo.Opt {
	if unpacked {
		return kgo.WithPools(&recordPool{}, &bytePool{})
	}
	return kgo.WithPools(&recordPool{})
}

// recordPool keeps the records of fetched batches.
type recordPool struct{ pool sync.Pool }

func (p *recordPool) GetRecords(n int) []kgo.Record {
	if s, ok := p.pool.Get().(*[]kgo.Record); ok && cap(*s) >= n {
		return (*s)[:n]
	}
	return make([]kgo.Record, n)
}

func (p *recordPool) PutRecords(s []kgo.Record) { p.pool.Put(&s) }

// bytePool keeps what batches were unpacked to.
type bytePool struct{ pool sync.Pool }

func (p *bytePool) GetDecompressBytes(compressed []byte, _ kgo.CompressionCodecType) []byte {
	if s, ok := p.pool.Get().(*[]byte); ok {
		return *s
	}
	return make([]byte, 0, 4*len(compressed))
}

func (p *bytePool) PutDecompressBytes(s []byte) { p.pool.Put(&s) }
