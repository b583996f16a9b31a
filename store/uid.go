package store

import (
	"strings"

	"github.com/duehook/duehook/internal/job"
)

// A uid is a ULID whose last characters are not random: they hold the KeyHash of the
// job's key. A store finds the shard of a job by its uid, and needs no index from uids to
// keys, which would cost memory for each job.

const (
	// uidAlphabet is that of ULIDs, Crockford's base 32.
	uidAlphabet = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
	// uidLen is the length of a ULID. BindUID keeps the first uidFree characters: 10 of
	// time and 9 random ones.
	uidLen, uidFree = 26, 19
	// uidIsID is the bit above the hash. It is set if the job's id is the uid itself:
	// then the hash is that of the key up to its id.
	uidIsID = 1 << 32
	// uidOrdered is the bit above that. It is set if the job has an order key: then the hash
	// is OrderHash.
	uidOrdered = 1 << 33
)

// KeyHash spreads jobs over the shards of a store by their keys. It is 32-bit FNV-1a. A
// callback has the hash of its job, so that a store of several shards can register it in one
// step with the job's outcome.
func KeyHash(key job.Key) uint32 {
	if uid, is := job.CallbackOf(key.ID); is {
		if hash, bound := UIDHash(uid); bound {
			return hash
		}
	}
	return hashOn(hashTopic(key.Topic), key.ID)
}

// SuccessorUID returns the uid of a job that follows from the outcome of the job with the uid
// of. It depends on nothing else, so that a repeated outcome has the same successors.
func SuccessorUID(of string, key job.Key) string {
	const prime = 1099511628211 // of 64-bit FNV-1a
	bits := uint64(14695981039346656037)
	for _, text := range []string{of, key.ID} {
		for i := range len(text) {
			bits = (bits ^ uint64(text[i])) * prime
		}
	}
	const time = 10
	drawn := []byte(of[:min(len(of), uidFree)])
	for i := time; i < len(drawn); i++ {
		drawn[i] = uidAlphabet[bits>>(64-5*(i-time+1))&31]
	}
	return BindUID(string(drawn), key)
}

// OrderHash spreads order keys over the shards of a store: all jobs of one are in one shard.
func OrderHash(topic, orderKey string) uint32 {
	return hashOn(hashOn(hashTopic(topic), "\x00"), orderKey) // no id begins like this
}

func hashTopic(topic string) uint32 { return hashOn(hashOn(2166136261, topic), "/") }

// hashOn continues the hash of a text with more text.
func hashOn(h uint32, s string) uint32 {
	for i := range len(s) {
		h = (h ^ uint32(s[i])) * 16777619
	}
	return h
}

// BindUID writes the hash of a key into a ULID, over the last 35 random bits. Without an
// id in key, the uid becomes the job's id.
func BindUID(ulid string, key job.Key) string {
	bits := uint64(KeyHash(key))
	if key.ID == "" {
		bits |= uidIsID
	}
	return bind(ulid, bits)
}

// OrderUID makes the uid of a job with an order key of a ULID, and leaves that of a job
// without one as it is. Callbacks of the job are then in the shard of the order key.
func OrderUID(ulid, topic, orderKey string) string {
	if orderKey == "" {
		return ulid
	}
	return bind(ulid, uint64(OrderHash(topic, orderKey))|uidOrdered)
}

// UIDOf reports whether a uid may be that of a job, which may come from another store.
func UIDOf(uid string, key job.Key, orderKey string) bool {
	if len(uid) != uidLen || strings.Trim(uid, uidAlphabet) != "" || uid[0] > '7' {
		return false
	}
	if key.ID == uid {
		key.ID = ""
	}
	return OrderUID(BindUID(uid, key), key.Topic, orderKey) == uid
}

// bind writes bits over the last ones of a ULID.
func bind(ulid string, bits uint64) string {
	var bound [uidLen - uidFree]byte
	for i := len(bound) - 1; i >= 0; i-- {
		bound[i] = uidAlphabet[bits%32]
		bits /= 32
	}
	return ulid[:uidFree] + string(bound[:])
}

// UIDHash returns the KeyHash of the job whose uid BindUID made, or the OrderHash if
// OrderUID did. It returns false if neither can have made the uid.
func UIDHash(uid string) (uint32, bool) {
	bits, ok := boundBits(uid)
	if !ok {
		return 0, false
	}
	if bits&uidIsID != 0 {
		return hashOn(uint32(bits), uid), true
	}
	return uint32(bits), true
}

// UIDOrdered reports whether OrderUID made the uid.
func UIDOrdered(uid string) bool {
	bits, ok := boundBits(uid)
	return ok && bits&uidOrdered != 0
}

// boundBits are the bits that bind wrote.
func boundBits(uid string) (bits uint64, ok bool) {
	if len(uid) != uidLen {
		return 0, false
	}
	for i := uidFree; i < uidLen; i++ {
		digit := strings.IndexByte(uidAlphabet, uid[i])
		if digit < 0 {
			return 0, false
		}
		bits = bits*32 + uint64(digit)
	}
	return bits, true
}
