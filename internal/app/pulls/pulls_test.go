package pulls

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/testing/testenv"
	"github.com/duehook/duehook/retrypolicy"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/diskstore"
)

// counting counts the calls that reach the store.
type counting struct {
	store.Store
	calls   atomic.Int64  // looks
	claims  atomic.Int64  // those that took jobs
	settles atomic.Int64  // of several calls or one
	hang    chan struct{} // if set, looks wait until it is closed
	hold    chan struct{} // if set, the reply with jobs of each look and each settlement waits for a value
	mute    bool          // no message arrives
}

func (c *counting) Settle(ctx context.Context, settlements []job.Settlement) ([]store.Settled, error) {
	c.settles.Add(1)
	if c.hold != nil {
		<-c.hold
	}
	return c.Store.Settle(ctx, settlements)
}

func (c *counting) Listen(ctx context.Context, channel string, receive func([]byte)) error {
	if c.mute {
		return errors.New("no messages")
	}
	return c.Store.Listen(ctx, channel, receive)
}

func (c *counting) Take(ctx context.Context, shard int, o store.TakeOptions) (store.Taken, error) {
	c.calls.Add(1)
	if c.hang != nil {
		<-c.hang
	}
	taken, err := c.Store.Take(ctx, shard, o)
	if len(taken.Claims) > 0 {
		c.claims.Add(1)
		if c.hold != nil {
			<-c.hold
		}
	}
	return taken, err
}

// node runs managers on one store until the test ends.
type node struct {
	t        *testing.T
	store    *counting
	managers []*Manager
}

func newNodes(t *testing.T, n int) *node {
	t.Helper()
	s := &counting{Store: testenv.Store(t, diskstore.Options{Clock: job.SystemClock(), Retention: time.Hour})}
	all := &node{t: t, store: s}
	all.add(n)
	return all
}

// add adds n managers.
func (n *node) add(managers int) {
	n.t.Helper()
	ctx, stop := context.WithCancel(n.t.Context())
	var running sync.WaitGroup
	for i := range managers {
		m, err := New(Options{Store: n.store, ID: fmt.Sprint("node", i), Policy: retrypolicy.Default()})
		if err != nil {
			n.t.Fatal(err)
		}
		n.managers = append(n.managers, m)
		running.Go(func() { _ = m.Run(ctx) })
	}
	n.t.Cleanup(func() { stop(); running.Wait() })
	synctest.Wait()
}

func (n *node) register(topic, id string, delay time.Duration) {
	n.t.Helper()
	n.registerWith(topic, id, job.Spec{When: job.When{Delay: delay}})
}

func (n *node) registerWith(topic, id string, spec job.Spec) {
	n.t.Helper()
	key := job.Key{Topic: topic, ID: id}
	spec.Destination = job.PullQueue
	_, err := n.store.Register(n.t.Context(), []store.Registration{{
		Key: key, UID: store.BindUID(fmt.Sprintf("%026d", uids.Add(1)), key), Spec: spec,
	}})
	if err != nil {
		n.t.Fatal(err)
	}
}

var uids atomic.Int64

// 1,000 calls wait at two nodes. Each job that becomes due reaches one of them at once, and waiting
// costs the store nothing.
func TestWaitingConsumers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNodes(t, 2)
		const consumers, jobs = 1_000, 50
		late := make(chan time.Duration, jobs)
		ctx, stop := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for i := range consumers {
			all.Go(func() {
				for ctx.Err() == nil {
					got, err := n.managers[i%2].Pull(ctx, Request{Topics: []string{"t"}, Max: 1, Wait: 20 * time.Second, Lease: time.Minute})
					if err != nil {
						t.Error(err)
					}
					for _, l := range got {
						late <- time.Since(l.Job.DueAt.Time())
						if r, err := n.managers[i%2].Ack(ctx, everything, []string{l.Receipt}); err != nil || r[0] != OK {
							t.Error(r, err)
						}
					}
				}
			})
		}
		synctest.Wait()
		for i := range jobs {
			n.register("t", fmt.Sprint(i), time.Duration(i%10)*time.Minute+time.Duration(i)*time.Millisecond)
		}
		for range jobs {
			if d := <-late; d > 10*time.Millisecond {
				t.Errorf("a job was %v late", d)
			}
		}
		synctest.Wait()
		before := n.store.calls.Load()
		_ = job.Sleep(t.Context(), job.SystemClock(), 10*time.Minute)
		if calls := n.store.calls.Load() - before; calls > 10*2*2 { // at each node, once a minute in case a message was lost
			t.Errorf("%d looks in ten minutes without jobs", calls)
		}
		stop()
		all.Wait()
	})
}

