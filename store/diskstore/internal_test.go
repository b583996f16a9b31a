package diskstore

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/google/go-cmp/cmp"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/testing/must"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/listing"
)

// The suite of all stores cannot stop the clock; these tests can, in a bubble,
// so they check the edges of times. Some look inside.

const url = "http://a.example/hook"

var options = store.TakeOptions{Max: 1_000, Lease: time.Minute, Limits: store.FlightLimits{HalfOpenLimit: 1}}

// opened opens a store, until the test ends.
func opened(t *testing.T, o Options) *Store {
	t.Helper()
	s, err := Open(o)
	must.OK(t, err)
	t.Cleanup(func() {
		for range 2 { // the second time does nothing
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	return s.(*Store)
}

func newReg(id string, spec job.Spec) store.Registration {
	if spec.Destination == "" {
		spec.Destination = url
	}
	return store.Registration{Key: job.Key{Topic: "t", ID: id}, UID: "uid-" + id, Spec: spec}
}

func add(t *testing.T, s *Store, regs ...store.Registration) {
	t.Helper()
	results, err := s.Register(t.Context(), regs)
	must.OK(t, err)
	for _, r := range results {
		if r.Outcome != store.Created {
			t.Fatalf("outcome %d of %s", r.Outcome, r.Job.Key)
		}
	}
}

// takeIDs gives the ids taken by one call.
func takeIDs(t *testing.T, s *Store, o store.TakeOptions) ([]string, store.Taken) {
	t.Helper()
	taken, err := s.Take(t.Context(), 0, o)
	must.OK(t, err)
	var ids []string
	for _, c := range taken.Claims {
		ids = append(ids, c.Job.ID)
	}
	return ids, taken
}

func take(t *testing.T, s *Store, lease time.Duration) []store.Claimed {
	t.Helper()
	o := options
	o.Lease = lease
	_, taken := takeIDs(t, s, o)
	return taken.Claims
}

func settle(t *testing.T, s *Store, c store.Claimed, kind job.OutcomeKind) {
	t.Helper()
	o := job.Outcome{Kind: kind, Attempt: &job.Attempt{Number: c.Job.Attempts + 1, Status: 500}}
	st := job.Settle(&c.Job, o, func(int) (time.Duration, bool) { return 0, true })
	results, err := s.Settle(t.Context(), []job.Settlement{st})
	if err != nil || results[0].Status != store.Applied {
		t.Fatalf("Settle: %v, %v", results, err)
	}
}

// pass lets d pass; in a bubble that takes no time.
func pass(t *testing.T, d time.Duration) {
	t.Helper()
	must.OK(t, job.Sleep(t.Context(), job.SystemClock(), d))
}

func same(t *testing.T, what string, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("%s (-want +got):\n%s", what, diff)
	}
}

func TestTimesAreReachedToTheMillisecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := opened(t, Options{})
		o := options
		o.Lease = time.Second
		add(t, s, newReg("a", job.Spec{When: job.When{Delay: time.Second}}))
		for _, what := range []string{"the delay", "the lease", "the next lease"} {
			pass(t, 999*time.Millisecond)
			if ids, r := takeIDs(t, s, o); len(ids) > 0 || r.Wait != time.Millisecond {
				t.Fatalf("before the end of %s: taken %v, wait %v", what, ids, r.Wait)
			}
			pass(t, time.Millisecond)
			if ids, _ := takeIDs(t, s, o); len(ids) != 1 {
				t.Fatalf("at the end of %s it could not be taken", what)
			}
		}
	})
}

