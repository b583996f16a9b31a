package camellia

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"net/http"
	"time"

	"github.com/duehook/duehook/httpapi"
	"github.com/duehook/duehook/internal/app"
	"github.com/duehook/duehook/internal/app/pulls"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

// The defaults of the original.
const (
	defaultTTL         = time.Hour
	defaultMaxRetry    = 10
	defaultAckTimeout  = 30 * time.Second
	defaultPollTimeout = 10 * time.Second
	defaultBatch       = 1
)

// tooLong is a duration that no limit allows, in milliseconds.
const tooLong = int64(4 * job.MaxTTL / time.Millisecond)

// millis is a number of milliseconds as a duration; if it is not positive, otherwise.
func millis(n int64, otherwise time.Duration) time.Duration {
	if n <= 0 {
		return otherwise
	}
	return time.Duration(min(n, tooLong)) * time.Millisecond
}

// The parameters that are additions to the original, for imports. The times are those of a message.
const (
	onConflict = "on_conflict"
	dryRun     = "dry_run"
)

// send answers sendMsg.
func (a *api) send(c *httpapi.Call) error {
	draft, err := a.draft(c)
	if err == nil {
		err = a.register(c, draft)
	}
	return err
}

// draft reads a message.
func (a *api) draft(c *httpapi.Call) (*job.Draft, error) {
	f, err := a.read(c)
	if err != nil {
		return nil, err
	}
	var delay *time.Duration
	var ttl time.Duration
	at := f.instant("triggerTime")
	if at == nil {
		delay = new(millis(f.required("delayMillis"), 0))
		ttl = *delay + millis(f.number("ttlMillis", 64, -1), defaultTTL)
	} else if expires := f.instant("expireTime"); expires != nil {
		ttl = expires.Sub(a.now())
	}
	maxRetry := int(f.number("maxRetry", 32, -1))
	if err := f.check(c, "msg"); err != nil {
		return nil, err
	}
	if maxRetry < 0 {
		maxRetry = defaultMaxRetry
	}
	id := f.values.Get("msgId")
	if id == "" {
		var random [16]byte
		_, _ = rand.Read(random[:])
		id = hex.EncodeToString(random[:])
	}
	return &job.Draft{
		Topic: new(job.NameOf(f.text("topic"))), ID: new(job.NameOf(id)), Pull: new(true), Delay: delay, At: at, TTL: &ttl,
		Body: &job.Body{Form: job.BodyText, Content: []byte(f.text("msg"))}, Retry: &job.Retry{Steps: []time.Duration{0}, Limit: &maxRetry},
		OnConflict: new(cmp.Or(c.Query().Get(onConflict), string(job.ConflictRenew))), Dialect: &job.Dialect{Name: Name},
	}, nil
}

// register registers a message, unless one with its id has not ended: that is the answer then.
func (a *api) register(c *httpapi.Call, d *job.Draft) error {
	p, err := a.App.Prepare(d, app.Origin{Topics: c.Topics(), Trace: c.Trace()})
	if err != nil {
		a.App.Refuse(1, httpapi.AsError(err).ClientsFault())
		return err
	}
	key := p.Key()
	c.Target = key.String()
	r, err := a.registered(c, p)
	if err == nil && !c.Query().Has(onConflict) && r.Outcome.Held() && r.Job.State != job.Running && ended(&r.Job, a.now()) {
		// Its time has passed, and nobody has noticed.
		if _, _, err = a.App.Cancel(c.Context(), key, isStill(&r.Job)); err == nil || errors.Is(err, store.ErrNotFound) {
			r, err = a.registered(c, p)
		}
	}
	if err == nil && r.Outcome.Held() { // the answer shows the message that was there, see store.Taken
		var j job.Job
		if j, err = a.App.Get(c.Context(), key); err == nil && j.UID == r.Job.UID {
			r.Job = j
		} else if errors.Is(err, store.ErrNotFound) { // it has just gone
			err = nil
		}
	}
	if err != nil {
		return err
	}
	a.Monitor.count(key.Topic, func(s *stats) { s.SendMsg++ })
	return answerOK(c, a.view(&r.Job))
}

