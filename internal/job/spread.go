package job

import (
	"crypto/sha256"
	"encoding/binary"
	"time"
)

// MaxSpread is the longest spread.
const MaxSpread = day

// Share is the part of a spread, from zero to all of it, in whole milliseconds, that
// delays the job of an id. It follows from the arguments alone: repetitions and other
// nodes get the same, and the shares of many ids are evenly distributed.
func Share(id string, spread time.Duration) time.Duration {
	if spread <= 0 {
		return 0
	}
	sum := sha256.Sum256([]byte(id))
	part := binary.BigEndian.Uint64(sum[:8]) % uint64(spread.Milliseconds()+1)
	return time.Duration(part) * time.Millisecond
}

// When is the due time of a job: an instant, or a delay measured by the store's
// clock. The zero value is now.
type When struct {
	At    Instant
	Delay time.Duration
	// Spread makes the job due up to that much later, by the Share of its key.
	Spread time.Duration
}

// Of is the due time of the job of a key: without a Spread, which is part of At or
// Delay then.
func (w When) Of(key Key) When {
	if w.Spread == 0 {
		return w
	}
	share := Share(key.String(), w.Spread)
	if w.At != 0 {
		return When{At: w.At.Add(share)}
	}
	return When{Delay: w.Delay + share}
}

// Due is the instant as of now for the job of a key; a past instant is now.
func (w When) Due(key Key, now Instant) Instant {
	w = w.Of(key)
	if w.At != 0 {
		return max(w.At, now)
	}
	return now.Add(w.Delay)
}