func TestHoldAndProbeEndOnTime(t *testing.T) {
	for hold, probe := range map[time.Duration]time.Duration{time.Second: time.Minute, time.Hour: time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			s := opened(t, Options{})
			add(t, s, newReg("a", job.Spec{}), newReg("b", job.Spec{}), newReg("c", job.Spec{}))
			must.OK(t, s.SetCircuit(t.Context(), "http://a.example:80", store.CircuitOpen, hold))
			o := options
			o.Lease = 24 * time.Hour
			_, r := takeIDs(t, s, o)
			same(t, "result while held", r, store.Taken{Wait: hold})
			pass(t, hold)
			d, err := listing.Depth(t.Context(), s)
			if err != nil || d.OpenCircuits != 0 {
				t.Fatalf("open circuits afterwards: %d, %v", d.OpenCircuits, err)
			}
			for _, want := range []int{1, 0} {
				ids, r := takeIDs(t, s, o)
				same(t, "number of probes", len(ids), want)
				same(t, "the others are looked at again before long", r.Wait > 0 && r.Wait <= 100*time.Millisecond, true)
				pass(t, (probe-time.Millisecond)*time.Duration(want))
			}
			pass(t, time.Millisecond)
			ids, _ := takeIDs(t, s, o)
			same(t, "taken after the probing", len(ids), 2)
		})
	}
}

func TestWaitIsExactAfterChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := opened(t, Options{})
		add(t, s,
			newReg("1s", job.Spec{When: job.When{Delay: time.Second}}),
			newReg("2s", job.Spec{When: job.When{Delay: 2 * time.Second}, Destination: "http://b.example/"}),
			newReg("3s", job.Spec{When: job.When{Delay: 3 * time.Second}}),
		)
		for _, id := range []string{"1s", "2s", "3s"} {
			_, r := takeIDs(t, s, options)
			same(t, "wait", r.Wait.String(), id)
			if _, err := s.Update(t.Context(), job.Key{Topic: "t", ID: id}, func(j *job.Job, now job.Instant) error {
				_, err := j.Cancel(now)
				return err
			}); err != nil {
				t.Fatal(err)
			}
		}
		_, r := takeIDs(t, s, options)
		same(t, "nothing waits", r.Wait < 0, true)
	})
}

func TestLanesTakeTurnsInDueOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := opened(t, Options{})
		const n, most = 300, 7
		for i := range n {
			add(t, s, newReg(fmt.Sprintf("a%d", i), job.Spec{}))
			add(t, s, newReg(fmt.Sprintf("b%d", i), job.Spec{Destination: "http://b.example/"}))
			pass(t, time.Millisecond)
		}
		next := map[byte]int{}
		o := options
		o.Max = most
		for next['a'] < n || next['b'] < n {
			ids, _ := takeIDs(t, s, o)
			for _, id := range ids {
				same(t, "id", id, fmt.Sprintf("%c%d", id[0], next[id[0]]))
				next[id[0]]++
			}
			if ahead := next['a'] - next['b']; max(ahead, -ahead) > most {
				t.Fatalf("one lane is %d ahead of the other", ahead)
			}
			// New arrivals push no lane ahead.
			add(t, s, newReg(fmt.Sprintf("z%v", next), job.Spec{When: job.When{Delay: time.Hour}}))
		}
	})
}

func TestAYoungerLaneNeedNotWaitForAnOlderOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := opened(t, Options{})
		o := options
		o.Max = 100
		for i := range 2 * o.Max {
			add(t, s, newReg(fmt.Sprintf("a%d", i), job.Spec{}))
		}
		pass(t, time.Millisecond)
		add(t, s, newReg("b", job.Spec{Destination: "http://b.example/"}))
		ids, _ := takeIDs(t, s, o)
		same(t, "place of the younger lane's job", ids[o.Max/2], "b")
		same(t, "taken in one call", len(ids), o.Max)
	})
}

func TestManyLanesAtTheirLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := opened(t, Options{})
		o := options
		o.Limits.EndpointLimit, o.Max = 1, 1_000_000
		lanes := maxLooks + 50
		for i := range lanes {
			at := fmt.Sprintf("http://e%d.example/", i)
			add(t, s, newReg(fmt.Sprintf("%d-1", i), job.Spec{Destination: job.Destination(at)}), newReg(fmt.Sprintf("%d-2", i), job.Spec{Destination: job.Destination(at)}))
		}
		taken := 0
		for taken < lanes {
			ids, _ := takeIDs(t, s, o)
			taken += len(ids)
		}
		ids, r := takeIDs(t, s, o)
		same(t, "taken", ids, []string(nil))
		same(t, "they are looked at again before long", r.Wait > 0 && r.Wait <= 10*time.Millisecond, true)
		// A lane that may go is reached, behind however many that may not.
		add(t, s, newReg("free", job.Spec{Destination: "http://free.example/"}))
		for range 3 {
			if ids, _ = takeIDs(t, s, o); len(ids) > 0 {
				break
			}
		}
		same(t, "taken", ids, []string{"free"})
	})
}

func TestTheLogIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := opened(t, Options{})
		add(t, s, newReg("a", job.Spec{}))
		for range store.MaxLog + 3 {
			settle(t, s, take(t, s, time.Second)[0], job.OutcomeFailed)
		}
		attempts := func() []job.Attempt {
			log, err := store.Attempts(t.Context(), s, job.Key{Topic: "t", ID: "a"})
			must.OK(t, err)
			return log
		}
		log := attempts()
		same(t, "attempts kept", len(log), store.MaxLog)
		same(t, "the first kept", log[0].Number, 4)

		s.room.next.Store(int64(job.InstantOf(s.clock.Now()).Add(roomLook)))
		s.room.none.Store(true) // the disk is full
		settle(t, s, take(t, s, time.Second)[0], job.OutcomeFailed)
		log = attempts()
		if n := len(log); n > store.MaxLog/2 || log[n-1].Number != store.MaxLog+4 {
			t.Errorf("%d attempts are kept on a full disk, the last %+v", n, log[n-1])
		}
	})
}

func TestNothingIsLeftBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := opened(t, Options{Retention: time.Minute})
		for i := range 20 {
			add(t, s, newReg(fmt.Sprint(i), job.Spec{Destination: job.Destination(fmt.Sprintf("http://e%d.example/", i%3)), BizKey: fmt.Sprint(i)}))
		}
		for _, c := range take(t, s, time.Second) {
			settle(t, s, c, job.OutcomeFailed)
		}
		for _, endpoint := range []string{"http://e1.example:80", "http://idle.example:80"} {
			must.OK(t, s.SetCircuit(t.Context(), endpoint, store.CircuitOpen, time.Second))
		}
		pass(t, 2*time.Minute) // both holds and their probing are over
		for _, c := range take(t, s, time.Second) {
			settle(t, s, c, job.OutcomeDelivered)
		}
		pass(t, time.Minute)
		if n, err := s.Purge(t.Context(), 100); n != 0 || err != nil {
			t.Fatalf("purged %d at the end of the retention, %v", n, err)
		}
		pass(t, time.Millisecond)
		if n, err := s.Purge(t.Context(), 100); n != 20 || err != nil {
			t.Fatalf("purged %d, %v", n, err)
		}
		same(t, "what is left", []int{
			s.topics.Len(), s.lanes.Len(), s.line.Len(), s.endpoints.Len(), len(s.waiting) + len(s.shared),
			len(s.notClosed), len(s.flights),
		}, make([]int, 7))
		same(t, "counts", s.counts, counts{})
		var rows []string
		if err := scan(s.db, nil, nil, func(key, _ []byte) bool {
			rows = append(rows, string(key))
			return true
		}); err != nil {
			t.Fatal(err)
		}
		same(t, "rows left", rows, []string{"Sform", "Sseq"}) // the form of the rows, the last place given
	})
}

