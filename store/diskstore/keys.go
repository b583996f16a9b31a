package diskstore

import (
	"encoding/binary"

	"github.com/duehook/duehook/internal/job"
)

// Every row of the engine belongs to a family, which is the first byte of its key. Names
// contain no zero byte, so that it can end them.
const (
	famKey    = 'k' // topic, id: where the record is
	famJob    = 'r' // time, seq: the record of an unfinished job, by when it needs attention
	famEnded  = 'e' // time, seq: the record of an ended job, by its end
	famKept   = 'h' // time, seq: the same of jobs for which job.Spec.KeepsEnd is true
	famDead   = 'x' // time, seq: the record of a dead letter, by its end
	famLane   = 'i' // lane, section, time, id: an entry of a bucket
	famTopic  = 'f' // topic, time, id: an entry of the ended jobs
	famLetter = 'd' // dead group, time, id: an entry of the dead letters
	famBiz    = 'b' // biz_key, topic/id
	famGroup  = 'g' // group id, topic/id
	famUID    = 'u' // uid: topic/id
	famClaim  = 'c' // place of the record: the claim of a running job
	famCount  = 'n' // uid, key that was counted
	famOrder  = 'o' // topic/order_key: its head
	famQueue  = 'q' // topic/order_key, turn: the id of a job behind the head
	famDoc    = 'D' // kind, name: a document

	famLaneCounts  = 'L' // lane
	famTopicCounts = 'T' // topic
	famGroupCount  = 'G' // dead group
	famMeta        = 'S' // figures of the store
)

// Sections of a bucket.
const (
	secDue    = 1 // waits for its time
	secParked = 2 // waits for another job of its order key
)

// place is the key of a record: a family, a time and a number that makes it unique.
type place struct {
	family byte
	at     job.Instant
	seq    uint64
}

const placeSize = 17

func (p place) append(b []byte) []byte {
	return binary.BigEndian.AppendUint64(appendTime(append(b, p.family), p.at), p.seq)
}

func (p place) key() []byte { return p.append(make([]byte, 0, placeSize)) }

func parsePlace(b []byte) place {
	return place{b[0], parseTime(b[1:]), binary.BigEndian.Uint64(b[9:])}
}

// appendTime keeps the order of times, negative ones included.
func appendTime(b []byte, at job.Instant) []byte {
	return binary.BigEndian.AppendUint64(b, uint64(at)^1<<63)
}

func parseTime(b []byte) job.Instant { return job.Instant(binary.BigEndian.Uint64(b) ^ 1<<63) }

// row is a key of a family: names, each with a zero byte behind it but the last.
func row(family byte, names ...string) []byte {
	n := 1
	for _, name := range names {
		n += len(name) + 1
	}
	b := append(make([]byte, 0, n+9), family)
	for i, name := range names {
		if b = append(b, name...); i < len(names)-1 {
			b = append(b, 0)
		}
	}
	return b
}

// prefix is how the rows of a name begin.
func prefix(family byte, name string) []byte { return append(row(family, name), 0) }

// timed is a row of a name that is sorted by time and id.
func timed(family byte, name string, at job.Instant, id string) []byte {
	return append(appendTime(prefix(family, name), at), id...)
}

// bucketPrefix is how the entries of a section of a lane begin.
func bucketPrefix(lane string, section byte) []byte { return append(prefix(famLane, lane), section) }

func bucketRow(lane string, section byte, at job.Instant, id string) []byte {
	return append(appendTime(bucketPrefix(lane, section), at), id...)
}

// cutTimed returns the time and the id behind a prefix.
func cutTimed(key []byte, prefix int) (job.Instant, string) {
	return parseTime(key[prefix:]), string(key[prefix+8:])
}

// end is the first key behind all keys with a prefix.
func end(prefix []byte) []byte {
	b := append([]byte(nil), prefix...)
	b[len(b)-1]++
	return b
}

// past is the first key behind key.
func past(key []byte) []byte { return append(append(make([]byte, 0, len(key)+1), key...), 0) }