func (a *api) registered(c *httpapi.Call, p app.Prepared) (store.Registered, error) {
	dry, err := httpapi.Flag(dryRun, c.Query().Get(dryRun))
	if err != nil {
		return store.Registered{}, err
	}
	all, err := a.App.RegisterUnless(c.Context(), dry, p)
	if err != nil {
		return store.Registered{}, err
	}
	c.SetResult(app.OutcomeNames[all[0].Outcome])
	if all[0].Outcome.Conflicts() {
		return all[0], nil
	}
	return all[0], app.Refusal(&all[0])
}

// isStill allows a change of a job that has not changed since.
func isStill(j *job.Job) app.Allow {
	return func(is *job.Job) error {
		if is.UID != j.UID || is.Version != j.Version {
			return store.ErrNotFound
		}
		return nil
	}
}

// named reads a call for one message.
func (a *api) named(c *httpapi.Call) (*form, job.Key, error) {
	f, err := a.read(c)
	if err != nil {
		return nil, job.Key{}, err
	}
	return f, job.Key{Topic: job.NameOf(f.text("topic")), ID: job.NameOf(f.text("msgId"))}, nil
}

// released marks messages that deleteMsg has released.
const released = "released"

// find returns a message.
func (a *api) find(ctx context.Context, key job.Key) (job.Job, error) {
	j, err := a.App.Get(ctx, key)
	if err == nil && (!j.Spec.Destination.Pulled() || j.Spec.In(Name) && j.Spec.Dialect.Data == released) {
		err = store.ErrNotFound
	}
	return j, err
}

// get answers getMsg.
func (a *api) get(c *httpapi.Call) error {
	f, key, err := a.named(c)
	if err == nil {
		err = f.check(c, "msgId")
	}
	if err != nil {
		return err
	}
	j, err := a.find(c.Context(), key)
	if err != nil {
		return err
	}
	a.Monitor.count(key.Topic, func(s *stats) { s.GetMsg++ })
	return answerOK(c, a.view(&j))
}

// remove answers deleteMsg.
func (a *api) remove(c *httpapi.Call) error {
	f, key, err := a.named(c)
	if err != nil {
		return err
	}
	release, _ := f.boolean("release")
	if err := f.check(c, "msgId"); err != nil {
		return err
	}
	c.Target = key.String()
	err = a.cancel(c.Context(), key)
	if release && (err == nil || errors.Is(err, store.ErrNotFound)) {
		if failed := a.release(c.Context(), key); failed != nil {
			return failed
		}
	}
	if err != nil {
		return err
	}
	a.Monitor.count(key.Topic, func(s *stats) { s.DeleteMsg++ })
	return answerOK(c, nil)
}

// cancel ends a message, also if a consumer has it. The error is store.ErrNotFound if it has ended.
func (a *api) cancel(ctx context.Context, key job.Key) error {
	if _, err := a.find(ctx, key); err != nil {
		return err
	}
	j, result, err := a.App.Cancel(ctx, key, func(is *job.Job) error {
		if ended(is, a.now()) {
			return store.ErrNotFound
		}
		return nil
	})
	if err == nil && result == app.InFlight {
		_, err = a.Pulls.Nack(ctx, everything, []pulls.Nack{{Receipt: a.Pulls.Receipt(&j)}})
	}
	return err
}

// everything is what calls may consume whose topic was checked before.
func everything(string) error { return nil }

// release hides a message that has ended.
func (a *api) release(ctx context.Context, key job.Key) error {
	_, err := a.App.Update(ctx, key, func(j *job.Job, _ job.Instant) error {
		if !j.State.Final() || !j.Spec.Destination.Pulled() {
			return store.ErrNotFound
		}
		j.Spec.Dialect = &job.Dialect{Name: Name, Data: released}
		return nil
	})
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return err
}

const longPoll = "longPollingMsg"

// pull answers pullMsg.
func (a *api) pull(c *httpapi.Call) error {
	f, err := a.read(c)
	if err != nil {
		return err
	}
	messages, err := a.lease(c, f, 0)
	if err != nil {
		return err
	}
	return answer(c, success, "", messages)
}

