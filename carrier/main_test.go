package carrier

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	_ Store = store.Store(nil)
	_ Store = (*fakeStore)(nil)

	_ store.ReadyList = (*fakeStore)(nil)
)

var errDown = errors.New("connection refused")

// fakeStore is a store of one shard in which jobs are but due times. It runs
// by the clock of the test's bubble and notes every call.
type fakeStore struct {
	store.Reader // for calls that carriers do not make

	clock job.Clock
	mutex fakeMutex

	mu      sync.Mutex
	waiting []time.Time // sorted
	from    job.State   // the state that jobs are carried from
	ready   int
	batch   int
	shards  int
	err     error
	// stuck makes Carry wait for the end of its context.
	stuck bool
	// parked makes Carry find more due that may not go.
	parked bool

	looks    []time.Time // when Carry was called
	carried  []time.Time // when jobs were carried
	lateness []time.Duration
	terms    store.CarryOptions

	wakers     map[int]func(shard int) // by number of the subscription
	cut        chan error              // ends a subscription
	subscribed int

	purge   func(ctx context.Context, limit int) (int, error)
	depth   func(ctx context.Context) (store.Depth, error)
	backlog func() (jobs int64, err error) // in the lane
	purges  int
	depths  int
}

func newFakeStore() *fakeStore {
	s := &fakeStore{
		clock: job.SystemClock(), batch: 500, shards: 1, wakers: make(map[int]func(int)), cut: make(chan error),
	}
	s.mutex.clock = s.clock
	return s
}

// add registers a job due at the given time after now, and says so if told to.
func (s *fakeStore) add(after time.Duration, tell bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting = append(s.waiting, s.clock.Now().Add(after))
	slices.SortFunc(s.waiting, time.Time.Compare)
	if tell {
		s.tell(0)
	}
}

// tell sends a wake-up to every carrier; s.mu is held.
func (s *fakeStore) tell(shard int) {
	for _, wake := range s.wakers {
		wake(shard)
	}
}

func (s *fakeStore) drain() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ready = 0
}

func (s *fakeStore) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

func (s *fakeStore) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// since returns the looks after the given time.
func (s *fakeStore) since(t time.Time) []time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, _ := slices.BinarySearchFunc(s.looks, t, time.Time.Compare)
	return slices.Clone(s.looks[i:])
}

// late returns how late each job was carried.
func (s *fakeStore) late() []time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.lateness)
}

func (s *fakeStore) Shards() int { return s.shards }

func (s *fakeStore) Carry(ctx context.Context, shard int, o store.CarryOptions) (store.CarryResult, error) {
	s.mu.Lock()
	if s.stuck {
		s.mu.Unlock()
		<-ctx.Done()
		return store.CarryResult{}, ctx.Err()
	}
	defer s.mu.Unlock()
	now := s.clock.Now()
	s.looks = append(s.looks, now)
	s.terms = o
	if s.err != nil {
		return store.CarryResult{}, s.err
	}
	if shard != 0 {
		return store.CarryResult{Wait: -1}, nil
	}
	var r store.CarryResult
	room := min(s.batch, o.Cap-s.ready)
	for len(s.waiting) > 0 && room > 0 && !s.waiting[0].After(now) {
		r.Carried = append(r.Carried, store.Carried{From: s.from})
		s.carried = append(s.carried, now)
		s.lateness = append(s.lateness, now.Sub(s.waiting[0]))
		s.waiting = s.waiting[1:]
		room--
	}
	s.ready += len(r.Carried)
	r.Wait = -1
	if len(s.waiting) > 0 {
		r.Wait = max(0, s.waiting[0].Sub(now))
	}
	r.Full = s.parked || r.Wait == 0 && s.ready >= o.Cap
	return r, nil
}

func (s *fakeStore) Listen(ctx context.Context, _ string, receive func(message []byte)) error {
	var n int
	wake := func(shard int) { receive([]byte(strconv.Itoa(shard))) }
	s.set(func() {
		s.subscribed++
		n = s.subscribed
		s.wakers[n] = wake
	})
	defer s.set(func() { delete(s.wakers, n) })
	select {
	case <-ctx.Done():
		return nil
	case err := <-s.cut:
		return err
	}
}

func (s *fakeStore) Locker(int) store.Locker { return &fakeLocker{mutex: &s.mutex} }

func (s *fakeStore) Purge(ctx context.Context, limit int) (int, error) {
	s.set(func() { s.purges++ })
	if s.purge == nil {
		return 0, nil
	}
	return s.purge(ctx, limit)
}

