package documents

import "github.com/duehook/duehook/internal/job"

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
