package schedules

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/duehook/duehook/internal/documents"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/kit/feed"
	"github.com/duehook/duehook/store"
)

// Bounds of the runs of a schedule; the oldest go first.
const (
	MaxRuns     = 100
	MaxRunBytes = 16 << 10 // about 70 runs

	maxDead    = 100    // occurrences in a row that become dead letters until the schedule is paused
	maxPending = 10_000 // runs that a node has not written
	writeBatch = 100    // schedules of one write
	writeRuns  = time.Second
	lastWrite  = 5 * time.Second // of the last writing, at shutdown
)

// Run is a job of a schedule that has ended. It outlives the job.
type Run struct {
	Time job.Instant
	Kind job.OccurrenceKind
	job.Key
	UID      string
	State    job.State
	Reason   string `json:",omitempty"`
	Attempts int
	// Started, Duration, Status and Error are those of the last attempt, zero without one.
	Started  job.Instant   `json:",omitzero"`
	Duration time.Duration `json:",omitzero"`
	Status   int           `json:",omitzero"`
	Error    string        `json:",omitempty"`
	Ended    job.Instant

	to job.Destination // of the job; not stored
}

func (r *Run) of(a *job.Attempt) {
	if a != nil {
		r.Started, r.Duration, r.Status, r.Error = a.StartedAt, a.Duration, a.Status, a.Error
	}
}

// runs is the document of a schedule: its last runs, in the order of their ends.
type runs struct {
	Runs []Run
	// Dead counts the occurrences that became dead letters since one was delivered, DeadAt is the last of them.
	Dead   int         `json:",omitzero"`
	DeadAt job.Instant `json:",omitzero"`
}

// add adds runs, replaces those of jobs that ended before and were replayed, and forgets the oldest.
func (h *runs) add(more []Run) {
	for _, r := range more {
		h.count(&r)
		h.Runs = append(slices.DeleteFunc(h.Runs, func(old Run) bool { return old.UID == r.UID }), r)
	}
	sort.SliceStable(h.Runs, func(i, j int) bool { return h.Runs[i].Ended < h.Runs[j].Ended })
	h.Runs = h.Runs[max(len(h.Runs)-MaxRuns, 0):]
	for len(h.Runs) > 1 && h.size() > MaxRunBytes {
		h.Runs = h.Runs[1+len(h.Runs)/10:]
	}
}

// count counts dead occurrences in a row. An occurrence counts once, whatever its number of jobs.
func (h *runs) count(r *Run) {
	switch {
	case r.State == job.Delivered:
		h.Dead, h.DeadAt = 0, 0
	case r.State == job.Dead && (h.Dead == 0 || r.Time != h.DeadAt):
		h.Dead, h.DeadAt = h.Dead+1, r.Time
	}
}

func (h *runs) size() int {
	text, _ := json.Marshal(h) // as it is stored
	return len(text)
}

// RunLog keeps the last runs of each schedule in a document. Each node collects the ends of
// jobs that it sees, and writes them every second: a node that is killed loses those of the last
// second. It is safe for concurrent use.
type RunLog struct {
	docs  *documents.Collection[runs]
	defs  *documents.Collection[record]
	pause func(ctx context.Context, name, reason string, last *Run) error // nil: nobody does
	clock job.Clock
	log   *slog.Logger

	mu      sync.Mutex
	pending map[string][]Run // by schedule
	count   int
}

// NewRunLog returns a RunLog, which writes while Run does. A nil clock is the machine's, a nil
// logger none.
func NewRunLog(s store.Documents, clock job.Clock, log *slog.Logger) *RunLog {
	clock = cmp.Or(clock, job.SystemClock())
	return &RunLog{
		docs: documents.New(documents.Options[runs]{Store: s, Kind: "schedule_runs", Clock: clock, Strict: true}),
		defs: collection(s, clock), clock: clock, log: cmp.Or(log, slog.New(slog.DiscardHandler)), pending: map[string][]Run{},
	}
}

// Subscriber collects the ends of the jobs of schedules.
func (h *RunLog) Subscriber() feed.Subscriber {
	return feed.Subscriber{Settled: h.settled, Updated: h.updated}
}

func (h *RunLog) settled(outcomes iter.Seq2[*job.Settlement, *store.Settled]) {
	for s, r := range outcomes {
		if s.Claimed == nil || s.Claimed.Spec.Occurrence == nil || !r.To.Final() {
			continue
		}
		of := s.Claimed.Spec.Occurrence
		run := Run{Time: of.Time, Kind: of.Kind, Key: s.Key, UID: r.UID, State: r.To, Reason: r.Reason, Attempts: s.Attempts, Ended: r.EndedAt, to: s.Claimed.Spec.Destination}
		run.of(s.Attempt)
		h.note(of.Schedule, run)
	}
}

