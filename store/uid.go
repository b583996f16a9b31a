package store

import (
	"strings"

	"github.com/duehook/duehook/job"
)

// A uid is a ULID whose last characters are not random: they hold the KeyHash of
// the job's key. So a store knows from a uid which of its parts the job is in, and
// needs no index from uids to keys, which would cost memory for each job.

const (
	// uidAlphabet is that of ULIDs, Crockford's base 32.
	uidAlphabet = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
	// uidLen is the length of a ULID, uidFree that of the part which BindUID leaves
	// alone: 10 characters of time and 9 of chance.
	uidLen, uidFree = 26, 19
	// uidIsID is the bit above the hash. It is set if the job's id is the uid itself:
	// then the hash is that of the key up to its id.
	uidIsID = 1 << 32
)

// KeyHash spreads jobs over the parts of a store, by the text of their keys. It is
// 32-bit FNV-1a.
func KeyHash(key job.Key) uint32 { return hashOn(hashTopic(key.Topic), key.ID) }

func hashTopic(topic string) uint32 { return hashOn(hashOn(2166136261, topic), "/") }

// hashOn goes on from the hash of a text with what follows.
func hashOn(h uint32, s string) uint32 {
	for i := range len(s) {
		h = (h ^ uint32(s[i])) * 16777619
	}
	return h
}

// BindUID writes the hash of a key into a ULID, over the last 35 of its random
// bits. A key without an id is that of a job whose id is to be the uid.
func BindUID(ulid string, key job.Key) string {
	bits := uint64(KeyHash(key))
	if key.ID == "" {
		bits |= uidIsID
	}
	var bound [uidLen - uidFree]byte
	for i := len(bound) - 1; i >= 0; i-- {
		bound[i] = uidAlphabet[bits%32]
		bits /= 32
	}
	return ulid[:uidFree] + string(bound[:])
}

// UIDHash gives the KeyHash of the job whose uid was made by BindUID. It is false for
// what BindUID cannot have made.
func UIDHash(uid string) (uint32, bool) {
	if len(uid) != uidLen {
		return 0, false
	}
	var bits uint64
	for i := uidFree; i < uidLen; i++ {
		digit := strings.IndexByte(uidAlphabet, uid[i])
		if digit < 0 {
			return 0, false
		}
		bits = bits*32 + uint64(digit)
	}
	if bits&uidIsID != 0 {
		return hashOn(uint32(bits), uid), true
	}
	return uint32(bits), true
}
