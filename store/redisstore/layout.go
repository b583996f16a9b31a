package redisstore

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

// layoutVersion is the version of the layout in Redis (docs/adr/0001). Each incompatible
// change raises it.
const layoutVersion = 1

// layout is the stored layout of a namespace. All nodes must agree with it.
type layout struct {
	Version int `json:"layout"`
	Shards  int `json:"shards"`
	// To is the number of shards to which Reshard is moving the jobs; 0: no Reshard. Before
	// is the census from its start.
	To     int     `json:"to,omitempty"`
	Before *Census `json:"before,omitempty"`
}

// layoutKey belongs to no shard: where it is must not depend on their number.
func layoutKey(namespace string) string { return "duehook:{" + namespace + "}:layout" }

// LayoutError reports that the layout of a namespace is not this node's. The node then
// serves nothing, because it would not find all jobs.
type LayoutError struct {
	Namespace string
	Shards    int // of this node
	stored    layout
}

// Unwrap marks the error as one of a store that serves nothing.
func (e *LayoutError) Unwrap() error { return store.ErrOtherLayout }

func (e *LayoutError) Error() string {
	of := "the namespace " + e.Namespace
	switch {
	case e.stored.Version > layoutVersion:
		return fmt.Sprintf("%s has layout %d, and this version of duehook knows layout %d: start the version that wrote it", of, e.stored.Version, layoutVersion)
	case e.stored.Version < layoutVersion:
		return fmt.Sprintf("%s has layout %d of an earlier version of duehook, and this version needs layout %d: use another --namespace", of, e.stored.Version, layoutVersion)
	case e.stored.To != 0:
		return fmt.Sprintf("%s is being moved from %d to %d shards: wait until duehook reshard --shards %d has ended, or run it again if it was broken off, and then start all nodes with --shards %d",
			of, e.stored.Shards, e.stored.To, e.stored.To, e.stored.To)
	}
	return fmt.Sprintf("%s has %d shards, and --shards is %d: start all nodes with --shards %d, or stop them and run duehook reshard --shards %d",
		of, e.stored.Shards, e.Shards, e.stored.Shards, e.Shards)
}

const (
	// layoutAge is how long a successful read of the layout counts, and layoutPause a failed one.
	layoutAge   = 5 * time.Second
	layoutPause = time.Second
	// layoutPatience is how long a call waits for a read while a layout is known.
	layoutPatience = 100 * time.Millisecond
	// layoutTimeout bounds a read.
	layoutTimeout = callTimeout
)

// guard reads the layout of a namespace before the first command, after each new
// connection, and every layoutAge. If a read fails, the layout known before counts. Calls
// wait for the first read as long as it takes, and layoutPatience for later ones, so that a
// silent Redis, or one silent master of a Cluster, delays no call twice.
type guard struct {
	db        redis.UniversalClient
	namespace string
	shards    int
	log       *slog.Logger

	mu      sync.Mutex
	current *look // in progress; nil: none
	looks   sync.WaitGroup
	last    atomic.Pointer[look]
	met     atomic.Int64              // connections that were made
	again   func(ctx context.Context) // after every policyEvery reads; nil: nothing
	reads   int
}

// look is one read of the layout. Its results are set when done is closed.
type look struct {
	done  chan struct{}
	began time.Time

	ended time.Time
	met   int64 // connections that had been made then
	err   error // why nothing may be sent
	// failed: nothing could be read; unknown: and nothing was known before.
	failed, unknown bool
}

func newGuard(db redis.UniversalClient, o Options) *guard {
	return &guard{db: db, namespace: o.Namespace, shards: o.Shards, log: o.Logger}
}

// close waits for the read in progress. The client is closed by then, so it ends.
func (g *guard) close() {
	closed := &look{done: make(chan struct{}), err: redis.ErrClosed, unknown: true}
	close(closed.done)
	g.mu.Lock()
	g.current = closed // no other begins
	g.mu.Unlock()
	g.looks.Wait()
}

// holds reports whether the result still counts: a failure for layoutPause, a layout for
// layoutAge and only without new connections.
func (l *look) holds(now time.Time, met int64) bool {
	switch {
	case l == nil || l.unknown:
		return false
	case l.failed:
		return now.Sub(l.ended) < layoutPause
	}
	return l.met == met && now.Sub(l.ended) < layoutAge
}

type unguarded struct{}

