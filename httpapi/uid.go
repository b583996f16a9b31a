package httpapi

import (
	"bufio"
	"crypto/rand"

	"github.com/oklog/ulid/v2"

	"github.com/duehook/duehook/job"
)

// uids makes the ids of registrations: ULIDs that grow within a millisecond,
// so that they sort in the order of registration. Safe for concurrent use.
type uids struct {
	clock   job.Clock
	entropy ulid.LockedMonotonicReader
}

func newUIDs(clock job.Clock) *uids {
	return &uids{clock: clock, entropy: ulid.LockedMonotonicReader{
		MonotonicReader: ulid.Monotonic(bufio.NewReader(rand.Reader), 0),
	}}
}

func (u *uids) next() (string, error) {
	ms := ulid.Timestamp(u.clock.Now())
	id, err := ulid.New(ms, &u.entropy)
	if err != nil {
		// Growing ran over the end of the range, which chance all but rules
		// out: an id that does not grow does as well.
		id, err = ulid.New(ms, rand.Reader)
	}
	return id.String(), err
}
