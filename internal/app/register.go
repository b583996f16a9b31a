package app

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/services/alerts"
	"github.com/duehook/duehook/store"
)

// Trace is the W3C trace context of a registration: its headers traceparent and tracestate, or nothing.
type Trace struct{ Parent, State string }

// Origin is the part of a request that its drafts lack.
type Origin struct {
	// Key is the Idempotency-Key of the call, a valid name, or empty. It becomes the job's id.
	Key   string
	Trace Trace
	// Pull has consumers fetch a job if neither its draft nor its topic has a destination.
	Pull bool
	// Topics are the topics to which the caller is restricted; empty: none in particular.
	Topics job.TopicSet
	// Row is the row of an inbox that makes the request, or nil.
	Row *Row
}

// Row is the row of an inbox.
type Row struct {
	// ULID is that of the row, from which the uids of its jobs are made. A repetition finds its jobs by them.
	ULID string
	// Age shortens the delay, which counts from the time of the row.
	Age time.Duration
}

// shorten shortens the delay of a request by the age of its row.
func (o *Origin) shorten(w *job.When) {
	if o.Row != nil && w.At == 0 {
		w.Delay = max(0, w.Delay-o.Row.Age)
	}
}

// newUID makes the uid of a job.
func (s *App) newUID(key job.Key, from *Origin) (string, error) {
	if from.Row != nil {
		return store.SuccessorUID(from.Row.ULID, key), nil
	}
	uid, err := s.o.NewUID(key)
	if err != nil {
		return "", fmt.Errorf("make a uid: %w", err)
	}
	return uid, nil
}

// Prepared is a registration that is valid here, and has all that its draft left
// open. It shares no memory with the draft's body.
type Prepared struct {
	reg store.Registration
	fan *FanOut // whose job it is, or nil
}

// Key is the key of the job.
func (p *Prepared) Key() job.Key { return p.reg.Key }

// Prepare checks a draft and fills in absent fields: ids, and the defaults of its topic.
// Errors: a *job.ValidationError, a *BlockedError, a *job.TopicError, or one that wraps
// job.ErrBodyTooLarge.
func (s *App) Prepare(d *job.Draft, from Origin) (Prepared, error) {
	request, err := s.addressed(d, from.Pull).Registration(s.o.Bounds, job.InstantOf(s.o.Clock.Now()))
	if err == nil {
		err = from.name(&request, d)
	}
	if err != nil {
		return Prepared{}, err
	}
	if err := from.Topics.Allow(request.Key.Topic); err != nil {
		return Prepared{}, err
	}
	if request.Key.Topic == alerts.Topic {
		return Prepared{}, errReservedTopic()
	}
	if err := s.checkDestinations("", &request.Spec); err != nil {
		return Prepared{}, err
	}
	request.Spec.Content = fingerprint(d, &request.Spec)
	from.shorten(&request.Spec.When)
	s.fill(d, request.Key.Topic, &request.Spec)
	if _, reserved := job.CallbackOf(request.Key.ID); reserved {
		return Prepared{}, errReservedID()
	}
	return s.prepared(request.Key, &request, &from)
}

// name gives a request the id that an Idempotency-Key names.
func (o *Origin) name(r *job.Request, d *job.Draft) error {
	if o.Key == "" {
		return nil
	}
	var f job.Findings
	if d.ID != nil {
		f.Add("id", "must not be combined with an Idempotency-Key: the id makes the call safe to repeat")
	}
	if d.OnConflict != nil {
		f.Add("on_conflict", "must not be combined with an Idempotency-Key, which no other content can have; give the job an id")
	}
	r.Key.ID, r.OnConflict = o.Key, job.ConflictKey
	return f.Err()
}