func everything(string) error { return nil }

// Before the store has the limits of topics, a paused topic is not paused: nothing is leased.
func TestNothingIsLeasedBeforeLimitsAreSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNodes(t, 0)
		why := store.ErrUnavailable
		m, err := New(Options{Store: n.store, ID: "node", Policy: retrypolicy.Default(), Ready: func() error { return why }})
		if err != nil {
			t.Fatal(err)
		}
		n.register("t", "a", 0)
		for _, wait := range []time.Duration{0, time.Second} {
			if got, err := m.Pull(t.Context(), Request{Topics: []string{"t"}, Max: 1, Wait: wait, Lease: time.Minute}); !errors.Is(err, store.ErrUnavailable) {
				t.Errorf("got %v, %v", got, err)
			}
		}
		why = nil
		if got, err := m.Pull(t.Context(), Request{Topics: []string{"t"}, Max: 1, Lease: time.Minute}); len(got) != 1 || err != nil {
			t.Errorf("got %v, %v", got, err)
		}
	})
}

// A caller that leaves while its call waits for a place, or for a look of others, gets no jobs and no error.
func TestCallersMayLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNodes(t, 1)
		m := n.managers[0]
		for name, begin := range map[string]func() (end func()){
			"waiting for a place": func() func() {
				for range cap(m.looking) {
					m.looking <- struct{}{}
				}
				return func() {
					for range cap(m.looking) {
						<-m.looking
					}
				}
			},
			"looking": func() func() {
				n.store.hang = make(chan struct{})
				done := make(chan error, 1)
				go func() {
					_, err := m.Pull(t.Context(), Request{Topics: []string{"looking"}, Max: 1, Lease: time.Minute})
					done <- err
				}()
				synctest.Wait()
				return func() {
					close(n.store.hang)
					if err := <-done; err != nil {
						t.Error(err)
					}
					n.store.hang = nil
				}
			},
		} {
			end := begin()
			ctx, leave := context.WithCancel(t.Context())
			type result struct {
				got []Leased
				err error
			}
			answer := make(chan result, 1)
			go func() {
				got, err := m.Pull(ctx, Request{Topics: []string{name}, Max: 1, Wait: time.Minute, Lease: time.Minute})
				answer <- result{got, err}
			}()
			synctest.Wait()
			leave()
			if r := <-answer; len(r.got) > 0 || r.err != nil {
				t.Errorf("%s: %v, %v", name, r.got, r.err)
			}
			end()
		}
	})
}

// Calls that come while another one looks at the same topics look together, and each gets jobs of its own.
func TestCallsLookTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const calls, most = 12, 50
		n := newNodes(t, 1)
		for i := range calls * most {
			n.register("t", fmt.Sprint(i), 0)
		}
		n.register("u", "0", 0)
		n.store.hang = make(chan struct{})
		var mu sync.Mutex
		got := map[job.Key]int{}
		var all sync.WaitGroup
		pull := func(topic string, most int) {
			all.Go(func() {
				leased, err := n.managers[0].Pull(t.Context(), Request{Topics: []string{topic}, Max: most, Lease: time.Minute})
				if err != nil || len(leased) != most {
					t.Errorf("%d jobs, %v", len(leased), err)
				}
				mu.Lock()
				defer mu.Unlock()
				for _, l := range leased {
					got[l.Job.Key]++
				}
			})
			synctest.Wait()
		}
		for range calls {
			pull("t", most)
		}
		pull("u", 1)
		if looks := n.store.calls.Load(); looks != 3 { // two of t, one of u
			t.Errorf("%d looks at two topics at once", looks)
		}
		close(n.store.hang)
		all.Wait()
		if looks, claims := n.store.calls.Load(), n.store.claims.Load(); looks != 5 || claims != looks { // one of u, and of t the first three and one of the others
			t.Errorf("%d looks and %d claims for %d calls", looks, claims, calls+1)
		}
		if len(got) != calls*most+1 {
			t.Errorf("%d jobs were leased", len(got))
		}
	})
}

