package schedules

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/duehook/duehook/internal/services/events"
	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/schedule"
	"github.com/duehook/duehook/store"
)

// change changes the schedule itself, after everything up to the change was decided.
func (w *work) change(ctx context.Context, c change) error {
	if c.Kind == changeRun {
		return w.run(ctx, &c)
	}
	r := &w.rec
	if c.Kind != changeResume {
		gone, raised, err := w.withdraw(ctx, &c)
		if err != nil {
			return err
		}
		w.withdrawn(&c, gone, raised)
	}
	cut := after(c.At)
	switch c.Kind {
	case changePut:
		if r.Queued != nil && r.Queued.Def == nil {
			old := r.Def
			r.Queued.Def = &old
		}
		if r.Def.Overlap == schedule.Allow && c.Def.Overlap != schedule.Allow {
			if err := w.findOpen(ctx, cut); err != nil {
				return err
			}
		}
		r.remember(cut)
		r.Def, r.Since = *c.Def, cut
	case changePause, changeDelete:
		if r.Queued != nil {
			w.skipPaused(r.Queued.Time, 1)
			r.Queued = nil
		}
		r.Former, r.PausedAt, r.Note = nil, c.At, c.Note
	case changeResume:
		r.PausedAt, r.Note, r.Since = 0, c.Note, cut
	}
	r.Cursor, r.UpdatedAt, r.LastError = cut, c.At, nil
	r.Stayed = slices.DeleteFunc(r.Stayed, func(at int64) bool { return at <= cut })
	r.Version++
	if c.Kind == changeDelete {
		w.rec = record{UID: r.UID, Version: r.Version, DeletedAt: c.At}
	}
	return nil
}

// maxOpen bounds the latest occurrences that are looked up when jobs may no longer overlap.
const maxOpen = 100

// findOpen notes the unfinished jobs of the latest occurrences, which nobody noted while
// jobs could overlap.
func (w *work) findOpen(ctx context.Context, cut int64) error {
	r := &w.rec
	rules, err := r.Def.rules(w.name)
	if err != nil {
		return err
	}
	for _, t := range rules.Table.Latest(seconds(r.Since), seconds(cut), maxOpen) {
		r.Open = append(r.Open, job.Key{Topic: r.Def.Topic(), ID: schedule.ID(w.name, t)})
	}
	_, err = w.m.busy(ctx, r)
	return err
}

// withdrawn counts the jobs that a change withdrew. Occurrences before a pause are
// skipped, including those between the call and the time that the pause was raised to.
func (w *work) withdrawn(c *change, gone []aheadJob, raised job.Instant) {
	r, called := &w.rec, after(c.At)
	c.At = max(c.At, raised)
	cut := after(c.At)
	r.Fired -= int64(len(gone))
	slices.SortFunc(gone, func(a, b aheadJob) int { return cmp.Compare(a.at, b.at) })
	for _, j := range gone {
		switch {
		case j.at > cut:
		case c.Kind == changePut: // an earlier run withdrew it, for a change that came later
			w.missed(j.at, 1)
		default:
			w.skipPaused(j.at, 1)
		}
	}
	if c.Kind == changePut {
		return
	}
	rules, err := r.Def.rules(w.name)
	if decided := max(r.Cursor, called); err == nil && decided < cut {
		if n := rules.Table.Count(seconds(decided), seconds(cut)); n > 0 {
			w.skipPaused(cut, n)
		}
	}
}

func (w *work) missed(at, n int64) {
	w.rec.Missed += n
	w.outcome(job.InstantOf(seconds(at)), schedule.Missed, "", events.OccurrenceMissed, n)
}

func (w *work) skipPaused(at, n int64) {
	w.rec.Skipped += n
	w.outcome(job.InstantOf(seconds(at)), schedule.Skipped, ReasonPaused, events.OccurrenceSkipped, n)
}

// form is a timetable that jobs were registered by.
type form struct {
	Def   Definition `json:"definition"` // of its job only the topic
	From  int64      `json:"from"`       // From < T <= Until
	Until int64      `json:"until"`
}

// maxForms bounds the earlier forms whose jobs still wait for their jitter.
const maxForms = 64

// present is the form that the schedule has now.
func (r *record) present() form { return form{r.Def, r.Since, r.Cursor} }

