package stream

import "github.com/weirstream/weir/connector"

// hold notes that a reader holds records back by itself, as a rate limit does.
type hold struct {
	held bool // by the last poll
	ever bool // since the last watermark
	came bool // records did since then
}

// polled takes what a poll found and returns what it means to a stage.
func (h *hold) polled(st connector.Status, records int) connector.Status {
	h.held = st == connector.Held
	h.ever = h.ever || h.held
	h.came = h.came || records > 0
	if h.held {
		return connector.Nothing
	}
	return st
}

// stood tells, once a watermark, whether the reader has held back everything:
// where some records came, a split that brought none had its turn.
func (h *hold) stood() bool {
	stood := h.ever && !h.came
	h.ever, h.came = h.held, false
	return stood
}