// While the jobs of one look come, the next call looks, and no more.
func TestTwoLooksAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const calls = 4
		n := newNodes(t, 1)
		for i := range calls {
			n.register("t", fmt.Sprint(i), 0)
		}
		n.store.hold = make(chan struct{})
		got := make(chan job.Key)
		for range calls {
			go func() {
				jobs, err := n.managers[0].Pull(t.Context(), Request{Topics: []string{"t"}, Max: 1, Lease: time.Hour})
				if err != nil || len(jobs) != 1 {
					t.Errorf("%d jobs, %v", len(jobs), err)
				}
				for _, l := range jobs {
					got <- l.Job.Key
				}
			}()
			synctest.Wait()
		}
		if looks, claims := n.store.calls.Load(), n.store.claims.Load(); looks != 2 || claims != 2 {
			t.Errorf("%d looks of which %d took jobs, want 2", looks, claims)
		}
		close(n.store.hold)
		leased := map[job.Key]bool{}
		for range calls {
			leased[<-got] = true
		}
		if len(leased) != calls {
			t.Errorf("%d jobs were leased to %d calls", len(leased), calls)
		}
	})
}

// If a call leaves while several look together, its jobs are due at once.
func TestJobsOfCallersThatLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNodes(t, 1)
		for i := range 4 {
			n.register("t", fmt.Sprint(i), 0)
		}
		n.store.hold = make(chan struct{})
		one := Request{Topics: []string{"t"}, Max: 1, Lease: time.Hour}
		leaving, leave := context.WithCancel(t.Context())
		got := make(chan int)
		for _, ctx := range []context.Context{t.Context(), t.Context(), leaving, t.Context()} { // the first two look alone
			go func() {
				jobs, err := n.managers[0].Pull(ctx, one)
				if err != nil {
					t.Error(err)
				}
				got <- len(jobs)
			}()
			synctest.Wait()
		}
		for range 2 {
			n.store.hold <- struct{}{}
			if jobs := <-got; jobs != 1 {
				t.Errorf("a call that looked alone got %d jobs", jobs)
			}
		}
		synctest.Wait()
		leave()
		if jobs := <-got; jobs != 0 {
			t.Errorf("the call that left got %d jobs", jobs)
		}
		close(n.store.hold)
		if jobs := <-got; jobs != 1 {
			t.Errorf("the call that stayed got %d jobs", jobs)
		}
		synctest.Wait()
		if jobs, err := n.managers[0].Pull(t.Context(), one); err != nil || len(jobs) != 1 || jobs[0].Attempt != 1 {
			t.Errorf("afterwards: %v, %v", jobs, err)
		}
	})
}

// A claim whose caller has left ends before Run does.
func TestRunWaitsForClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNodes(t, 0)
		n.register("t", "a", 0)
		n.store.hold = make(chan struct{})
		m, err := New(Options{Store: n.store, ID: "node", Policy: retrypolicy.Default()})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = m.Run(ctx)
		}()
		leaving, leave := context.WithCancel(t.Context())
		left := make(chan struct{})
		go func() {
			defer close(left)
			_, _ = m.Pull(leaving, Request{Topics: []string{"t"}, Max: 1, Lease: time.Hour})
		}()
		synctest.Wait()
		leave()
		<-left
		stop()
		synctest.Wait()
		select {
		case <-ended:
			t.Error("Run ended during a claim")
		default:
		}
		close(n.store.hold)
		<-ended
	})
}

