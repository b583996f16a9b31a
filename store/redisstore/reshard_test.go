package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/redis/go-redis/v9"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/testing/must"
	"github.com/duehook/duehook/internal/testing/testenv"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/listing"
)

// filled is a namespace with jobs in all states, and what else there is.
type filled struct {
	nodes
	keys []job.Key
	jobs map[job.Key]job.Job
	logs map[job.Key][]job.Attempt
}

const slow = "http://slow.example:80"

// fill fills a namespace with jobs.
func fill(n nodes, each int) *filled {
	n.Helper()
	f := &filled{nodes: n, jobs: map[job.Key]job.Job{}, logs: map[job.Key][]job.Attempt{}}
	s := n.open()
	ctx := n.Context()
	for _, kind := range []string{"delivered", "dead", "retrying", "cancelled", "waiting", "running", "ready"} {
		var regs []store.Registration
		for i := range each {
			r := someJob(kind, fmt.Sprint("j", i))
			r.Spec.BizKey = fmt.Sprint("biz", i%3)
			if kind == "waiting" {
				r.Spec.When.Delay = time.Duration(i+1) * time.Hour
				r.Spec.TTL = 100 * time.Hour * time.Duration(i%2)
				r.Spec.Destination = slow + "/hook"
			}
			regs = append(regs, r)
			f.keys = append(f.keys, r.Key)
		}
		_, err := s.Register(ctx, regs)
		n.ok(err)
		f.bring(s, kind)
	}
	n.ok(s.SetLimits(ctx, "waiting", store.Limits{Paused: true, Capacity: 1000, Rate: 5}))
	n.ok(s.SetCircuit(ctx, slow, store.CircuitOpen, time.Hour))
	_, err := store.PutDocument(ctx, s, store.Document{Kind: "topic", Name: "waiting", Data: []byte("{}")})
	n.ok(err)
	for _, key := range f.keys {
		j, err := s.Get(ctx, key)
		n.ok(err)
		if !j.State.Final() {
			j.State = j.Pending() // it is not in flight any more
		}
		f.jobs[key] = j
		f.logs[key], err = store.Attempts(ctx, s, key)
		n.ok(err)
	}
	n.ok(s.Close())
	return f
}

// bring takes jobs to the state of their topic's name.
func (f *filled) bring(s *Store, kind string) {
	f.Helper()
	ctx := f.Context()
	if kind == "cancelled" {
		for i := range len(f.keys) {
			if f.keys[i].Topic == kind {
				_, err := s.Update(ctx, f.keys[i], func(j *job.Job, now job.Instant) error { _, err := j.Cancel(now); return err })
				f.ok(err)
			}
		}
	}
	if kind == "cancelled" || kind == "waiting" {
		return
	}
	for shard := range s.Shards() {
		_, err := s.Carry(ctx, shard, store.CarryOptions{Cap: 10_000, Visibility: time.Hour, FlightLimits: store.FlightLimits{HalfOpenLimit: 10}})
		f.ok(err)
		if kind == "ready" {
			continue
		}
		hints, err := s.Pop(ctx, shard, 500, 0)
		f.ok(err)
		claims, err := s.Claim(ctx, shard, hints, store.ClaimOptions{Nonce: fmt.Sprint(kind, shard), Lease: time.Hour, By: "n"})
		f.ok(err)
		if kind == "running" {
			continue
		}
		var done []job.Settlement
		for _, c := range claims {
			o := job.Outcome{Kind: job.OutcomeFailed, Attempt: &job.Attempt{Number: 1, StartedAt: c.Now, Status: 500, ResponseBody: "no"}}
			if kind == "delivered" {
				o.Kind = job.OutcomeDelivered
			}
			done = append(done, job.Settle(&c.Job, o, func(int) (time.Duration, bool) { return time.Hour, kind == "retrying" }))
		}
		_, err = s.Settle(ctx, done)
		f.ok(err)
	}
}

