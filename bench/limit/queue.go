// Package limit is what a delay queue for webhooks could do at best on the same
// transport: a pipeline without features, made by hand. Jobs are added, made
// due, claimed and finished in batches, each one round trip, and sent by
// net/http. What a dead process had claimed could be found and put back; nobody
// does. There is no ladder of retries, no lanes, no fairness, no limits, no
// breakers, no tokens, no states, no listing, no cancelling, no guard, no
// metrics.
package limit

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// The keys: when jobs are due, those to be sent now, what is claimed until
// when, and the jobs' content by id.
const (
	dueKey     = "limit:due"
	readyKey   = "limit:ready"
	claimedKey = "limit:claimed"
	jobPrefix  = "limit:job:"
)

const (
	// lease is how long a claimed job is somebody's.
	lease = 20 * time.Second
	// readyCap is how long the list of those to be sent may become.
	readyCap = 1000
)

// clockLua is Redis's time in milliseconds.
const clockLua = `
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
`

// carryScript moves jobs that are due to the ready list, and says how many.
//
// KEYS due ready
// ARGV most cap
var carryScript = redis.NewScript(clockLua + `
local room = math.min(ARGV[1], ARGV[2] - redis.call('LLEN', KEYS[2]))
if room <= 0 then
  return 0
end
local ids = redis.call('ZRANGE', KEYS[1], '-inf', now, 'BYSCORE', 'LIMIT', 0, room)
if #ids > 0 then
  redis.call('ZREM', KEYS[1], unpack(ids))
  redis.call('RPUSH', KEYS[2], unpack(ids))
end
return #ids
`)

// claimScript takes jobs off the ready list, and gives them with their content.
//
// KEYS ready claimed
// ARGV most lease prefix
var claimScript = redis.NewScript(clockLua + `
local ids = redis.call('LPOP', KEYS[1], ARGV[1])
if not ids then
  return {}
end
local claimed, keys = {}, {}
for i, id in ipairs(ids) do
  claimed[2 * i - 1], claimed[2 * i] = now + ARGV[2], id
  keys[i] = ARGV[3] .. id
end
redis.call('ZADD', KEYS[2], unpack(claimed))
return { ids, redis.call('MGET', unpack(keys)) }
`)

// Job is one callback.
type Job struct {
	ID, URL string
	Body    []byte
	Due     time.Time
}

// Queue is the queue in Redis.
type Queue struct{ db *redis.Client }

// Open opens the queue of a redis:// URL.
func Open(url string) (*Queue, error) {
	o, err := redis.ParseURL(url)
	if err != nil {
		return nil, err
	}
	return &Queue{redis.NewClient(o)}, nil
}

// Close closes the connections.
func (q *Queue) Close() error { return q.db.Close() }

// Add adds a batch.
func (q *Queue) Add(ctx context.Context, jobs []Job) error {
	contents := make([]any, 0, 2*len(jobs))
	due := make([]redis.Z, len(jobs))
	for i, j := range jobs {
		contents = append(contents, jobPrefix+j.ID, j.URL+"\n"+string(j.Body))
		due[i] = redis.Z{Score: float64(j.Due.UnixMilli()), Member: j.ID}
	}
	_, err := q.db.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.MSet(ctx, contents...)
		p.ZAdd(ctx, dueKey, due...)
		return nil
	})
	return err
}

// carry makes up to most jobs ready that are due.
func (q *Queue) carry(ctx context.Context, most int) (int, error) {
	return carryScript.Run(ctx, q.db, []string{dueKey, readyKey}, most, readyCap).Int()
}

// claim takes up to most jobs that are ready.
func (q *Queue) claim(ctx context.Context, most int) ([]Job, error) {
	reply, err := claimScript.Run(ctx, q.db, []string{readyKey, claimedKey}, most, lease.Milliseconds(), jobPrefix).Slice()
	if err != nil || len(reply) == 0 {
		return nil, err
	}
	ids, _ := reply[0].([]any)
	contents, _ := reply[1].([]any)
	if len(ids) == 0 || len(ids) != len(contents) {
		return nil, fmt.Errorf("%d jobs with %d contents", len(ids), len(contents))
	}
	jobs := make([]Job, len(ids))
	for i := range ids {
		content, _ := contents[i].(string)
		url, body, _ := strings.Cut(content, "\n")
		id, _ := ids[i].(string)
		jobs[i] = Job{ID: id, URL: url, Body: []byte(body)}
	}
	return jobs, nil
}

// finish forgets the jobs that were delivered, and makes the failed due again.
func (q *Queue) finish(ctx context.Context, delivered, failed []string, again time.Time) error {
	keys := make([]string, len(delivered))
	ended := make([]any, 0, len(delivered)+len(failed))
	for i, id := range delivered {
		keys[i] = jobPrefix + id
		ended = append(ended, id)
	}
	due := make([]redis.Z, len(failed))
	for i, id := range failed {
		due[i] = redis.Z{Score: float64(again.UnixMilli()), Member: id}
		ended = append(ended, id)
	}
	_, err := q.db.Pipelined(ctx, func(p redis.Pipeliner) error {
		if len(keys) > 0 {
			p.Del(ctx, keys...)
		}
		if len(due) > 0 {
			p.ZAdd(ctx, dueKey, due...)
		}
		p.ZRem(ctx, claimedKey, ended...)
		return nil
	})
	return err
}