// Each of several calls that look together has an answer within its bounds, and other jobs are due at once.
func TestPlainAnswersHaveBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const calls, jobs, body = 3, 20, 900 << 10 // three have room as base64
		n := newNodes(t, 1)
		for i := range jobs {
			n.registerWith("t", fmt.Sprint(i), job.Spec{Body: make([]byte, body)})
		}
		n.store.hang = make(chan struct{})
		var all sync.WaitGroup
		got := map[job.Key]bool{}
		var mu sync.Mutex
		pull := func(want int) {
			leased, err := n.managers[0].Pull(t.Context(), Request{Topics: []string{"t"}, Max: jobs, Lease: time.Hour})
			if err != nil || len(leased) != want {
				t.Errorf("%d jobs, %v, want %d", len(leased), err, want)
			}
			mu.Lock()
			defer mu.Unlock()
			for _, l := range leased {
				if got[l.Job.Key] || l.Attempt != 1 {
					t.Errorf("%s is leased again, attempt %d", l.Job.Key, l.Attempt)
				}
				got[l.Job.Key] = true
			}
		}
		for range calls {
			all.Go(func() { pull(3) })
			synctest.Wait()
		}
		close(n.store.hang)
		all.Wait()
		for want := 3; len(got) < jobs; want = min(3, jobs-len(got)) {
			before := len(got)
			if pull(want); len(got) == before {
				t.Fatalf("of %d jobs only %d are due", jobs, before)
			}
		}
	})
}

// Answers that come while others are written are written together.
func TestAnswersAreWrittenTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const calls = 10
		n := newNodes(t, 1)
		for i := range calls {
			n.register("t", fmt.Sprint(i), 0)
		}
		leased, err := n.managers[0].Pull(t.Context(), Request{Topics: []string{"t"}, Max: calls, Lease: time.Hour})
		if err != nil || len(leased) != calls {
			t.Fatal(leased, err)
		}
		n.store.hold = make(chan struct{})
		var all sync.WaitGroup
		for i := range leased {
			all.Go(func() {
				results, err := n.managers[0].Ack(t.Context(), everything, []string{leased[i].Receipt, "?"})
				if err != nil || results[0] != OK || results[1] != Unknown {
					t.Error(results, err)
				}
			})
			synctest.Wait()
		}
		close(n.store.hold)
		all.Wait()
		if settles := n.store.settles.Load(); settles != 2 { // the first, and the others
			t.Errorf("%d calls were written in %d parts", calls, settles)
		}
		for i := range leased {
			if j, err := n.store.Get(t.Context(), leased[i].Job.Key); err != nil || j.State != job.Delivered {
				t.Error(j.Key, j.State, err)
			}
		}
	})
}

// A call that has left does not take the wake of another one with it.
func TestWakesArePassedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNodes(t, 1)
		m := n.managers[0]
		first := &waiter{topics: []string{"t"}, woken: make(chan struct{}, 1)}
		if _, err := m.waiters.enter(first); err != nil {
			t.Fatal(err)
		}
		m.waiters.beginLook([]string{"t"})
		got := make(chan []Leased)
		go func() {
			jobs, err := m.Pull(t.Context(), Request{Topics: []string{"t"}, Max: 1, Wait: time.Minute, Lease: time.Minute})
			if err != nil {
				t.Error(err)
			}
			got <- jobs
		}()
		synctest.Wait()
		n.register("t", "a", 0)
		synctest.Wait() // the first is woken, and does not look
		m.waiters.leave(first)
		if jobs := <-got; len(jobs) != 1 {
			t.Errorf("got %d jobs", len(jobs))
		}
	})
}

// Without messages, a waiting consumer looks once a second.
func TestDeafNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNodes(t, 0)
		n.store.mute = true
		n.add(1)
		got := make(chan []Leased)
		go func() {
			jobs, err := n.managers[0].Pull(t.Context(), Request{Topics: []string{"t"}, Max: 1, Wait: time.Minute, Lease: time.Minute})
			if err != nil {
				t.Error(err)
			}
			got <- jobs
		}()
		synctest.Wait()
		began := time.Now()
		n.register("t", "a", 0)
		if jobs := <-got; len(jobs) != 1 || time.Since(began) > deaf {
			t.Errorf("got %d jobs after %v", len(jobs), time.Since(began))
		}
	})
}