// addressed gives a draft without a destination that of its topic, or else the pull queue.
func (s *App) addressed(d *job.Draft, pull bool) *job.Draft {
	if d.Destination != nil || d.Group != nil || d.Pull != nil && *d.Pull {
		return d
	}
	topic := job.DefaultTopic
	if d.Topic != nil {
		topic = *d.Topic
	}
	own := *d
	if defaults := s.defaults(topic); defaults != nil && defaults.Destination != "" {
		own.Destination = &defaults.Destination
	} else if pull {
		own.Pull = new(true)
	}
	return &own
}

func errReservedTopic() error {
	return job.Invalid("topic", "is reserved for the webhooks of alerts")
}

func errReservedID() error {
	return job.Invalid("id", "has the form of the id of a callback; choose another")
}

// prepared sets the uid of a job; without an id, the uid is its id, too.
func (s *App) prepared(key job.Key, request *job.Request, from *Origin) (Prepared, error) {
	uid := request.UID
	if uid == "" {
		made, err := s.newUID(key, from)
		if err != nil {
			return Prepared{}, err
		}
		uid = store.OrderUID(made, key.Topic, request.Spec.OrderKey)
	} else if !store.UIDOf(uid, key, request.Spec.OrderKey) {
		return Prepared{}, job.Invalid("uid", "is not one that duehook made for this topic, id and order_key; leave it out")
	}
	if key.ID == "" {
		key.ID = uid
	}
	p := Prepared{reg: store.Registration{
		Key: key, UID: uid, Spec: ownBody(request.Spec), OnConflict: request.OnConflict,
	}}
	p.reg.Spec.Traceparent, p.reg.Spec.Tracestate = from.Trace.Parent, from.Trace.State
	return p, nil
}

// ownBody copies the one part of a Spec that may point into a request's buffer.
func ownBody(s job.Spec) job.Spec {
	if s.BodyForm == job.BodyJSON {
		s.Body = bytes.Clone(s.Body)
	}
	return s
}

// Refuse counts registrations that did not come to Register: invalid ones, or ones
// that failed here.
func (s *App) Refuse(n int, invalid bool) {
	outcome := outcomeUnavailable
	if invalid {
		outcome = outcomeInvalid
	}
	s.metrics.count(outcome, n)
}

// Register registers jobs. The results are in their order. After an error, the outcome of
// all of them is unknown; registering again with the same ids is safe. If a job of a fan-out
// is in conflict, Register cancels the jobs that it made for the fan-out, see Withdrawn.
func (s *App) Register(ctx context.Context, jobs ...Prepared) ([]store.Registered, error) {
	regs := make([]store.Registration, len(jobs))
	for i := range jobs {
		regs[i] = jobs[i].reg
	}
	registered, err := register(ctx, s.o.Store, regs)
	if err != nil {
		s.metrics.count(outcomeUnavailable, len(regs))
		return nil, err
	}
	full := false
	for i := range registered {
		s.metrics.count(OutcomeNames[registered[i].Outcome], 1)
		full = full || registered[i].Outcome == store.StoreFull
	}
	if full { // the client repeats all of them
		return nil, store.ErrFull
	}
	return registered, s.withdraw(ctx, jobs, registered)
}

// Refusal is the error of a job that was not registered: a *ConflictError, or that of
// store.RegisterOutcome. Nil: the job is registered.
func Refusal(r *store.Registered) error {
	if r.Outcome.Conflicts() {
		return &ConflictError{*r}
	}
	return r.Outcome.Err()
}

// ConflictError refuses a registration because of the job that has its key.
type ConflictError struct{ store.Registered }

func (e *ConflictError) Error() string {
	return fmt.Sprintf("%s: %s (uid %s) is %s", OutcomeNames[e.Outcome], e.Job.Key, e.Job.UID, e.Job.State)
}

// RegisterOwn registers jobs that the server makes itself, with uids of store.BindUID or
// store.OrderUID. They count in no metric of clients.
func (s *App) RegisterOwn(ctx context.Context, regs []store.Registration) ([]store.Registered, error) {
	return register(ctx, s.o.Store, regs)
}
