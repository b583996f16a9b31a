package redisstore

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/testing/testenv"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/storetest"
)

// The many due lanes of a topic that has no more places are put aside together: a lane of another topic, due after
// them, is carried in the next round. Each of them is carried as soon as places come free.
func TestCrowd(t *testing.T) {
	t.Parallel()
	const lanes, places = 400, 10
	for name, tc := range map[string]struct {
		limits store.Limits
		ready  int // CarryOptions.Cap
	}{
		"no more hints":         {ready: places},
		"as many as may run":    {store.Limits{Concurrency: places}, 1000},
		"and with a priority":   {store.Limits{Concurrency: places, Weight: 100}, 1000},
		"fewer hints by weight": {store.Limits{Weight: 1}, 10 * places},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			s := open(t, testenv.StartRedis(t).URL(), storetest.Options{})
			t.Cleanup(func() { _ = s.Close() })
			if tc.limits != (store.Limits{}) {
				ok(t, "SetLimits", s.SetLimits(ctx, "many", tc.limits))
			}
			regs := make([]store.Registration, lanes, lanes+1)
			for n := range regs {
				regs[n] = waitingJob(n)
				regs[n].Key.Topic, regs[n].Spec.When = "many", job.When{}
				regs[n].Spec.Destination = job.Destination(fmt.Sprintf("http://%03d.example/", n))
				if tc.limits.Weight == 100 && n%2 == 0 {
					regs[n].Spec.Priority = job.PriorityOf(9)
				}
			}
			other := waitingJob(lanes)
			other.Key.Topic, other.Spec.When = "other", job.When{}
			_, err := s.Register(ctx, append(regs, other))
			ok(t, "Register", err)

			o := store.CarryOptions{Cap: tc.ready, Visibility: time.Hour, FlightLimits: store.FlightLimits{HalfOpenLimit: 1}}
			found := 0
			for round := 1; ; round++ {
				r, err := s.Carry(ctx, 0, o)
				ok(t, "Carry", err)
				for i := range r.Carried {
					if r.Carried[i].Hint.Lane.Topic == "other" {
						found = round
					}
				}
				if r.Wait != 0 {
					break
				}
				if round > 4 {
					t.Fatalf("lanes are due after %d rounds", round)
				}
			}
			if found == 0 || found > 2 {
				t.Errorf("the other topic was carried in round %d, want the second at most", found)
			}

			done := 0
			for round := 0; done < lanes+1; round++ {
				hints, err := s.Pop(ctx, 0, maxBatch, 0)
				ok(t, "Pop", err)
				claims, err := s.Claim(ctx, 0, hints, terms())
				ok(t, "Claim", err)
				settlements := make([]job.Settlement, len(claims))
				for i, c := range claims {
					settlements[i] = outcome(c, job.OutcomeDelivered)
				}
				_, err = s.Settle(ctx, settlements)
				ok(t, "Settle", err)
				done += len(claims)
				_, err = s.Carry(ctx, 0, o)
				ok(t, "Carry", err)
				if round > 2*lanes {
					t.Fatalf("%d of %d jobs ended: others wait for nothing", done, lanes+1)
				}
			}
		})
	}
}

// The lane of another topic is carried in the second round, however many lanes of one topic are due before it.
func TestALongCrowd(t *testing.T) {
	t.Parallel()
	for name, ready := range map[string]int{"without places": 10, "with places": 1000} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const lanes = 3000
			ctx := t.Context()
			s := open(t, testenv.StartRedis(t).URL(), storetest.Options{})
			t.Cleanup(func() { _ = s.Close() })
			regs := make([]store.Registration, lanes+1)
			for n := range regs {
				regs[n] = waitingJob(n)
				regs[n].Key.Topic, regs[n].Spec.When = "many", job.When{}
				regs[n].Spec.Destination = job.Destination(fmt.Sprintf("http://%04d.example/", n))
			}
			regs[lanes].Key.Topic = "other"
			for batch := range slices.Chunk(regs, maxBatch) {
				_, err := s.Register(ctx, batch)
				ok(t, "Register", err)
			}
			o := store.CarryOptions{Cap: ready, Visibility: time.Hour, FlightLimits: store.FlightLimits{HalfOpenLimit: 1}}
			carried := map[string]int{}
			for round := 1; carried["other"] == 0; round++ {
				if round > 2 {
					t.Fatalf("carried %v in two rounds", carried)
				}
				r, err := s.Carry(ctx, 0, o)
				ok(t, "Carry", err)
				for i := range r.Carried {
					carried[r.Carried[i].Hint.Lane.Topic]++
				}
			}
			for most := 2 * lanes; carried["many"] < min(ready, lanes) && most > 0; most-- {
				r, err := s.Carry(ctx, 0, o)
				ok(t, "Carry", err)
				carried["many"] += len(r.Carried)
			}
			if carried["many"] < ready-1 || carried["many"] > ready {
				t.Errorf("carried %v", carried)
			}
		})
	}
}

