package redisstore

import (
	"errors"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

// shardKeys has the keys of one shard. They share a hash tag, so that they are in one slot
// of a Redis Cluster and a script may use them together.
type shardKeys struct {
	prefix string // "duehook:{tag}:"

	lanes    string // ZSET lane -> the time of its next visit
	counts   string // HASH topic|state -> how many jobs; also |state of all, and =endpoint|state of unfinished ones
	deads    string // ZSET names of the groups of dead letters, all with the score 0
	circuits string // HASH endpoint -> its circuit: "open-until half-open-until", then "ramp-start"
	topics   string // HASH topic -> its limits, see lua/lib/limits.lua
	tokens   string // HASH topic -> when its rate allows the next job
	places   string // ZSET lanes that wait for a place, all with the score 0
	ranks    string // ZSET lanes with a priority, all with the score 0
	index    string // ZSET t<topic>, d<topic>, l<lane> and e<endpoint> <lane>, all with the score 0: what is found by name
	busy     string // ZSET topic|state of many jobs that wait -> about how many
	ends     string // ZSET topic -> when its first ended job ended or earlier; dead letters do not count
	ready    string // LIST of hints
	plan     string // number of the last change that makes plans of carrying old
	lock     string // the carrier's
	wake     string // channel: an earlier job arrived
	mark     string // written before replicas are waited for

	jobs [pages]string // HASHes topic/id -> record

	own map[*redis.Script][]string // the shard's keys with which the keys of scripts begin
}

// pages is how many hashes a shard's records are spread over: as an entry of a hash, a
// record takes less than as a key of its own. With a single hash, a slot of millions of
// jobs could not move to another node of a Cluster, because Redis moves it key by key.
const pages = 16

func newShardKeys(tag string) shardKeys {
	p := "duehook:{" + tag + "}:"
	k := shardKeys{
		prefix: p, lanes: p + "lanes", counts: p + "counts", deads: p + "deads", circuits: p + "circuits",
		topics: p + "topics", tokens: p + "tokens", places: p + "places", ranks: p + "ranks",
		index: p + "index", busy: p + "busy", ends: p + "endings",
		ready: p + "ready", plan: p + "plan", lock: p + "lock", wake: p + "wake", mark: p + "mark",
	}
	for n := range k.jobs {
		k.jobs[n] = p + "jobs:" + strconv.Itoa(n)
	}
	k.own = ownKeysOf(p)
	return k
}

// page is where the job's record is, under key.String(). Other bits of the hash
// choose the shard.
func (k *shardKeys) page(key job.Key) string { return k.pageOf(store.KeyHash(key)) }

func (k *shardKeys) pageOf(hash uint32) string { return k.jobs[hash>>24%pages] }

func (k *shardKeys) bucket(lane string) string { return k.prefix + "bucket:" + lane }
func (k *shardKeys) dead(group string) string  { return k.prefix + "dead:" + group }
func (k *shardKeys) ended(topic string) string { return k.prefix + "ended:" + topic }

// named is the index of the jobs of a biz_key, or of a listing.GroupIndex.
func (k *shardKeys) named(name string) string { return k.prefix + "biz:" + name }

// counted is the HASH of a counted job, by its uid; see lua/count.lua.
func (k *shardKeys) counted(uid string) string { return k.prefix + "counted:" + uid }

// shardOf spreads jobs over shards by their key.
func (s *Store) shardOf(key job.Key) int {
	return shardIndex(key, len(s.shards))
}

func (s *Store) shardOfHash(hash uint32) int { return int(hash % uint32(len(s.shards))) }

// shardIndex is which of so many shards a job belongs to.
func shardIndex(key job.Key, shards int) int {
	if shards == 1 {
		return 0
	}
	return int(store.KeyHash(key) % uint32(shards))
}

// A hint on the ready list is "lane|id". Ids contain no bar.
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
