package diskstore_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/testing/must"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/diskstore"
	"github.com/duehook/duehook/store/listing"
)

const url = "http://a.example/hook"

func newReg(topic, id string, spec job.Spec) store.Registration {
	if spec.Destination == "" {
		spec.Destination = url
	}
	key := job.Key{Topic: topic, ID: id}
	return store.Registration{Key: key, UID: store.BindUID("01ARZ3NDEKTSV4RRFFQ69G5FAV", key), Spec: spec}
}

// world is a store on a disk that loses power, and what it acknowledged.
type world struct {
	store.Store
	t     *testing.T
	r     *rand.Rand
	acked map[job.Key]job.Job
	known int
	clock *steppedClock
}

// far never ends within a test.
const far = 1000 * time.Hour

func (w *world) register(n int) {
	regs := make([]store.Registration, n)
	for i := range regs {
		w.known++
		spec := job.Spec{Body: make([]byte, w.r.IntN(2_000)), BizKey: fmt.Sprint("biz", w.r.IntN(5))}
		if w.r.IntN(3) == 0 {
			spec.OrderKey = fmt.Sprint("order", w.r.IntN(3))
		}
		if w.r.IntN(2) == 0 {
			spec.When.Delay = time.Duration(w.r.IntN(100)) * time.Hour
		}
		regs[i] = newReg(fmt.Sprint("t", w.r.IntN(3)), fmt.Sprint(w.known), spec)
	}
	results, err := w.Register(w.t.Context(), regs)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, r := range results {
		w.acked[r.Job.Key] = r.Job
	}
}

func (w *world) take(n int) []store.Claimed {
	w.t.Helper()
	taken, err := w.Take(w.t.Context(), 0, store.TakeOptions{Max: n, Lease: far, Limits: store.FlightLimits{HalfOpenLimit: 1}})
	if err != nil {
		w.t.Fatal(err)
	}
	return taken.Claims
}

// deliver claims what is due, and settles it in a way.
func (w *world) deliver() {
	ctx := w.t.Context()
	claims := w.take(20)
	var settlements []job.Settlement
	for i := range claims {
		if kind := w.r.IntN(4); kind < 3 { // the others keep running
			o := job.Outcome{Kind: []job.OutcomeKind{job.OutcomeDelivered, job.OutcomeFailed, job.OutcomeRefused}[kind], Attempt: &job.Attempt{Status: 200}, Reason: job.ReasonGone}
			settlements = append(settlements, job.Settle(&claims[i].Job, o, func(int) (time.Duration, bool) { return far, true }))
		}
	}
	if _, err := w.Settle(ctx, settlements); err != nil {
		w.t.Fatal(err)
	}
	for _, st := range settlements {
		w.note(st.Key)
	}
}

func (w *world) cancel() {
	for key, j := range w.acked { // any
		if j.State.Final() {
			continue
		}
		got, err := w.Update(w.t.Context(), key, func(j *job.Job, now job.Instant) error {
			_, err := j.Cancel(now)
			return err
		})
		if err != nil {
			w.t.Fatal(err)
		}
		w.acked[key] = got
		return
	}
}

func (w *world) note(key job.Key) {
	j, err := w.Get(w.t.Context(), key)
	if err != nil {
		w.t.Fatal(err)
	}
	w.acked[key] = j
}

// check compares the store with what it acknowledged: a job that was running may have any
// form since.
func (w *world) check() {
	w.t.Helper()
	states := map[job.State]int64{}
	for key, want := range w.acked {
		got, err := w.Get(w.t.Context(), key)
		if err != nil {
			w.t.Fatalf("%s, acknowledged as %s: %v", key, want.State, err)
		}
		states[got.State]++
		if want.State == job.Waiting || want.State == job.Running {
			if got.State.Final() || got.UID != want.UID {
				w.t.Fatalf("%s is %s, acknowledged as %s", key, got.State, want.State)
			}
			continue
		}
		if diff := cmp.Diff(want, got); diff != "" {
			w.t.Fatalf("%s (-acknowledged +stored):\n%s", key, diff)
		}
	}
	d, err := listing.Depth(w.t.Context(), w)
	if err != nil {
		w.t.Fatal(err)
	}
	for state, n := range d.States {
		if n != states[state] {
			w.t.Fatalf("counts %v, %d are %s", d.States, states[state], state)
		}
	}
}