// holds expects everything as it was, in so many shards.
func (f *filled) holds(shards int) {
	f.Helper()
	s := f.with(shards).open()
	ctx := f.Context()
	states := map[job.State]int64{}
	for key, want := range f.jobs {
		got, err := s.Get(ctx, key)
		f.ok(err)
		must.Same(f, key.String(), got, want, cmpopts.EquateEmpty())
		log, err := store.Attempts(ctx, s, key)
		f.ok(err)
		must.Same(f, fmt.Sprintf("log of %s", key), log, f.logs[key], cmpopts.EquateEmpty())
		states[want.State]++
	}
	d, err := listing.Depth(ctx, s)
	f.ok(err)
	var want, got Census
	for state, n := range states {
		want.add(state, n)
	}
	for state, n := range d.States {
		got.add(state, n)
	}
	must.Equal(f, "counts", got, want)
	limits, err := listing.Limits(ctx, s)
	f.ok(err)
	must.Same(f, "limits", limits, map[string]store.Limits{"waiting": {Paused: true, Capacity: 1000, Rate: 5}})
	if doc, err := store.ReadDocument(ctx, s, "topic", "waiting"); err != nil || doc.Version != 1 {
		f.Errorf("document: %+v, %v", doc, err)
	}
	open, err := listing.Endpoints(ctx, s, store.EndpointQuery{States: []store.CircuitState{store.CircuitOpen}, Limit: 10})
	f.ok(err)
	if len(open.Endpoints) != 1 || open.Endpoints[0].Endpoint != slow {
		f.Errorf("open circuits: %+v", open)
	}
	for _, q := range []store.Query{{}, {BizKey: "biz1"}, {Topic: "dead", States: []job.State{job.Dead}}, {Topic: "retrying"}} {
		n, matching := 0, 0
		for _, j := range f.jobs {
			if q.Matches(&j) {
				matching++
			}
		}
		for q.Limit = 100; ; {
			page, err := listing.List(ctx, s, q)
			f.ok(err)
			n += len(page.Jobs)
			if q.Cursor = page.Next; q.Cursor == "" {
				break
			}
		}
		must.Equal(f, fmt.Sprintf("%+v lists", q), n, matching)
	}
	groups, err := listing.DeadGroups(ctx, s, "", 10, "")
	f.ok(err)
	if len(groups.Groups) != 1 || groups.Groups[0].Count != states[job.Dead] {
		f.Errorf("dead letters: %+v", groups)
	}
}

// works expects that what is due is carried and claimed once, all of it.
func (f *filled) works(shards int) {
	f.Helper()
	s := f.with(shards).open()
	seen := map[job.Key]bool{}
	for shard := range s.Shards() {
		_, err := s.Carry(f.Context(), shard, store.CarryOptions{Cap: 10_000, Visibility: time.Hour, FlightLimits: store.FlightLimits{HalfOpenLimit: 10}})
		f.ok(err)
		hints, err := s.Pop(f.Context(), shard, 500, 0)
		f.ok(err)
		claims, err := s.Claim(f.Context(), shard, hints, store.ClaimOptions{Nonce: fmt.Sprint("works", shard), Lease: time.Hour, By: "n"})
		f.ok(err)
		for _, c := range claims {
			seen[c.Job.Key] = true
		}
	}
	for key, j := range f.jobs {
		if due := !j.State.Final() && j.Topic != "waiting" && j.Topic != "retrying"; seen[key] != due {
			f.Errorf("%s is %s; claimed: %v", key, j.State, seen[key])
		}
	}
}

func (f *filled) reshard(shards int, more ...func(*ReshardOptions)) (Resharding, error) {
	o := ReshardOptions{Options: f.with(shards).Options, Quiet: time.Millisecond, Patience: 100 * time.Millisecond}
	for _, m := range more {
		m(&o)
	}
	return Reshard(f.Context(), o)
}

func TestReshard(t *testing.T) {
	t.Parallel()
	r := testenv.StartRedis(t)
	for _, steps := range [][]int{{1, 4}, {3, 5, 2}, {4, 1}, {8, 7}} {
		t.Run(fmt.Sprint(steps), func(t *testing.T) {
			f := fill(newNodes(t, r.URL(), steps[0]), 30)
			for _, shards := range steps[1:] {
				report, err := f.reshard(shards)
				f.ok(err)
				if !report.Done || report.Before != report.After || report.Before.Jobs() != int64(len(f.keys)) || report.Moved != int64(len(f.keys)) {
					t.Errorf("report: %+v", report)
				}
				f.holds(shards)
				f.refuses(f.with(shards + 1).open())
				if again, err := f.reshard(shards); err != nil || !again.Done || again.Moved != 0 {
					t.Errorf("again: %+v, %v", again, err)
				}
			}
			last := steps[len(steps)-1]
			f.works(last)
			// Nothing is left where nothing belongs.
			tags := map[string]bool{}
			for n := range last {
				tags[newShardKeys(shardTag(f.Namespace, n, last)).prefix] = true
			}
			s := f.with(last).open()
			f.ok(s.eachKey(t.Context(), "duehook:{"+f.Namespace+":*", func(keys []string) error {
				for _, key := range keys {
					if at := strings.Index(key, "}:"); !tags[key[:at+2]] {
						t.Errorf("%s is left", key)
					}
				}
				return nil
			}))
		})
	}
}

