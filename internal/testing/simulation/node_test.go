package simulation

import (
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/duehook/duehook/carrier"
	"github.com/duehook/duehook/dispatcher"
	"github.com/duehook/duehook/httpapi"
	v1 "github.com/duehook/duehook/httpapi/v1"
	"github.com/duehook/duehook/internal/app"
	"github.com/duehook/duehook/internal/app/schedules"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/jobjson"
	"github.com/duehook/duehook/internal/services/leader"
	"github.com/duehook/duehook/retrypolicy"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/readylist"
)

// node is a place for processes, one at a time.
type node struct {
	w      *world
	number int
	name   string

	mu    sync.Mutex
	lives int
	life  *life // the last one
	now   trouble
}

// trouble is what stands between a node and the store.
type trouble struct {
	kind  string
	ended chan struct{}
}

// life is one process: from its start to its crash or stop.
type life struct {
	n      *node
	name   string
	store  store.Store
	takers []*readylist.Taker // of the shards; none: the store takes at once
	// alive ends with a crash: from then on nothing that the process does has
	// an effect, while its goroutines come to their end.
	alive    context.Context
	die      context.CancelFunc
	stopping atomic.Bool
	carry    context.CancelFunc
	dispatch context.CancelFunc
	carried  chan struct{} // closed when the carrier and the schedules have ended
	ended    chan struct{} // closed when all have

	schedules *schedules.Manager // nil without schedules

	mu     sync.Mutex
	counts map[string]int // calls so far, by purpose
	faults []span
	wrote  []span // calls that wrote schedules
}

// forever ends the faults of a process that crashed.
const forever = time.Duration(1 << 62)

// span is a time during which a call was made, or something was wrong with a process.
type span struct{ from, to time.Duration }

// start starts a process unless one runs.
func (n *node) start() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.life.up() {
		return
	}
	n.lives++
	l := &life{
		n: n, name: fmt.Sprintf("%s.%d", n.name, n.lives), store: n.w.backend.connect(), counts: map[string]int{},
		carried: make(chan struct{}), ended: make(chan struct{}),
	}
	if _, lists := l.store.(readyList); lists {
		for shard := range l.store.Shards() {
			l.takers = append(l.takers, readylist.New(&link{life: func() *life { return l }}, shard, clock, slog.New(slog.DiscardHandler)))
		}
	}
	l.alive, l.die = context.WithCancel(context.Background())
	n.w.note("%s starts", l.name)
	n.life = l
	l.run()
}

// up reports whether the process runs and takes requests.
func (l *life) up() bool { return l != nil && l.alive.Err() == nil && !l.stopping.Load() }

// process is the process that runs, or the last one.
func (n *node) process() *life {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.life
}

func (l *life) run() {
	w, s := l.n.w, &link{life: func() *life { return l }}
	co := w.carrier
	co.Store, co.Random = s, l.random("carrier")
	if l.takers != nil {
		co.Lists = s
	}
	if w.plan.schedules > 0 {
		l.schedules = l.newSchedules(s)
		co.MayPurge = l.schedules.MayPurge
	}
	c, err := carrier.New(co)
	if err != nil {
		panic(err)
	}
	do := w.plan.dispatch
	do.Store, do.ID, do.Random, do.Transport = s, l.name, l.random("dispatcher"), l
	do.RenderCallback = jobjson.CallbackBody(w.policy)
	d, err := dispatcher.New(do)
	if err != nil {
		panic(err)
	}
	carryCtx, stopCarry := context.WithCancel(context.Background())
	dispatchCtx, stopDispatch := context.WithCancel(context.Background())
	l.carry, l.dispatch = stopCarry, stopDispatch
	go func() {
		defer close(l.carried)
		var beside sync.WaitGroup
		defer beside.Wait()
		if l.schedules != nil {
			beside.Go(func() { l.must(l.schedules.Run(carryCtx)) })
		}
		l.must(c.Run(carryCtx))
	}()
	go func() {
		l.must(d.Run(dispatchCtx))
		<-l.carried
		l.must(l.store.Close())
		close(l.ended)
	}()
	apis[l.n.number].life.Store(l)
}

// newSchedules returns the manager of the process.
func (l *life) newSchedules(s *link) *schedules.Manager {
	jobs, err := app.New(app.Options{Store: s})
	if err != nil {
		panic(err)
	}
	m, err := schedules.New(schedules.Options{Store: s, Jobs: jobs, ID: l.name, Leader: leader.New(leader.Options{Store: s, Node: l.name, Clock: clock})})
	if err != nil {
		panic(err)
	}
	return m
}

