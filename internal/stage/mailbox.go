package stage

import (
	"sync"
	"sync/atomic"
)

// letter is a message from the host to a task; exactly one field is set.
type letter struct {
	trigger   *Barrier
	complete  int64
	aborted   int64
	committed int64
	event     *SourceEvent
	drain     bool
}

// mailbox holds letters in order. Anybody may post; the task takes.
type mailbox struct {
	full  atomic.Bool
	waker *Waker

	mu      sync.Mutex
	letters []letter
}

func (m *mailbox) post(l letter) {
	m.mu.Lock()
	m.letters = append(m.letters, l)
	m.full.Store(true)
	m.mu.Unlock()
	m.waker.Wake()
}

// take returns all letters, nil if there are none.
func (m *mailbox) take() []letter {
	if !m.full.Load() {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	ls := m.letters
	m.letters = nil
	m.full.Store(false)
	return ls
}