// remember keeps the present form while its jobs may wait for their jitter: a pause
// withdraws them. Forms of the same times are one.
func (r *record) remember(cut int64) {
	r.Former = r.pending(cut)
	if r.Def.spread() == 0 {
		return
	}
	f := form{r.Def.timesOnly(), r.Since, cut}
	if n := len(r.Former); n > 0 && r.Former[n-1].Until == f.From && r.Former[n-1].Def.equal(&f.Def) {
		r.Former[n-1].Until = cut
		return
	}
	r.Former = append(r.Former, f)
}

// pending are the earlier forms whose jobs may not be due at a time in seconds.
func (r *record) pending(at int64) []form {
	return slices.DeleteFunc(slices.Clone(r.Former), func(f form) bool {
		return f.Until+int64(f.Def.spread()/time.Second) < at
	})
}

// timesOnly is what a definition says about times, and the topic.
func (d *Definition) timesOnly() Definition {
	topic := d.Topic()
	return Definition{Spec: d.Spec, Jitter: d.spread(), Job: job.Draft{Topic: &topic}}
}

// aheadJob is a job that was registered before the time of a change.
type aheadJob struct {
	key job.Key
	at  int64 // T, in seconds
	due job.Instant
	// form is the version of the schedule that registered it. Zero: an earlier one, after
	// which no form has the time again.
	form uint64
	// order is what the change compares with its time: T for another form, D for a pause.
	order job.Instant
}

// ahead lists the jobs that a change withdraws, in their order.
func (w *work) ahead(c *change) (list []aheadJob, err error) {
	r := &w.rec
	forms := []form{r.present()}
	if c.Kind != changePut {
		forms = append(forms, r.Former...)
	}
	for i := range forms {
		f := &forms[i]
		rules, err := f.Def.rules(w.name)
		if err != nil {
			return nil, err
		}
		from := after(c.At)
		if c.Kind != changePut {
			from -= int64(f.Def.spread()/time.Second) + 1
		}
		for t := range rules.Table.Between(seconds(max(from, f.From)), seconds(f.Until)) {
			j := aheadJob{
				key: job.Key{Topic: f.Def.Topic(), ID: schedule.ID(w.name, t)}, at: t.Unix(), due: job.InstantOf(schedule.Due(w.name, t, f.Def.spread())),
			}
			if i == 0 {
				j.form = r.Version
			}
			j.order = j.due
			if c.Kind == changePut {
				j.order = job.InstantOf(t)
			}
			if j.order > c.At {
				list = append(list, j)
			}
		}
	}
	slices.SortFunc(list, func(a, b aheadJob) int { return cmp.Compare(a.order, b.order) })
	return list, nil
}

// withdraw cancels the jobs that were registered for occurrences after a change. An
// attempt at one of them may have begun since the call. Then the change takes effect at
// that occurrence, and what comes before it stays: raised is its time, or else zero.
// Jobs that a client ran or cancelled before their time stay, and are not decided again.
func (w *work) withdraw(ctx context.Context, c *change) (gone []aheadJob, raised job.Instant, err error) {
	list, err := w.ahead(c)
	if err != nil || len(list) == 0 {
		return nil, 0, err
	}
	now, err := w.m.o.Store.Now(ctx)
	if err != nil {
		return nil, 0, err
	}
	// Those that cannot become due during this call are withdrawn side by side.
	var far []aheadJob
	var stayed []int64
	for _, j := range slices.Backward(list) {
		if j.due > now.Add(callTimeout) {
			far = append(far, j)
			continue
		}
		was, err := w.withdrawOne(ctx, &j)
		if err != nil {
			return nil, 0, err
		}
		if was == withdrawn {
			gone = append(gone, j)
			continue
		}
		if now, err = w.m.o.Store.Now(ctx); err != nil {
			return nil, 0, err
		}
		if was == stays && j.due <= now {
			raised = j.order
			break
		}
		stayed = append(stayed, j.at)
	}
	if raised != 0 && w.inherited {
		before := slices.DeleteFunc(slices.Clone(list), func(j aheadJob) bool { return j.order > raised })
		earlier, _, err := w.byFate(ctx, before, w.fateBefore)
		if err != nil {
			return nil, 0, err
		}
		gone = append(gone, earlier...)
	}
	far = slices.DeleteFunc(far, func(j aheadJob) bool { return j.order <= raised })
	cancelled, others, err := w.byFate(ctx, far, w.withdrawOne)
	if err != nil {
		return nil, 0, err
	}
	w.rec.Stayed = append(append(w.rec.Stayed, stayed...), others...)
	return append(gone, cancelled...), raised, nil
}