func (l *life) must(err error) {
	if err != nil {
		l.n.w.Errorf("%s: %v", l.name, err)
	}
}

// random spreads pauses by numbers that depend on the time at which they are
// drawn, so that goroutines may draw them in any order.
func (l *life) random(who string) func() float64 {
	seed := source(l.n.w.seed, l.name+who, 0).Uint64()
	return func() float64 { return rand.New(rand.NewPCG(seed, uint64(l.n.w.now()))).Float64() }
}

// crash ends the process without warning. What its goroutines still do has no
// effect.
func (l *life) crash() {
	if l.alive.Err() != nil {
		return
	}
	l.n.w.note("%s crashes", l.name)
	l.n.w.history.count("crashes")
	l.fault(l.n.w.now(), forever)
	l.die()
	l.carry()
	l.dispatch()
}

// crashedBy reports whether the process has crashed by a time.
func (l *life) crashedBy(at time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.faults, func(f span) bool { return f.to == forever && f.from <= at })
}

// crashSoon is a crash at a step of the process's own, and a start some time later.
func (l *life) crashSoon(r *rand.Rand) {
	l.crash()
	pause := between(r, 0, 30*time.Second)
	l.n.w.group.Go(func() {
		l.n.w.sleep(pause)
		l.n.start()
	})
}

// stop ends the process in order, as SIGTERM does, and waits until it has ended.
func (l *life) stop() {
	l.n.w.note("%s stops", l.name)
	l.stopping.Store(true) // its API takes no more requests
	l.carry()
	<-l.carried
	l.dispatch()
	<-l.ended
	l.n.w.note("%s has stopped", l.name)
}

// trouble starts a trouble, and returns a function that ends it. There is one at a time.
func (n *node) trouble(kind string) (heal func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.now.kind != "" {
		return func() {}
	}
	t := trouble{kind: kind, ended: make(chan struct{})}
	n.now = t
	from, first := n.w.now(), n.life
	return func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.now = trouble{}
		close(t.ended)
		for _, l := range []*life{first, n.life} {
			l.fault(from, n.w.now()+time.Second)
		}
	}
}

func (n *node) inTrouble() trouble {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.now
}

// fault notes that something was wrong with the process.
func (l *life) fault(from, to time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.faults = append(l.faults, span{from, to})
}

// written is when the process had written what it decided about schedules at a time.
func (l *life) written(at time.Duration) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	until := forever
	for _, c := range l.wrote {
		if c.from >= at {
			until = min(until, c.to)
		}
	}
	return until
}

// faulty reports whether something was wrong at a time between from and to.
func (l *life) faulty(from, to time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, f := range l.faults {
		if f.from <= to && f.to >= from {
			return true
		}
	}
	return false
}

// draw gives the random numbers for the next call of its kind.
func (l *life) draw(purpose string) *rand.Rand {
	l.mu.Lock()
	l.counts[purpose]++
	n := l.counts[purpose]
	l.mu.Unlock()
	return source(l.n.w.seed, l.name+purpose, n)
}

// newUID makes the uid of a job. Seeds govern it: ids of callbacks contain it.
func (l *life) newUID(key job.Key) string {
	dice := l.draw("uid of " + key.String())
	var id ulid.ULID
	_ = id.SetTime(ulid.Timestamp(clock.Now())) // only years beyond 10889 are refused
	binary.BigEndian.PutUint64(id[6:], dice.Uint64())
	return store.BindUID(id.String(), key)
}

// api is a node's HTTP API. Making one reads the OpenAPI document, which takes
// longer than a world, so all worlds share these.
type api struct {
	handler http.Handler
	life    atomic.Pointer[life] // the process that answers
}

var apis = [3]*api{newAPI(), newAPI(), newAPI()}

func newAPI() *api {
	a := &api{}
	var jobs interface { // a *link, whose methods use apis
		app.Store
		Ping(ctx context.Context) error
	} = &link{life: a.life.Load}
	all, err := app.New(app.Options{Store: jobs, Policy: retrypolicy.Default(), NewUID: func(key job.Key) (string, error) {
		return a.life.Load().newUID(key), nil
	}})
	if err != nil {
		panic(err)
	}
	calls, err := v1.New(v1.Options{App: all})
	if err != nil {
		panic(err)
	}
	s, err := httpapi.New(httpapi.Options{Dialects: []httpapi.Dialect{calls}, Ready: jobs.Ping})
	if err != nil {
		panic(err)
	}
	a.handler = s.Handler()
	return a
}
