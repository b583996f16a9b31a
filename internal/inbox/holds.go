package inbox

import (
	"errors"
	"time"
)

const (
	// maxHolds bounds the topics and jobs for which rows wait at a time.
	maxHolds = 10_000
	// How long rows wait before they are tried again; it doubles while all of them are refused.
	firstHold, longHold = time.Second, 30 * time.Second
)

// holds are the names for which rows wait: of a topic that is full or draining, or of the key of a job in flight. The
// rows of a name keep their order.
type holds map[string]*hold

// hold is the wait for one name. When it is over, the rows that wait in the table are tried; new ones join them until none is left.
type hold struct {
	until time.Time
	pause time.Duration
}

// newHolds are those of a table in which rows wait for names.
func newHolds(names []string, now time.Time) holds {
	all := holds{}
	for _, name := range names {
		all[name] = &hold{until: now}
	}
	return all
}

// over is a name whose wait is over, or empty.
func (all holds) over(now time.Time) string {
	for name, h := range all {
		if !now.Before(h.until) {
			return name
		}
	}
	return ""
}

// of is what a row waits for, or empty.
func (all holds) of(w *work, now time.Time) string {
	key := w.reg.key()
	for _, name := range []string{key.Topic, key.String()} {
		if h := all[name]; h != nil && (w.waited != name || now.Before(h.until)) {
			return name
		}
	}
	return ""
}

// took notes that a row that waited for a name became a job.
func (all holds) took(name string) {
	if h := all[name]; h != nil {
		h.pause = 0
	}
}

// refuse notes that the store refused a row of a name.
func (all holds) refuse(name string, now time.Time) error {
	h := all[name]
	switch {
	case h != nil:
	case len(all) == maxHolds:
		return errors.New("rows wait for too many topics and jobs")
	default:
		h = &hold{}
		all[name] = h
	}
	h.pause = min(max(2*h.pause, firstHold), longHold)
	h.until = now.Add(h.pause)
	return nil
}
