package app

import (
	"crypto/rand"
	"encoding/binary"
	"sync"

	"github.com/oklog/ulid/v2"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

// uids makes the ids of registrations: ULIDs that grow within a millisecond, so
// that they sort in the order of registration. Safe for concurrent use.
type uids struct {
	clock job.Clock

	mu     sync.Mutex
	ms     uint64 // of the last one
	chance uint64 // of the last one: the bits between time and key
}

// What of a ULID's 80 random bits are chance: store.BindUID writes over the rest. The
// highest is zero at first, so that there is room to grow.
const (
	chanceBits = 45
	boundBits  = 80 - chanceBits
)

func newUIDs(clock job.Clock) *uids { return &uids{clock: clock} }

// next makes the uid of a job with this key. One without an id gets the uid as its id.
func (u *uids) next(key job.Key) (string, error) {
	ms, chance, err := u.draw()
	if err != nil {
		return "", err
	}
	var id ulid.ULID
	if err := id.SetTime(ms); err != nil {
		return "", err
	}
	binary.BigEndian.PutUint16(id[6:], uint16(chance>>(64-boundBits)))
	binary.BigEndian.PutUint64(id[8:], chance<<boundBits)
	return store.BindUID(id.String(), key), nil
}

// draw returns a time and bits that are together greater than the ones before.
func (u *uids) draw() (ms, chance uint64, err error) {
	var random [8]byte
	if _, err := rand.Read(random[:]); err != nil {
		return 0, 0, err
	}
	bits := binary.BigEndian.Uint64(random[:])
	u.mu.Lock()
	defer u.mu.Unlock()
	ms = ulid.Timestamp(u.clock.Now())
	if ms == u.ms {
		u.chance += 1 + bits%(1<<20) // there is room for millions
	} else {
		u.ms, u.chance = ms, bits%(1<<(chanceBits-1))
	}
	return u.ms, u.chance, nil
}