// A run that is broken off anywhere is gone on with by the next one.
func TestReshardIsResumed(t *testing.T) {
	t.Parallel()
	r := testenv.StartRedis(t)
	f := fill(newNodes(t, r.URL(), 3), 12)
	runs := 0
	for {
		runs++
		report, err := f.reshard(5, func(o *ReshardOptions) { o.hook = &breaks{after: int64(25 + runs)} })
		if err == nil {
			if !report.Resumed || report.Before != report.After {
				t.Errorf("report: %+v", report)
			}
			break
		}
		if !errors.Is(err, errBroken) {
			t.Fatal(err)
		}
		f.refuses(f.with(3).open())
		f.refuses(f.with(5).open(), "duehook reshard --shards 5")
		if _, err := f.reshard(4); err == nil {
			t.Error("another number was taken meanwhile")
		}
	}
	if runs < 5 {
		t.Errorf("it was broken off %d times", runs-1)
	}
	f.holds(5)
	f.works(5)
}

var errBroken = errors.New("broken off")

// breaks ends a run after so many commands that move something.
type breaks struct {
	after int64
	n     atomic.Int64
}

func (b *breaks) DialHook(next redis.DialHook) redis.DialHook { return next }

func (b *breaks) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if name := strings.ToLower(cmd.Name()); (name == "evalsha" || name == "eval" || name == "hsetnx" || name == "unlink") && b.n.Add(1) > b.after {
			cmd.SetErr(errBroken)
			return errBroken
		}
		return next(ctx, cmd)
	}
}

func (b *breaks) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// A scan of Redis may find a job several times. It is moved and counted once.
func TestReshardMovesOnce(t *testing.T) {
	t.Parallel()
	f := fill(newNodes(t, testenv.StartRedis(t).URL(), 1), 10)
	report, err := f.reshard(2, func(o *ReshardOptions) { o.hook = &repeats{} })
	f.ok(err)
	if report.Moved != int64(len(f.keys)) || report.After != report.Before {
		t.Errorf("report: %+v", report)
	}
	f.holds(2)
}

// repeats gives whatever a scan of a hash finds twice.
type repeats struct{ breaks }

func (*repeats) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if scan, is := cmd.(*redis.ScanCmd); is && err == nil {
			found, cursor := scan.Val()
			scan.SetVal(slices.Concat(found, found), cursor)
		}
		return err
	}
}

func TestReshardRefuses(t *testing.T) {
	t.Parallel()
	r := testenv.StartRedis(t)
	n := newNodes(t, r.URL(), 2)
	f := &filled{nodes: n}
	if _, err := f.reshard(3); err == nil || !strings.Contains(err.Error(), "does not exist in Redis") {
		t.Errorf("of nothing: %v", err)
	}
	s := n.open()
	n.register(s, 5)
	if taken, err := s.Locker(1).TryLock(t.Context(), time.Hour); !taken || err != nil {
		t.Fatal(taken, err)
	}
	if _, err := f.reshard(3); !errors.Is(err, ErrInUse) {
		t.Errorf("while a node is at work: %v", err)
	}
	n.ok(s.Ping(t.Context()))
	// One that cannot be read stays, and is told of.
	n.ok(s.db.Del(t.Context(), s.shards[1].lock).Err())
	sh := s.shards[0]
	bad := job.Key{}
	for i := 0; bad.ID == "" || s.shardOf(bad) != 0 || shardIndex(bad, 3) == 0; i++ {
		bad = job.Key{Topic: "t", ID: fmt.Sprint("bad", i)}
	}
	_, err := s.Register(t.Context(), []store.Registration{someJob("t", bad.ID)})
	n.ok(err)
	n.ok(s.db.HSet(t.Context(), sh.page(bad), bad.String(), "?").Err())
	report, err := f.reshard(3)
	if err != nil || report.Unreadable != 1 || !report.Done {
		t.Errorf("report %+v, error %v", report, err)
	}
}

func TestReshardOnACluster(t *testing.T) {
	t.Parallel()
	servers := testenv.StartRedisCluster(t, 3)
	addresses := make([]string, len(servers))
	for i, r := range servers {
		addresses[i] = r.Addr()
	}
	f := fill(newNodes(t, "redis-cluster://"+strings.Join(addresses, ","), 3), 20)
	report, err := f.reshard(6)
	f.ok(err)
	if !report.Done || report.Moved == 0 {
		t.Errorf("report: %+v", report)
	}
	f.holds(6)
	f.works(6)
}