func TestAnEndedContextStopsEveryCall(t *testing.T) {
	s := opened(t, Options{})
	add(t, s, newReg("a", job.Spec{}))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	key := job.Key{Topic: "t", ID: "a"}
	calls := map[string]func() error{
		"Ping":     func() error { return s.Ping(ctx) },
		"Register": func() error { _, err := s.Register(ctx, []store.Registration{newReg("b", job.Spec{})}); return err },
		"Get":      func() error { _, err := s.Get(ctx, key); return err },
		"List":     func() error { _, err := listing.List(ctx, s, store.Query{Limit: 1}); return err },
		"Take":     func() error { _, err := s.Take(ctx, 0, options); return err },
		"Update": func() error {
			_, err := s.Update(ctx, key, func(*job.Job, job.Instant) error { return nil })
			return err
		},
	}
	for name, call := range calls {
		if err := call(); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := store.Wakeups(ctx, s, func(int) {}); err != nil {
		t.Errorf("Wakeups: %v", err)
	}
	// An update whose context ends while it changes the job stores nothing.
	ctx, cancel = context.WithCancel(t.Context())
	_, err := s.Update(ctx, key, func(j *job.Job, now job.Instant) error {
		cancel()
		_, err := j.Cancel(now)
		return err
	})
	if j, getErr := s.Get(t.Context(), key); !errors.Is(err, context.Canceled) || getErr != nil || j.State != job.Waiting {
		t.Errorf("Update: %v; Get: %v, %v", err, j.State, getErr)
	}
}

// stillClock is a clock that stands still; its timers fire at once.
type stillClock struct{ at time.Time }

func (c stillClock) Now() time.Time { return c.at }

func (c stillClock) NewTimer(time.Duration) job.Timer { return firedTimer{} }

type firedTimer struct{}

func (firedTimer) C() <-chan time.Time {
	c := make(chan time.Time, 1)
	c <- time.Time{}
	return c
}

func (firedTimer) Stop() bool { return true }

func TestTheClockIsTheOneGiven(t *testing.T) {
	at := time.Date(2031, 5, 6, 7, 8, 9, 0, time.UTC)
	s := opened(t, Options{Clock: stillClock{at}})
	d, err := listing.Depth(t.Context(), s)
	must.OK(t, err)
	same(t, "now", d.Now.Time(), at)
	o := options
	o.Wait = time.Hour
	if ids, _ := takeIDs(t, s, o); len(ids) > 0 {
		t.Errorf("taken: %v", ids)
	}
}

// A job is read at the place that its entry names, and by its key once it has left that.
func TestReadAtPlaces(t *testing.T) {
	s := opened(t, Options{Retention: time.Hour})
	ctx := t.Context()
	later := job.Spec{When: job.When{Delay: time.Hour}}
	add(t, s, newReg("a", later), newReg("b", later), newReg("c", later))
	end := func(j *job.Job, now job.Instant) error { _, err := j.Cancel(now); return err }
	update := func(id string, change func(j *job.Job, now job.Instant) error) {
		t.Helper()
		if _, err := s.Update(ctx, job.Key{Topic: "t", ID: id}, change); err != nil {
			t.Fatal(err)
		}
	}
	update("c", end)
	bucket, _, _ := s.lanes.GetAt(0)
	entries := func(of store.Index) (all []store.Entry) {
		t.Helper()
		all, _, err := s.Entries(ctx, of, store.Span{N: 10})
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	waiting, ended := entries(store.Index{Name: bucket}), entries(store.Index{Kind: store.IndexEnded, Name: "t"})
	if len(waiting) != 2 || len(ended) != 1 {
		t.Fatal(waiting, ended)
	}
	q := store.ReadQuery{}
	for _, e := range append(waiting, ended...) {
		q.Keys, q.Places = append(q.Keys, job.Key{Topic: "t", ID: e.ID}), append(q.Places, e.Place)
	}
	read := func(want ...string) {
		t.Helper()
		found, err := s.Read(ctx, q)
		if err != nil {
			t.Fatal(err)
		}
		for i, j := range found.Jobs {
			if got := j.ID + " " + j.State.String(); got != want[i] {
				t.Errorf("job %d is %s, want %s", i, got, want[i])
			}
		}
	}
	keys := map[string]string{} // the rows of keys, which a read at a place does not need
	for _, key := range q.Keys {
		at := row(famKey, key.Topic, key.ID)
		value, err := get(s.db, at)
		if err == nil {
			err = s.db.Delete(at, pebble.NoSync)
		}
		if keys[string(at)] = string(value); err != nil {
			t.Fatal(err)
		}
	}
	read("a waiting", "b waiting", "c cancelled")
	for at, value := range keys {
		if err := s.db.Set([]byte(at), []byte(value), pebble.NoSync); err != nil {
			t.Fatal(err)
		}
	}
	q.Places[0], q.Places[2] = q.Places[2], q.Places[0] // those of other jobs
	update("b", end)                                    // to another place
	read("a waiting", "b cancelled", "c cancelled")
}

// A topic whose receivers never answer has one worker of many left, and 20,000 lanes with due jobs.
// A job of another topic goes at once, and no call visits all the lanes.
func TestManyLanesOfATopicAtItsShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := opened(t, Options{})
		const lanes = 20_000
		for i := range lanes {
			add(t, s, newReg(fmt.Sprint(i), job.Spec{Destination: job.Destination(fmt.Sprintf("http://e%d.example/", i))}))
		}
		o := options
		o.Workers = &store.Workers{Free: 12, Has: map[string]int{"t": 88}}
		for calls := 0; ; calls++ {
			c, err := s.takeNow(t.Context(), &o)
			must.OK(t, err)
			o.Workers.Has["t"] += len(c.claims)
			if len(c.claims) == 0 && c.wait != 0 {
				break
			}
			if calls > 2*lanes/maxLooks {
				t.Fatal("the lanes are visited again and again")
			}
		}
		urgent := newReg("urgent", job.Spec{Destination: "http://free.example/"})
		urgent.Key.Topic = "u"
		add(t, s, urgent)
		seq := s.seq
		ids, _ := takeIDs(t, s, o)
		same(t, "taken", ids, []string{"urgent"})
		if moved := s.seq - seq; moved > 10 {
			t.Errorf("%d lanes were put in line", moved)
		}
		// With more workers, it goes on.
		o.Workers.Free = 30
		ids, _ = takeIDs(t, s, o)
		same(t, "taken of the topic", len(ids) > 0, true)
	})
}