func (h *RunLog) updated(j *job.Job, before job.State, _ job.Instant) {
	if j.Spec.Occurrence == nil || !j.State.Final() || before == j.State {
		return
	}
	of := j.Spec.Occurrence
	run := Run{Time: of.Time, Kind: of.Kind, Key: j.Key, UID: j.UID, State: j.State, Reason: j.Reason, Attempts: j.Attempts, Ended: j.EndedAt, to: j.Spec.Destination}
	run.of(j.LastAttempt)
	h.note(of.Schedule, run)
}

func (h *RunLog) note(schedule string, r Run) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.count == maxPending {
		return // the store is not available
	}
	h.count++
	h.pending[schedule] = append(h.pending[schedule], r)
}

// Run writes runs until ctx ends.
func (h *RunLog) Run(ctx context.Context) error {
	for job.Sleep(ctx, h.clock, writeRuns) == nil {
		h.write(ctx)
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWrite)
	defer cancel()
	h.write(last)
	return nil
}

// write writes what is pending. What cannot be written stays so.
func (h *RunLog) write(ctx context.Context) {
	h.mu.Lock()
	pending := h.pending
	h.pending, h.count = map[string][]Run{}, 0
	h.mu.Unlock()
	for names := range slices.Chunk(slices.Sorted(maps.Keys(pending)), writeBatch) {
		left, err := h.store(ctx, names, pending)
		if err != nil {
			h.log.Debug("runs of schedules were not stored", "schedules", len(left), "error", err)
		}
		for _, name := range left {
			for _, r := range pending[name] {
				h.note(name, r)
			}
		}
	}
}

// store adds runs to schedules, and returns the schedules whose runs it did not store.
// A deleted one has no runs.
func (h *RunLog) store(ctx context.Context, names []string, more map[string][]Run) (left []string, err error) {
	var docs []*documents.Document[runs]
	for _, name := range names {
		d, err := h.with(ctx, name, more[name])
		if err != nil {
			return names, err
		}
		if d != nil {
			docs = append(docs, d)
		}
	}
	stored, err := h.docs.PutAll(ctx, docs)
	for i, d := range docs {
		if err != nil || !stored[i] {
			left = append(left, d.Name)
		}
	}
	return left, err
}

// with is the document of a schedule with more runs; nil if there is no such schedule, or a newer
// version has written its runs.
func (h *RunLog) with(ctx context.Context, name string, more []Run) (*documents.Document[runs], error) {
	switch d, err := h.defs.Get(ctx, name); {
	case errors.Is(err, store.ErrNotFound), err == nil && !d.Value.exists():
		return nil, h.forget(ctx, name)
	case err != nil && d.Err == nil:
		return nil, err
	}
	d, err := h.docs.Get(ctx, name)
	switch {
	case d.Err != nil:
		return nil, nil //nolint:nilerr // it is left to newer nodes
	case err != nil && !errors.Is(err, store.ErrNotFound):
		return nil, err
	}
	d.Value.add(more)
	return &d, h.stop(ctx, name, &d.Value, more)
}

// stop pauses a schedule whose receiver is gone, or whose occurrences die.
func (h *RunLog) stop(ctx context.Context, name string, all *runs, more []Run) error {
	if h.pause == nil {
		return nil
	}
	for i := range more {
		if r := &more[i]; r.Reason == job.ReasonGone && r.State == job.Dead {
			if err := h.pause(ctx, name, job.PausedGone, r); err != nil {
				return err
			}
		}
	}
	if all.Dead < maxDead {
		return nil
	}
	all.Dead, all.DeadAt = 0, 0
	return h.pause(ctx, name, job.PausedDead, &all.Runs[len(all.Runs)-1])
}

func (h *RunLog) forget(ctx context.Context, name string) error {
	err := h.docs.Remove(ctx, name)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return err
}

// of returns the runs of a schedule, with those that this node has yet to write.
func (h *RunLog) of(ctx context.Context, name string) ([]Run, error) {
	d, err := h.docs.Get(ctx, name)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, err
	}
	h.mu.Lock()
	d.Value.add(h.pending[name])
	h.mu.Unlock()
	return d.Value.Runs, nil
}

// Runs returns the runs of a schedule that ended last, in the order of their ends.
func (m *Manager) Runs(ctx context.Context, name string) ([]Run, error) {
	s, err := m.Get(ctx, name)
	if err != nil {
		return nil, err
	}
	all, err := m.o.RunLog.of(ctx, name)
	// A schedule of the same name may have been deleted.
	return slices.DeleteFunc(all, func(r Run) bool { return r.Ended < s.CreatedAt }), err
}