// If many hints of a topic are claimed together, as many of its lanes are looked at. The carrier adds those of a plan at most: it
// would put more aside again.
func TestFewLanesAreCalledWhileOthersAreDue(t *testing.T) {
	t.Parallel()
	const lanes, ready, claimed = 1000, 300, 200
	ctx := t.Context()
	s := open(t, testenv.StartRedis(t).URL(), storetest.Options{})
	t.Cleanup(func() { _ = s.Close() })
	regs := make([]store.Registration, lanes)
	for n := range regs {
		regs[n] = waitingJob(n)
		regs[n].Spec.When, regs[n].Spec.Destination = job.When{}, job.Destination(fmt.Sprintf("http://%03d.example/", n))
	}
	_, err := s.Register(ctx, regs)
	ok(t, "Register", err)
	o := store.CarryOptions{Cap: ready, Visibility: time.Hour, FlightLimits: store.FlightLimits{HalfOpenLimit: 1}}
	carry := func() store.CarryResult {
		t.Helper()
		r, err := s.Carry(ctx, 0, o)
		ok(t, "Carry", err)
		return r
	}
	due := func() int {
		t.Helper()
		now, err := s.askNow(ctx, s.shards[0])
		ok(t, "time", err)
		n, err := s.db.ZCount(ctx, s.shards[0].lanes, "-inf", strconv.FormatInt(int64(now), 10)).Result()
		ok(t, "ZCOUNT", err)
		return int(n)
	}
	for carry().Wait == 0 {
	}
	hints, err := s.Pop(ctx, 0, claimed, 0)
	ok(t, "Pop", err)
	_, err = s.Claim(ctx, 0, hints, terms())
	ok(t, "Claim", err)
	if n := due(); n != claimed {
		t.Fatalf("%d lanes are due after %d claims", n, claimed)
	}
	for left := claimed; left > 0; {
		r := carry()
		left -= len(r.Carried)
		if n := due(); len(r.Carried) == 0 || n < left || n > left+lanesAtOnce {
			t.Fatalf("%d were carried, %d have a hint to come, and %d lanes are due", len(r.Carried), left, n)
		}
	}
}

// While a script runs, Redis serves nobody else. So jobs in many lanes are claimed and settled by several scripts, and a
// repeated claim returns the same.
func TestManyLanesTakeSeveralScripts(t *testing.T) {
	t.Parallel()
	const lanes = 2*maxLanes + 1
	ctx := t.Context()
	s := open(t, testenv.StartRedis(t).URL(), storetest.Options{})
	t.Cleanup(func() { _ = s.Close() })
	regs := make([]store.Registration, lanes)
	for n := range regs {
		regs[n] = waitingJob(n)
		regs[n].Spec.When, regs[n].Spec.Destination = job.When{}, job.Destination(fmt.Sprintf("http://%03d.example/", n))
	}
	_, err := s.Register(ctx, regs)
	ok(t, "Register", err)
	var hints []store.Hint
	for len(hints) < lanes {
		r, err := s.Carry(ctx, 0, store.CarryOptions{Cap: 1000, Visibility: time.Hour, FlightLimits: store.FlightLimits{HalfOpenLimit: 1}})
		ok(t, "Carry", err)
		for i := range r.Carried {
			hints = append(hints, r.Carried[i].Hint)
		}
	}
	most := &mostKeys{}
	s.db.AddHook(most)
	o := terms()
	claims, err := s.Claim(ctx, 0, hints, o)
	ok(t, "Claim", err)
	again, err := s.Claim(ctx, 0, append(hints, hints[0]), o)
	ok(t, "Claim", err)
	tokens := func(of []store.Claimed) map[job.Key]uint64 {
		all := map[job.Key]uint64{}
		for i := range of {
			all[of[i].Job.Key] = of[i].Job.Token
		}
		return all
	}
	if len(claims) != lanes || len(again) != lanes || !maps.Equal(tokens(claims), tokens(again)) {
		t.Errorf("claimed %d jobs, and again %d; want %d, the same", len(claims), len(again), lanes)
	}
	settlements := make([]job.Settlement, len(claims))
	for i, c := range claims {
		settlements[i] = outcome(c, job.OutcomeDelivered)
	}
	settled, err := s.Settle(ctx, settlements)
	ok(t, "Settle", err)
	for i := range settled {
		if settled[i].Status != store.Applied {
			t.Fatalf("job %d is %v", i, settled[i].Status)
		}
	}
	if limit := int64(2*maxLanes + 100); most.n.Load() < maxLanes || most.n.Load() > limit {
		t.Errorf("a script had %d keys, want %d at most", most.n.Load(), limit)
	}
}

// mostKeys notes the most keys that a script had.
type mostKeys struct {
	breaks
	n atomic.Int64
}

func (m *mostKeys) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "evalsha" {
			if keys, ok := cmd.Args()[2].(int); ok && int64(keys) > m.n.Load() {
				m.n.Store(int64(keys))
			}
		}
		return next(ctx, cmd)
	}
}

// If hints of the topic are claimed after the plan was made, lanes that it put aside are looked at.
func TestOldPlanOfACrowd(t *testing.T) {
	t.Parallel()
	p := newPlanned(t)
	for n := range 2 * lanesAtOnce {
		p.register(100+n, func(r *store.Registration) {
			r.Key.Topic, r.Spec.Destination = "many", job.Destination(fmt.Sprintf("http://%03d.example/", n))
		})
	}
	carried := map[string]int{}
	carry := func() {
		t.Helper()
		r, err := p.a.Carry(t.Context(), 0, store.CarryOptions{Cap: 10, Visibility: time.Hour, FlightLimits: store.FlightLimits{HalfOpenLimit: 1}})
		ok(t, "Carry", err)
		for i := range r.Carried {
			carried[r.Carried[i].Hint.Lane.Topic]++
		}
	}
	carry() // finds out that there is a crowd
	p.between = func() {
		ok(t, "forget the lanes that wait already", p.b.db.Del(t.Context(), p.b.shards[0].places).Err())
		hints, err := p.b.Pop(t.Context(), 0, 100, 0)
		ok(t, "Pop", err)
		_, err = p.b.Claim(t.Context(), 0, hints, terms())
		ok(t, "Claim", err)
	}
	carry()
	before := carried["many"]
	carry()
	if p.between != nil || carried["many"] == before {
		t.Errorf("carried %v: no lane was looked at after a place came free", carried)
	}
}