// drain delivers all jobs that are due until none is left.
func (w *world) drain() {
	ctx := w.t.Context()
	for range 10_000 {
		claims := w.take(100)
		if len(claims) == 0 {
			break
		}
		settlements := make([]job.Settlement, len(claims))
		for i := range claims {
			settlements[i] = job.Settle(&claims[i].Job, job.Outcome{Kind: job.OutcomeDelivered}, nil)
		}
		if _, err := w.Settle(ctx, settlements); err != nil {
			w.t.Fatal(err)
		}
	}
	d, err := listing.Depth(ctx, w)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, state := range []job.State{job.Waiting, job.Retrying, job.Running} {
		if d.States[state] != 0 {
			w.t.Fatalf("after all was delivered: %v", d.States)
		}
	}
	if d.OrderKeys != 0 || d.Behind != 0 {
		w.t.Fatalf("order keys left: %d, behind %d", d.OrderKeys, d.Behind)
	}
}

// A loss of power, at any point and with any part of what was not synced, loses nothing
// that was acknowledged, and leaves a store whose counts and indexes are right.
func TestPowerLoss(t *testing.T) {
	for seed := range uint64(40) {
		synctest.Test(t, func(t *testing.T) {
			fs := vfs.NewCrashableMem()
			w := &world{t: t, r: rand.New(rand.NewPCG(seed, 0)), acked: map[job.Key]job.Job{}}
			w.clock = &steppedClock{Clock: job.SystemClock()}
			o := diskstore.Options{FS: fs, Dir: "data", Retention: 10 * far, Clock: w.clock}
			w.Store = open(t, o)
			for range 4 {
				for range w.r.IntN(12) {
					switch w.r.IntN(4) {
					case 0, 1:
						w.register(1 + w.r.IntN(10))
					case 2:
						w.deliver()
					default:
						w.cancel()
					}
				}
				crashed := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: w.r.IntN(101), RNG: w.r})
				must.OK(t, w.Close())
				fs, o.FS = crashed, crashed
				w.Store = open(t, o)
				w.check()
			}
			w.clock.by.Add(int64(2 * far))
			w.drain()
			must.OK(t, w.Close())
		})
	}
}

// A job that was running when the power failed is due at once, and its lease counts as
// expired.
func TestPowerLossExpiresLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfs.NewCrashableMem()
		w := open(t, diskstore.Options{FS: fs, Dir: "data"})
		if _, err := w.Register(t.Context(), []store.Registration{newReg("t", "a", job.Spec{})}); err != nil {
			t.Fatal(err)
		}
		for leases := range 3 {
			taken, err := w.Take(t.Context(), 0, store.TakeOptions{Max: 1, Lease: far, Limits: store.FlightLimits{HalfOpenLimit: 1}})
			if err != nil || len(taken.Claims) != 1 || taken.Claims[0].Job.ExpiredLeases != leases {
				t.Fatalf("claim %d: %+v, %v", leases, taken, err)
			}
			if _, err := w.Register(t.Context(), []store.Registration{newReg("t", fmt.Sprint("other", leases), job.Spec{When: job.When{Delay: far}})}); err != nil {
				t.Fatal(err) // which writes the claim, too
			}
			crashed := fs.CrashClone(vfs.CrashCloneCfg{})
			must.OK(t, w.Close())
			fs = crashed
			w = open(t, diskstore.Options{FS: fs, Dir: "data"})
			if j, err := w.Get(t.Context(), job.Key{Topic: "t", ID: "a"}); err != nil || j.State != job.Running {
				t.Fatalf("after the loss of power it is %s, %v", j.State, err)
			}
		}
		must.OK(t, w.Close())
	})
}