func TestReceipts(t *testing.T) {
	want := receipt{key: job.Key{Topic: "öffentlich:1", ID: "a.b"}, token: 1 << 60, at: 1_900_000_000_000}
	if got, ok := parseReceipt(want.String()); !ok || got != want {
		t.Errorf("got %v, %v", got, ok)
	}
	for _, bad := range []string{"", "x", "MSAx", "MSAxIHQ", "MSAxIC8", want.String() + "=", string(make([]byte, 1<<20))} {
		if r, ok := parseReceipt(bad); ok {
			t.Errorf("%.20q was read as %v", bad, r)
		}
	}
}

// Receipts are good at any node, also at one that has forgotten them; an answer that comes after
// another lease changes nothing.
func TestAnswersAtAnotherNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNodes(t, 2)
		n.register("t", "a", 0)
		n.register("t", "b", 0)
		got, err := n.managers[0].Pull(t.Context(), Request{Topics: []string{"t"}, Max: 2, Lease: time.Minute})
		if err != nil || len(got) != 2 {
			t.Fatal(got, err)
		}
		results, err := n.managers[1].Ack(t.Context(), everything, []string{got[0].Receipt, got[1].Receipt, got[0].Receipt, "?"})
		if err != nil || fmt.Sprint(results) != "[ok ok ok unknown]" {
			t.Error(results, err)
		}
		results, err = n.managers[0].Nack(t.Context(), everything, []Nack{{Receipt: got[0].Receipt}})
		if err != nil || results[0] != Stale {
			t.Error(results, err)
		}
		if j, err := n.store.Get(t.Context(), got[0].Job.Key); err != nil || j.State != job.Delivered || j.Attempts != 1 {
			t.Error(j, err)
		}
	})
}

// downForOne fails to read one job. All others take until they are cancelled.
type downForOne struct {
	Store
	key job.Key
}

func (s *downForOne) Get(ctx context.Context, key job.Key) (job.Job, error) {
	if key == s.key {
		return job.Job{}, store.ErrUnavailable
	}
	<-ctx.Done()
	return job.Job{}, ctx.Err()
}

// A call does not wait for the jobs of its other receipts when the store fails to read one.
func TestAnswersEndWithTheFirstError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNodes(t, 2)
		for _, id := range []string{"a", "b", "c"} {
			n.register("t", id, 0)
		}
		got, err := n.managers[0].Pull(t.Context(), Request{Topics: []string{"t"}, Max: 3, Lease: time.Minute})
		if err != nil || len(got) != 3 {
			t.Fatal(got, err)
		}
		n.managers[1].o.Store = &downForOne{Store: n.store, key: got[1].Job.Key}
		_, err = n.managers[1].Ack(t.Context(), everything, []string{got[0].Receipt, got[1].Receipt, got[2].Receipt})
		if !errors.Is(err, store.ErrUnavailable) {
			t.Error(err)
		}
	})
}

// A consumer that names the job answers at any node, for the lease that is current.
func TestReceiptOfJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNodes(t, 2)
		n.register("t", "a", 0)
		lease := Request{Topics: []string{"t"}, Max: 1, Lease: time.Minute}
		got, err := n.managers[0].Pull(t.Context(), lease)
		if err != nil || len(got) != 1 {
			t.Fatal(got, err)
		}
		j := &got[0].Job
		if last, ok := n.managers[0].Last(j.Key); !ok || last != got[0].Receipt || n.managers[0].Receipt(j) != last {
			t.Errorf("the node that leased it has %q, want %q", last, got[0].Receipt)
		}
		older := *j
		older.Token--
		if n.managers[0].Receipt(&older) == got[0].Receipt {
			t.Error("an older lease has the same receipt")
		}
		if _, ok := n.managers[1].Last(j.Key); ok {
			t.Error("the other node remembers it")
		}
		for range 2 { // the second is a repetition
			if r, err := n.managers[1].Ack(t.Context(), everything, []string{n.managers[1].Receipt(j)}); err != nil || r[0] != OK {
				t.Errorf("acknowledged at the other node: %v, %v", r, err)
			}
		}
		if r, err := n.managers[0].Ack(t.Context(), everything, []string{got[0].Receipt}); err != nil || r[0] != OK {
			t.Errorf("acknowledged again: %v, %v", r, err)
		}
		if last, ok := n.managers[0].Last(j.Key); ok {
			t.Errorf("an acknowledged lease is remembered: %s", last)
		}
	})
}