// A call that names many large jobs copies none of their bodies: a batch would do so under the lock, and others wait.
func TestHeadsAreReadWithoutBodies(t *testing.T) {
	s := opened(t, Options{})
	const jobs, size = 40, 256 << 10
	regs, keys := make([]store.Registration, jobs), make([]job.Key, jobs)
	for i := range regs {
		regs[i] = newReg(fmt.Sprint(i), job.Spec{Body: make([]byte, size), BodyForm: job.BodyText})
		keys[i] = regs[i].Key
	}
	add(t, s, regs...)
	for i := range regs {
		regs[i].UID, regs[i].Spec.Body, regs[i].OnConflict = "again-"+regs[i].Key.ID, nil, job.ConflictIgnore
	}
	for what, call := range map[string]func() error{
		"registering them again": func() error {
			results, err := s.Register(t.Context(), regs)
			for _, r := range results {
				if r.Outcome != store.Kept {
					t.Errorf("the outcome of %s is %d", r.Job.Key, r.Outcome)
				}
			}
			return err
		},
		"reading their heads": func() error {
			heads, err := listing.HeadsOf(t.Context(), s, keys)
			if len(heads) != jobs || heads[0] == nil {
				t.Errorf("%d heads", len(heads))
			}
			return err
		},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		must.OK(t, call())
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > jobs*size/4 {
			t.Errorf("%s allocates %d bytes, their bodies have %d", what, n, jobs*size)
		}
	}
}
