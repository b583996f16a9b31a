package importer

import (
	"context"
	"errors"
	"iter"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/tinylib/msgp/msgp"

	"github.com/duehook/duehook/client"
)

// ouqiang reads the buckets of ouqiang/delay-queue, then its ready queues: that is the way of its jobs.
func (r *reader) ouqiang(ctx context.Context) iter.Seq2[Job, error] {
	return func(yield func(Job, error) bool) {
		buckets, err := r.keys(ctx, strings.Replace(r.Set["bucket_name"], "%d", "*", 1))
		var queues []string
		if err == nil {
			queues, err = r.keys(ctx, strings.Replace(r.Set["queue_name"], "%s", "*", 1))
		}
		if err == nil && len(buckets)+len(queues) == 0 {
			err = r.nothing(ctx, "buckets "+r.Set["bucket_name"]+" and no ready queues "+r.Set["queue_name"])
		}
		if err != nil {
			yield(Job{}, err)
			return
		}
		for _, key := range buckets {
			if !r.pool(ctx, r.scored(ctx, key), yield) {
				return
			}
		}
		for _, key := range queues {
			if !r.pool(ctx, r.listed(ctx, key, true), yield) {
				return
			}
		}
	}
}

// pool looks ids up in the job pool. A job without an entry there was deleted.
func (r *reader) pool(ctx context.Context, pages iter.Seq2[[]entry, error], yield func(Job, error) bool) bool {
	return r.found(ctx, pages, func(p redis.Pipeliner, id string) *redis.StringCmd { return p.Get(ctx, id) }, func(e entry, data []byte) bool {
		return yield(r.ouqiangJob(e, data), nil)
	}, yield)
}

// ouqiangJob translates a job of the pool. Its members are named by numbers.
func (r *reader) ouqiangJob(e entry, data []byte) Job {
	fields, _, err := msgp.ReadMapStrIntfBytes(data, nil)
	topic, _ := fields["1"].(string)
	body, _ := fields["5"].(string)
	delay, ttr := number(fields["3"]), number(fields["4"])
	// The score of a job that was fetched is when it is due again. That of one that was pushed
	// again may be old.
	at := time.Unix(e.score, 0)
	if due := time.Unix(delay, 0); e.score == 0 || due.After(r.Clock.Now()) {
		at = due
	}
	j := Job{Registration: r.registration(topic, e.id, "", at, []byte(body))}
	if err != nil || topic == "" {
		j.Err = errors.New("it is no job of delay-queue")
	}
	if !r.Pull && ttr > 0 {
		j.Registration.Timeout = client.Duration(min(time.Duration(min(ttr, math.MaxInt32))*time.Second, longestTimeout))
	}
	return j
}

// longestTimeout is the longest timeout of a server without --max-timeout.
const longestTimeout = time.Minute

// number is a whole number of MessagePack; 0 for others.
func number(value any) int64 {
	switch n := value.(type) {
	case int64:
		return n
	case uint64:
		return int64(n)
	}
	return 0
}

// keys are the keys that fit a pattern in which * alone is special, sorted.
func (r *reader) keys(ctx context.Context, pattern string) ([]string, error) {
	pattern = strings.NewReplacer(`\`, `\\`, "?", `\?`, "[", `\[`).Replace(pattern)
	var found []string
	for cursor := uint64(0); ; {
		page, next, err := r.redis.Scan(ctx, cursor, pattern, 1000).Result()
		if err != nil {
			return nil, r.explain(err)
		}
		if found = append(found, page...); next == 0 {
			slices.Sort(found)
			return slices.Compact(found), nil
		}
		cursor = next
	}
}
