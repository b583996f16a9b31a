package documents

import (
	"bytes"

	"github.com/duehook/duehook/job"
)

// Stamp is when a document was made and last changed, and the version of its content. It is a
// part of the values of a Collection with Options.Stamp, which sets it at each change.
type Stamp struct {
	CreatedAt job.Instant `json:"created_at,omitempty"`
	UpdatedAt job.Instant `json:"updated_at,omitempty"`
	// Version grows with each change, by 1 or to the time of the change in milliseconds,
	// whichever is more. So a document that is deleted and made again does not have the
	// version of another content.
	Version uint64 `json:"version,omitempty"`
}

// next is the stamp of a change.
func (s Stamp) next(now job.Instant) Stamp {
	if s.Version == 0 {
		s.CreatedAt = now
	}
	s.UpdatedAt, s.Version = now, max(s.Version+1, uint64(now))
	return s
}

// stampOf is the stamp of a value, which has one if the collection says so.
func (c *Collection[T]) stampOf(v *T) (s Stamp) {
	if c.o.Stamp != nil {
		s = *c.o.Stamp(v)
	}
	return s
}

// stamp sets the stamp of a changed value that had another one before. It returns ErrKept if
// only the stamp differs.
func (c *Collection[T]) stamp(d *Document[T], before Stamp) error {
	if c.o.Stamp == nil {
		return nil
	}
	*c.o.Stamp(&d.Value) = before
	if d.Version != 0 {
		plain, _, err := encode(&d.Value, d.plain)
		if err != nil {
			return err
		}
		if bytes.Equal(plain, d.plain) {
			return ErrKept
		}
	}
	*c.o.Stamp(&d.Value) = before.next(job.InstantOf(c.o.Clock.Now()))
	return nil
}
