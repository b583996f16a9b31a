package inbox

import (
	"errors"
	"time"
)

const (
	// maxHolds bounds the topics and jobs for which rows wait at a time.
	maxHolds = 10_000
	// How long rows wait before the first of them are tried again; it doubles while they are refused.
	firstHold, longHold = time.Second, 30 * time.Second
	// How many rows are tried again at a time; it doubles while they are accepted.
	firstChunk = 8
)

// holds are the names for which rows wait: of a topic that is full or draining, or of the key of a job in flight. The
// rows of a name keep their order.
type holds map[string]*hold

// hold is the wait for one name. Its rows up to last have been released; later ones wait.
type hold struct {
	until time.Time
	pause time.Duration
	chunk int
	last  int64
}

// newHolds are those of a table in which rows wait for names.
func newHolds(names []string, now time.Time) holds {
	all := holds{}
	for _, name := range names {
		all[name] = &hold{until: now, pause: firstHold, chunk: firstChunk}
	}
	return all
}

// of is what a row waits for, or empty.
func (all holds) of(w *work) string {
	key := w.reg.key()
	for _, name := range []string{key.Topic, key.String()} {
		if h := all[name]; h != nil && w.id > h.last {
			return name
		}
	}
	return ""
}

// refuse notes that a row of a name was refused.
func (all holds) refuse(name string, now time.Time) error {
	h := all[name]
	switch {
	case h != nil:
		h.pause = min(2*h.pause, longHold)
	case len(all) == maxHolds:
		return errors.New("rows wait for too many topics and jobs")
	default:
		h = &hold{pause: firstHold}
		all[name] = h
	}
	h.until, h.chunk, h.last = now.Add(h.pause), firstChunk, 0
	return nil
}

// released notes that rows up to the last one are tried again. Unless one is refused, more follow in the next round.
func (h *hold) released(last int64) {
	h.last, h.chunk = last, min(2*h.chunk, maxRows)
}
