package qstash

import (
	"context"
	"errors"
	"net/http"

	"github.com/duehook/duehook/httpapi"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

// maxDead is the most dead letters of one call.
const maxDead = 100

func (a *api) dead(ctx context.Context, id string) (job.Job, error) {
	j, err := a.byID(ctx, dlqPrefix, id)
	if errors.Is(err, store.ErrNotFound) || err == nil && j.State != job.Dead {
		return j, notFound("dlq message", id)
	}
	return j, err
}

// eachDead passes the dead letters that a call selects by ids or a filter, until take has taken as
// many as the call asks for.
func (a *api) eachDead(c *httpapi.Call, take func(j *job.Job) error) (next string, err error) {
	wanted, given, err := ids(c, "dlqIds")
	if err != nil {
		return "", err
	}
	for _, id := range wanted {
		j, err := a.dead(c.Context(), id)
		if err == nil {
			err = take(&j)
		}
		if err != nil && !isNotFound(err) {
			return "", err
		}
	}
	if given {
		return "", nil
	}
	q := c.Query()
	if q.Has("host") || q.Has("path") {
		return "", refused("dead letters cannot be selected by host or path; use url")
	}
	if q.Get("order") == "latestFirst" {
		return "", refused("order latestFirst is not available here")
	}
	f, err := filterOf(q)
	if err != nil {
		return "", err
	}
	most, err := count(q, maxDead, maxDead)
	if err != nil {
		return "", err
	}
	return a.each(c.Context(), f.query(job.Dead), amount{most, store.PageBytes}, q.Get("cursor"), func(j *job.Job) (bool, error) {
		if !f.matches(j) {
			return false, nil
		}
		err := take(j)
		if isNotFound(err) { // it is no dead letter any more
			return false, nil
		}
		return err == nil, err
	})
}

func isNotFound(err error) bool {
	return err != nil && httpapi.AsError(err).Code.Status == http.StatusNotFound
}

func (a *api) deadLetters(c *httpapi.Call) error {
	answer := struct {
		Messages []deadView `json:"messages"`
		Cursor   string     `json:"cursor,omitempty"`
	}{Messages: []deadView{}}
	var err error
	room := maxNamed
	answer.Cursor, err = a.eachDead(c, func(j *job.Job) error {
		if room -= store.SizeOf(j); room < 0 {
			return tooMuchNamed("dlqIds")
		}
		answer.Messages = append(answer.Messages, deadViewOf(j))
		return nil
	})
	if err != nil {
		return err
	}
	return c.WriteJSON(http.StatusOK, answer)
}

func (a *api) deadLetter(c *httpapi.Call) error {
	j, err := a.dead(c.Context(), c.Param("id"))
	if err != nil {
		return err
	}
	return c.WriteJSON(http.StatusOK, deadViewOf(&j))
}

// stillDead refuses a change of a dead letter that is none any more.
func stillDead(of *job.Job) func(*job.Job) error {
	return func(is *job.Job) error {
		if is.State != job.Dead || is.UID != of.UID {
			return notFound("dlq message", dlqID(of))
		}
		return nil
	}
}

func (a *api) discard(ctx context.Context, j *job.Job) error {
	_, _, err := a.App.Cancel(ctx, j.Key, stillDead(j))
	return err
}

func (a *api) deleteDeadLetter(c *httpapi.Call) error {
	j, err := a.dead(c.Context(), c.Param("id"))
	if err == nil {
		err = a.discard(c.Context(), &j)
	}
	if err != nil {
		return err
	}
	return done(c)
}

func (a *api) deleteDeadLetters(c *httpapi.Call) error {
	answer := struct {
		Deleted int    `json:"deleted"`
		Cursor  string `json:"cursor,omitempty"`
	}{}
	var err error
	answer.Cursor, err = a.eachDead(c, func(j *job.Job) error {
		err := a.discard(c.Context(), j)
		if err == nil {
			answer.Deleted++
		}
		return err
	})
	if err != nil {
		return err
	}
	return c.WriteJSON(http.StatusOK, answer)
}

// retried is the message that takes the place of a dead letter: the same job, sent again from the
// beginning.
type retried struct {
	MessageID string `json:"messageId"`
}

func (a *api) retry(c *httpapi.Call, j *job.Job) (retried, error) {
	draft, err := a.overrides(c, j)
	if err != nil {
		return retried{}, err
	}
	again, err := a.App.Replay(c.Context(), j.Key, draft, stillDead(j))
	return retried{messageID(&again)}, err
}

// overrides are the settings of a retry that differ from those of the message.
func (a *api) overrides(c *httpapi.Call, j *job.Job) (*job.Draft, error) {
	h := c.Request.Header
	m, err := readMessage(h, string(j.Spec.Destination), nil, queueOf(j.Topic), "")
	if err != nil {
		return nil, err
	}
	if m.Flow != nil || m.dedup != "" {
		return nil, refused("a retry keeps its flow-control key, and cannot have a deduplication id")
	}
	d := &job.Draft{Delay: m.draft.Delay, At: m.draft.At, Timeout: m.draft.Timeout, Labels: m.draft.Labels}
	if h.Get("Upstash-Retries") != "" || h.Get("Upstash-Retry-Delay") != "" {
		set := settingsOf(j.Spec.Dialect)
		d.Retry, set.RetryDelay = m.draft.Retry, m.RetryDelay
		d.Dialect = set.dialect()
	}
	if h.Get("Upstash-Method") != "" {
		d.Method = m.draft.Method
	}
	if len(m.draft.Headers) > 0 {
		d.Headers = m.draft.Headers
	}
	if len(m.draft.Callbacks.On) > 0 {
		d.Callbacks = m.draft.Callbacks
	}
	return d, nil
}

func (a *api) retryDeadLetter(c *httpapi.Call) error {
	j, err := a.dead(c.Context(), c.Param("id"))
	if err != nil {
		return err
	}
	r, err := a.retry(c, &j)
	if err != nil {
		return err
	}
	return c.WriteJSON(http.StatusCreated, r)
}

func (a *api) retryDeadLetters(c *httpapi.Call) error {
	answer := struct {
		Responses []retried `json:"responses"`
		Cursor    string    `json:"cursor"`
	}{Responses: []retried{}}
	var err error
	answer.Cursor, err = a.eachDead(c, func(j *job.Job) error {
		r, err := a.retry(c, j)
		if err == nil {
			answer.Responses = append(answer.Responses, r)
		}
		return err
	})
	if err != nil {
		return err
	}
	return c.WriteJSON(http.StatusCreated, answer)
}
