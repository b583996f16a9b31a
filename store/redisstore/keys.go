package redisstore

import (
	"errors"
	"hash/fnv"
	"strings"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

// shardKeys names the keys of one shard. They share a hash tag, so that they
// lie in one slot of a Redis Cluster and a script may touch them together.
type shardKeys struct {
	prefix string // "duehook:{tag}:"

	lanes  string // ZSET lane -> when it next needs a look
	counts string // HASH topic|state -> how many jobs
	out    string // HASH endpoint -> how many of its jobs are carried or claimed
	held   string // HASH endpoint -> "held-until probed-until", then "ramp-start"
	ready  string // LIST of hints
	lock   string // the carrier's
	wake   string // channel: an earlier job arrived
	mark   string // written before replicas are waited for
}

func newShardKeys(tag string) shardKeys {
	p := "duehook:{" + tag + "}:"
	return shardKeys{
		prefix: p, lanes: p + "lanes", counts: p + "counts", out: p + "out", held: p + "held",
		ready: p + "ready", lock: p + "lock", wake: p + "wake", mark: p + "mark",
	}
}

func (k *shardKeys) job(key job.Key) string    { return k.prefix + "job:" + key.Topic + "/" + key.ID }
func (k *shardKeys) bucket(lane string) string { return k.prefix + "bucket:" + lane }
func (k *shardKeys) dead(topic string) string  { return k.prefix + "dead:" + topic }
func (k *shardKeys) ended(topic string) string { return k.prefix + "ended:" + topic }
func (k *shardKeys) biz(bizKey string) string  { return k.prefix + "biz:" + bizKey }

// shardOf spreads jobs over shards by their key.
func (s *Store) shardOf(key job.Key) int {
	if len(s.shards) == 1 {
		return 0
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(key.Topic)) // a hash's Write never fails
	_, _ = h.Write([]byte{'/'})
	_, _ = h.Write([]byte(key.ID))
	return int(h.Sum32() % uint32(len(s.shards)))
}

// bizMember is the job's entry in its biz_key's index, or empty without one.
func bizMember(key job.Key, bizKey string) string {
	if bizKey == "" {
		return ""
	}
	return key.String()
}

// A hint on the ready list is "topic|endpoint|id". None of the parts can hold
// a bar.
func parseHint(s string) (store.Hint, error) {
	at := strings.LastIndexByte(s, '|')
	if at < 0 {
		return store.Hint{}, errors.New("not a hint")
	}
	lane, err := job.ParseLane(s[:at])
	if err != nil {
		return store.Hint{}, err
	}
	return store.Hint{Lane: lane, ID: s[at+1:]}, nil
}