// longPoll answers longPollingMsg.
func (a *api) longPoll(c *httpapi.Call) error {
	f, err := a.read(c)
	if err != nil {
		return err
	}
	messages, err := a.lease(c, f, millis(f.number("longPollingTimeoutMillis", 64, -1), defaultPollTimeout))
	if err != nil {
		return err
	}
	return answerText(c, map[string]any{"code": success, "delayMsgList": messages})
}

// answerWithin is how long a consumer may take to accept an answer.
const answerWithin = 30 * time.Second

// lease leases messages to the caller.
func (a *api) lease(c *httpapi.Call, f *form, wait time.Duration) ([]message, error) {
	timeout := millis(f.number("ackTimeoutMillis", 64, -1), defaultAckTimeout)
	batch := f.number("batch", 32, -1)
	if err := f.check(c); err != nil {
		return nil, err
	}
	if batch <= 0 {
		batch = defaultBatch
	}
	topic := job.NameOf(f.text("topic"))
	jobs, err := a.Pulls.Pull(c.Context(), pulls.Request{
		Topics: []string{topic}, Max: int(min(batch, job.MaxPull)), Wait: min(wait, job.MaxPullWait), Lease: min(timeout, job.MaxPullLease),
	})
	if err != nil {
		return nil, err
	}
	if len(jobs) > 0 {
		c.OnUnwritten(func() { a.Pulls.Return(c.Context(), jobs) })
	}
	if err := c.WriteWithin(answerWithin); err != nil && !errors.Is(err, http.ErrNotSupported) { // the server's own deadline began with the wait
		return nil, err
	}
	messages := make([]message, len(jobs))
	for i := range jobs {
		messages[i] = a.view(&jobs[i].Job)
	}
	a.Monitor.pulled(topic, jobs, a.now())
	return messages, nil
}

// maxTries bounds the tries to answer for a message that other consumers lease at the same time.
const maxTries = 5

// ack answers ackMsg. The id alone answers for a message, whoever has it.
func (a *api) ack(c *httpapi.Call) error {
	f, key, err := a.named(c)
	if err != nil {
		return err
	}
	done, given := f.boolean("ack")
	if !given {
		f.fails("ack")
	}
	if err := f.check(c, "msgId"); err != nil {
		return err
	}
	c.Target = key.String()
	last, known := a.Pulls.Last(key)
	if known {
		known, err = a.answerFor(c.Context(), last, done)
	}
	for try := 0; !known && err == nil; try++ {
		if try == maxTries {
			return store.ErrConflict
		}
		known, err = a.answerByID(c.Context(), key, done)
	}
	if err != nil {
		return err
	}
	a.Monitor.count(key.Topic, func(s *stats) { s.AckMsg++ })
	return answerOK(c, nil)
}

// answerFor answers for a lease. It reports false if that is not the message's lease any more.
func (a *api) answerFor(ctx context.Context, receipt string, done bool) (bool, error) {
	var results []pulls.Result
	var err error
	if done {
		results, err = a.Pulls.Ack(ctx, everything, []string{receipt})
	} else {
		results, err = a.Pulls.Nack(ctx, everything, []pulls.Nack{{Receipt: receipt, Delay: new(time.Duration)}})
	}
	return err == nil && results[0] == pulls.OK, err
}

// answerByID answers for a message as it stands. It reports false if that changed meanwhile.
func (a *api) answerByID(ctx context.Context, key job.Key, done bool) (bool, error) {
	j, err := a.find(ctx, key)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return true, nil
	case err != nil:
		return false, err
	case j.State == job.Running:
		return a.answerFor(ctx, a.Pulls.Receipt(&j), done)
	case j.State.Final(), !done: // nobody has it
		return true, nil
	}
	_, err = a.App.Finish(ctx, key, isStill(&j))
	if errors.Is(err, store.ErrNotFound) || errors.Is(err, job.ErrInFlight) || errors.Is(err, job.ErrFinished) {
		return false, nil
	}
	return err == nil, err
}