// check returns a *LayoutError if nothing may be sent, or why the layout is unknown.
func (g *guard) check(ctx context.Context) error {
	if ctx.Value(unguarded{}) != nil {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	clock := job.SystemClock()
	old := g.last.Load()
	if old.holds(clock.Now(), g.met.Load()) {
		return old.err
	}
	l := g.begin(ctx)
	var enough <-chan time.Time
	if old != nil && !old.unknown {
		t := clock.NewTimer(l.began.Add(layoutPatience).Sub(clock.Now()))
		defer t.Stop()
		enough = t.C()
	}
	select {
	case <-l.done:
		return l.err
	case <-enough:
		return old.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// begin returns the read in progress, or starts one.
func (g *guard) begin(ctx context.Context) *look {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.current != nil {
		return g.current
	}
	l := &look{done: make(chan struct{}), began: job.SystemClock().Now()}
	g.current = l
	ctx = context.WithoutCancel(ctx)
	g.looks.Go(func() {
		g.end(l, g.look(ctx))
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.current == l {
			g.current = nil
		}
		close(l.done)
	})
	return l
}

// end stores the result of a read.
func (g *guard) end(l *look, err error) {
	old := g.last.Load()
	l.err, l.ended, l.met = err, job.SystemClock().Now(), g.met.Load()
	var wrong *LayoutError
	switch known := old != nil && !old.unknown; {
	case err == nil && known && old.err != nil:
		g.log.Info("the namespace has the layout of this node again: it serves requests")
	case err != nil && errors.As(err, &wrong) && (!known || old.err == nil):
		g.log.Error("the namespace has another layout: this node serves nothing", "error", err)
	case err != nil && !errors.As(err, &wrong):
		l.failed, l.unknown = true, !known
		if known {
			l.err = old.err
		}
	}
	g.last.Store(l)
}

// look reads the layout, and writes it if there is none.
func (g *guard) look(ctx context.Context) error {
	ctx = context.WithValue(ctx, unguarded{}, true)
	limited, cancel := context.WithTimeout(ctx, layoutTimeout)
	defer cancel()
	l, err := readLayout(limited, g.db, g.namespace)
	if err != nil {
		return err
	}
	if l == nil {
		if l, err = writeLayout(limited, g.db, g.namespace, nil, &layout{Version: layoutVersion, Shards: g.shards}); err != nil {
			return err
		}
	}
	if g.reads++; g.again != nil && g.reads%policyEvery == 0 { // one read at a time
		g.again(limited)
	}
	return l.suits(g.namespace, g.shards)
}

// suits returns a *LayoutError if a node with this number of shards must not use the layout.
func (l *layout) suits(namespace string, shards int) error {
	if l.Version != layoutVersion || l.Shards != shards || l.To != 0 {
		return &LayoutError{Namespace: namespace, Shards: shards, stored: *l}
	}
	return nil
}

// checkLayout returns a *LayoutError if there is a layout, and not that of o.
func (s *Store) checkLayout(ctx context.Context, o Options) error {
	l, err := readLayout(ctx, s.db, cmp.Or(o.Namespace, "default"))
	if err != nil || l == nil {
		return s.wrap(err)
	}
	return l.suits(cmp.Or(o.Namespace, "default"), len(s.shards))
}

// readLayout returns the layout of a namespace, nil if there is none.
func readLayout(ctx context.Context, db redis.Cmdable, namespace string) (*layout, error) {
	text, err := db.Get(ctx, layoutKey(namespace)).Result()
	if isNil(err) {
		return nil, nil //nolint:nilnil // there is none
	}
	if err != nil {
		return nil, fmt.Errorf("read the layout: %w", err)
	}
	return parseLayout(text)
}

func parseLayout(text string) (*layout, error) {
	var l layout
	if err := json.Unmarshal([]byte(text), &l); err != nil || l.Version < 1 || l.Shards < 1 {
		return nil, fmt.Errorf("redisstore: %.80q is not a layout", text)
	}
	return &l, nil
}

// writeLayout replaces old (nil: no layout) and returns the layout stored then.
func writeLayout(ctx context.Context, db redis.UniversalClient, namespace string, old, l *layout) (*layout, error) {
	text, err := json.Marshal(l)
	if err != nil {
		return nil, fmt.Errorf("redisstore: encode the layout: %w", err)
	}
	key := layoutKey(namespace)
	err = db.Watch(ctx, func(tx *redis.Tx) error {
		stands, err := readLayout(ctx, tx, namespace)
		if err != nil || !reflect.DeepEqual(stands, old) {
			return err
		}
		_, err = tx.TxPipelined(ctx, func(p redis.Pipeliner) error { return p.Set(ctx, key, text, 0).Err() })
		return err
	}, key)
	if err != nil && !errors.Is(err, redis.TxFailedErr) {
		return nil, fmt.Errorf("write the layout: %w", err)
	}
	l, err = readLayout(ctx, db, namespace)
	if err == nil && l == nil {
		err = errors.New("the layout was deleted concurrently")
	}
	return l, err
}

// guarded sends commands only if guard allows them.
type guarded struct{ *guard }

func (guarded) DialHook(next redis.DialHook) redis.DialHook { return next }

func (g guarded) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if err := g.check(ctx); err != nil {
			cmd.SetErr(err)
			return err
		}
		return next(ctx, cmd)
	}
}

func (g guarded) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if err := g.check(ctx); err != nil {
			for _, cmd := range cmds {
				cmd.SetErr(err)
			}
			return err
		}
		return next(ctx, cmds)
	}
}

// registeredAs is the job whose registration a field holds; false: it holds something else.
func registeredAs(field string) (job.Key, bool) {
	topic, id, ok := strings.Cut(field, "/")
	return job.Key{Topic: topic, ID: id}, ok && !strings.HasSuffix(id, progressSign)
}