func (s *fakeStore) Figures(ctx context.Context, q store.FigureQuery) (f store.Figures, err error) {
	if q.Depth {
		s.set(func() { s.depths++ })
		if s.depth != nil {
			f.Depth, err = s.depth(ctx)
		}
	}
	if len(q.Lanes) > 0 {
		var waiting int64
		waiting, err = s.backlog()
		f.Lanes = []store.LaneFigures{{Due: []int64{waiting}}}
	}
	return f, err
}

// Names has one lane.
func (s *fakeStore) Names(context.Context, store.NameQuery) ([]string, error) {
	return []string{job.Lane{Topic: "a", Endpoint: "http://a.example:80"}.String()}, nil
}

// fakeMutex is the lock as the lock service keeps it.
type fakeMutex struct {
	clock job.Clock

	mu     sync.Mutex
	holder *fakeLocker
	until  time.Time
	ttl    time.Duration // that the holder asked for
	err    error
	hang   bool // calls wait for the end of their context
	calls  []string
	live   bool // the context of the last Unlock had not ended
}

// outsider is a holder that no test runs: it holds the lock until it expires.
var outsider = &fakeLocker{}

func (m *fakeMutex) set(change func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change()
}

// takeAway gives the lock to the outsider for ttl.
func (m *fakeMutex) takeAway(ttl time.Duration) {
	m.set(func() { m.holder, m.until = outsider, m.clock.Now().Add(ttl) })
}

func (m *fakeMutex) called() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.calls)
}

// fakeLocker is one carrier's handle of a fakeMutex.
type fakeLocker struct{ mutex *fakeMutex }

func (l *fakeLocker) call(ctx context.Context, name string, do func(m *fakeMutex) bool) (bool, error) {
	m := l.mutex
	m.mu.Lock()
	m.calls = append(m.calls, name)
	if m.hang {
		m.mu.Unlock()
		<-ctx.Done()
		return false, ctx.Err()
	}
	defer m.mu.Unlock()
	if m.err != nil {
		return false, m.err
	}
	if !m.clock.Now().Before(m.until) {
		m.holder = nil
	}
	return do(m), nil
}

func (l *fakeLocker) TryLock(ctx context.Context, ttl time.Duration) (bool, error) {
	return l.call(ctx, "lock", func(m *fakeMutex) bool {
		if m.holder != nil {
			return false
		}
		m.holder, m.ttl, m.until = l, ttl, m.clock.Now().Add(ttl)
		return true
	})
}

func (l *fakeLocker) Extend(ctx context.Context) (bool, error) {
	return l.call(ctx, "extend", func(m *fakeMutex) bool {
		if m.holder != l {
			return false
		}
		m.until = m.clock.Now().Add(m.ttl)
		return true
	})
}

func (l *fakeLocker) Unlock(ctx context.Context) error {
	_, err := l.call(ctx, "unlock", func(m *fakeMutex) bool {
		m.live = ctx.Err() == nil
		if m.holder == l {
			m.holder = nil
		}
		return true
	})
	return err
}

// running is a carrier at work.
type running struct {
	*Carrier
	logs *logs
	stop func()
}

// start runs a carrier on s until the test ends or stop is called. Stop
// returns when Run has.
func start(t *testing.T, s *fakeStore, change ...func(*Options)) *running {
	t.Helper()
	rec := &logs{}
	o := Options{Store: s, Lists: s, Logger: slog.New(rec)}
	for _, c := range change {
		c(&o)
	}
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	stop := sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	t.Cleanup(stop)
	return &running{Carrier: c, logs: rec, stop: stop}
}

// pass lets virtual time pass.
func pass(d time.Duration) { _ = job.Sleep(context.Background(), job.SystemClock(), d) }

// logs gathers what is logged, as "LEVEL message", and what it is about.
type logs struct {
	mu    sync.Mutex
	lines []string
}

func (l *logs) Enabled(context.Context, slog.Level) bool { return true }

func (l *logs) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	line := fmt.Sprint(r.Level, " ", r.Message)
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "what" || a.Key == "event" {
			line += ": " + a.Value.String()
		}
		return true
	})
	l.lines = append(l.lines, line)
	return nil
}

func (l *logs) WithAttrs([]slog.Attr) slog.Handler { return l }
func (l *logs) WithGroup(string) slog.Handler      { return l }

// count is how many times a line was logged.
func (l *logs) count(line string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, have := range l.lines {
		if have == line {
			n++
		}
	}
	return n
}