// byFate splits jobs into withdrawn ones and the times of the others.
func (w *work) byFate(ctx context.Context, jobs []aheadJob, of func(context.Context, *aheadJob) (fate, error)) (gone []aheadJob, others []int64, err error) {
	fates := make([]fate, len(jobs))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for i := range jobs {
		group.Go(func() (err error) {
			fates[i], err = of(ctx, &jobs[i])
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, nil, err
	}
	for i, j := range jobs {
		if fates[i] == withdrawn {
			gone = append(gone, j)
		} else {
			others = append(others, j.at)
		}
	}
	return gone, others, nil
}

// fate is what became of a job that a change withdraws.
type fate uint8

const (
	withdrawn fate = iota
	stays          // an attempt has begun, or a client changed it
	missing        // it was never registered, or was forgotten
)

var errStays = errors.New("the job stays")

// withdrawOne cancels a job to which nothing happened yet: no worker had it, and no client
// ran it. One that an earlier run of the intent cancelled is withdrawn, too.
func (w *work) withdrawOne(ctx context.Context, ahead *aheadJob) (fate, error) {
	return w.fate(ctx, ahead, func(j *job.Job, now job.Instant) error {
		if !w.ours(j, ahead) || j.Token > 0 || j.NextAt < ahead.due || j.State.Final() {
			return errStays
		}
		inFlight, err := j.Cancel(now)
		if inFlight {
			return errStays
		}
		return err
	})
}

// fateBefore reports what an earlier run of the intent made of a job.
func (w *work) fateBefore(ctx context.Context, ahead *aheadJob) (fate, error) {
	return w.fate(ctx, ahead, func(*job.Job, job.Instant) error { return errStays })
}

// ours reports whether a job is that of an occurrence in its form. A node that stood still
// may meet jobs of later forms, which have the same ids.
func (w *work) ours(j *job.Job, ahead *aheadJob) bool {
	o := j.Spec.Occurrence
	if o == nil || o.Schedule != w.name || o.Kind != job.ByTimetable && o.Kind != job.ByMisfire {
		return false
	}
	uid := store.OrderUID(uidOf(w.rec.UID, ahead.form, o.Kind, ahead.at, j.Key), j.Topic, j.Spec.OrderKey)
	return ahead.form == 0 || j.First() == uid
}

// fate reports what became of a job, which withdraw cancels, or refuses with errStays.
func (w *work) fate(ctx context.Context, ahead *aheadJob, withdraw func(j *job.Job, now job.Instant) error) (fate, error) {
	j, err := w.m.o.Jobs.Update(ctx, ahead.key, withdraw)
	switch {
	case err == nil:
		return withdrawn, nil
	case errors.Is(err, store.ErrNotFound):
		return w.fateByJournal(ctx, ahead.key)
	case errors.Is(err, errStays):
		if w.ours(&j, ahead) && j.State == job.Cancelled && j.Token == 0 && j.EndedAt >= w.rec.Intent.At {
			return withdrawn, nil
		}
		return stays, nil
	}
	return stays, err
}

// fateByJournal is for a job that the store does not have: it may have lost one that an
// earlier run of the intent cancelled.
func (w *work) fateByJournal(ctx context.Context, key job.Key) (fate, error) {
	if w.m.o.Journal == nil || !w.inherited {
		return missing, nil
	}
	j, _, err := w.m.o.Journal.RestoreJob(ctx, key)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return missing, nil
	case errors.Is(err, job.ErrFinished) && j.State == job.Cancelled:
		return withdrawn, nil
	case errors.Is(err, job.ErrFinished):
		return stays, nil
	}
	return stays, err
}

// pass removes the times up to at from those whose jobs an earlier form registered and
// could not withdraw, and returns how many there were.
func (r *record) pass(at int64) (n int64) {
	r.Stayed = slices.DeleteFunc(r.Stayed, func(stayed int64) bool {
		if stayed <= at {
			n++
		}
		return stayed <= at
	})
	return n
}
