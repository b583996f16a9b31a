package inbox

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/oklog/ulid/v2"

	"github.com/duehook/duehook/internal/app"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

// work is a row, and what becomes of it: without a failure, and with nothing to wait for, it is registered.
type work struct {
	row
	reg      Registration
	failure  string // why it is no job
	waitsFor string
	refused  bool // the store has it wait
	repeated bool // its job was registered before
}

// prepareNext prepares the first rows, and returns how many of them make one call of the store: those up to one whose key
// comes again, because a repetition of the call must find the last registration of each key; a fan-out is alone. A row that
// ends a call is prepared again for the next one: it may ask for what comes before it.
func (r *reader) prepareNext(ctx context.Context, todo []work) (int, error) {
	keys := make(map[job.Key]bool, len(todo))
	for i := range todo {
		w := &todo[i]
		if err := r.prepare(ctx, w); err != nil {
			return 0, err
		}
		switch key := w.reg.key(); {
		case w.failure != "":
		case w.reg.Fan != nil:
			return max(i, 1), nil
		case keys[key]:
			return i, nil
		default:
			keys[key] = true
		}
	}
	return len(todo), nil
}

// prepare checks the request of a row. The error is that of an outage.
func (r *reader) prepare(ctx context.Context, w *work) (err error) {
	if w.request == nil {
		w.failure = fmt.Sprintf("The request has %d bytes; at most %d are allowed.", w.size, r.m.o.MaxRequest)
		r.m.o.Jobs.Refuse(1, true)
		return nil
	}
	defer func() {
		if v := recover(); v != nil { // one row must not stop the others
			err = r.judge(w, fmt.Errorf("panic: %v\n%s", v, debug.Stack()))
		}
	}()
	of := &app.Row{ULID: ulidOf(r.in.Name, w.key, w.created), Age: w.age}
	if r.m.o.FromNow {
		of.Age = 0
	}
	w.reg, err = r.m.o.Prepare(ctx, w.request, w.key, app.Origin{Topics: r.in.Topics, Row: of})
	if err != nil {
		err = r.judge(w, err)
		r.m.o.Jobs.Refuse(1, err == nil)
	}
	return err
}

// ulidOf is that of a row. It makes the uids of the row's jobs.
func ulidOf(inbox, key string, created job.Instant) string {
	digest := sha256.Sum256([]byte(inbox + "\x00" + key))
	var id ulid.ULID
	_ = id.SetTime(uint64(created) & ulid.MaxTime())
	_ = id.SetEntropy(digest[:10])
	return id.String()
}

// maxError bounds an error that a row keeps, in bytes.
const maxError = 1000

// judge decides what an error means for its row, or returns it if it is no matter of the row.
func (r *reader) judge(w *work, err error) error {
	conflict := (*app.ConflictError)(nil)
	switch {
	case errors.Is(err, store.ErrTopicFull), errors.Is(err, store.ErrTopicDraining):
		w.waitsFor, w.refused = w.reg.key().Topic, true
		return nil
	case errors.As(err, &conflict) && (conflict.Outcome == store.InFlight || conflict.Outcome == store.Busy):
		w.waitsFor, w.refused = w.reg.key().String(), true
		return nil
	case store.Unreachable(err):
		return err
	}
	text, fault := r.m.o.Explain(err)
	if !fault {
		r.log.Error("a row of an inbox cannot be registered", "row", w.id, "error", err)
		text += " See the log of the node."
	}
	w.failure = strings.ToValidUTF8(strings.ReplaceAll(text[:min(len(text), maxError)], "\x00", ""), "")
	return nil
}

// register registers the jobs of rows. The error is that of an outage: any of them may be registered.
func (r *reader) register(ctx context.Context, batch []*work) error {
	if len(batch) == 0 {
		return nil
	}
	if batch[0].reg.Fan != nil {
		return r.registerGroup(ctx, batch[0])
	}
	jobs := make([]app.Prepared, len(batch))
	for i, w := range batch {
		jobs[i] = w.reg.Job
	}
	registered, err := r.m.o.Jobs.Register(ctx, jobs...)
	switch {
	case err == nil:
		for i := range registered {
			if err := r.accept(batch[i], &registered[i]); err != nil {
				return err
			}
		}
		return nil
	case len(batch) == 1:
		return r.judge(batch[0], err)
	case errors.Is(err, store.ErrUnavailable) || ctx.Err() != nil:
		return err
	}
	half := len(batch) / 2 // a row may be the reason
	if err := r.register(ctx, batch[:half]); err != nil {
		return err
	}
	return r.register(ctx, batch[half:])
}

func (r *reader) accept(w *work, registered *store.Registered) error {
	w.repeated = w.repeated || registered.Outcome == store.Same
	if err := app.Refusal(registered); err != nil {
		return r.judge(w, err)
	}
	return nil
}

// registerGroup registers the jobs of a fan-out. The first that is refused decides.
func (r *reader) registerGroup(ctx context.Context, w *work) error {
	registered, err := r.m.o.Jobs.RegisterGroup(ctx, w.reg.Fan)
	if err != nil {
		return r.judge(w, err)
	}
	for _, one := range slices.Concat(w.reg.Fan.Refused, registered) {
		if app.Withdrawn(&one) {
			continue
		}
		if err := r.accept(w, &one); err != nil || w.failure != "" || w.waitsFor != "" {
			return err
		}
	}
	return nil
}
