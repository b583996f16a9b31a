package v1

import (
	"time"

	"github.com/duehook/duehook/httpapi"
	"github.com/duehook/duehook/internal/services/access"
	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/retrypolicy"
)

// jobView is a job as the API shows it.
type jobView struct {
	*job.Job
	policy retrypolicy.Policy // the server's
}

func (s *API) viewJob(j *job.Job) jobView { return jobView{j, s.Scheduler.Policy()} }

// MarshalJSON is for views that contain jobs.
func (v jobView) MarshalJSON() ([]byte, error) { return appendView(nil, v), nil }

func (v jobView) members(w *writer) {
	s := &v.Spec
	w.text("uid", v.UID)
	w.text("topic", v.Topic)
	w.text("id", v.ID)
	w.optional("biz_key", s.BizKey)
	w.given("order_key", orNull(&s.OrderKey))
	w.labels("labels", s.Labels)
	w.text("url", string(s.Destination))
	w.text("method", s.HTTPMethod())
	w.text("state", v.State.String())
	w.number("priority", int64(s.Priority.Number()))
	w.instant("due_at", v.DueAt)
	w.given("spread", formatted(orNull(&s.When.Spread)))
	if rounds := s.Rounds(); rounds > 0 {
		w.number("rounds", int64(rounds))
	}
	w.instant("created_at", v.CreatedAt)
	w.instant("next_at", v.NextAt)
	w.number("attempts", int64(v.Attempts))
	w.number("max_attempts", int64(v.policy.For(s.Retry).MaxAttempts()))
	w.name("last_attempt")
	if v.LastAttempt == nil {
		w.null()
	} else {
		w.object(attemptView{v.LastAttempt})
	}
	w.instant("ended_at", v.EndedAt)
	w.optional("reason", v.Reason)
	w.number("version", int64(v.Version))
	if g := s.Group; g != nil {
		w.text("group", g.Group)
		w.text("group_id", v.GroupID())
	}
	w.name("schedule")
	if o := s.Occurrence; o == nil {
		w.null()
	} else {
		w.bracket('{')
		w.text("name", o.Schedule)
		w.instant("time", o.Time)
		w.text("kind", string(o.Kind))
		w.bracket('}')
	}
	v.callbacks(w)
	if s.Count != nil {
		w.member("count", viewCount(v.Job))
	}
}

// viewLabels gives an object; that of no labels is empty.
func viewLabels(list []job.Label) map[string]string {
	view := make(map[string]string, len(list))
	for _, l := range list {
		view[l.Key] = l.Value
	}
	return view
}

func viewHeaders(list []job.Header) map[string]string {
	view := make(map[string]string, len(list))
	for _, h := range list {
		view[h.Name] = h.Value
	}
	return view
}

// viewSteps gives the delays of a ladder; of none, nil.
func viewSteps(steps []time.Duration) []string {
	var view []string
	for _, step := range steps {
		view = append(view, job.FormatDuration(step))
	}
	return view
}

// attemptView is an attempt as the API shows it. Its status is null without an answer, the
// time of a phase if the phase was not reached or not needed.
type attemptView struct{ *job.Attempt }

func viewAttempt(a *job.Attempt) attemptView { return attemptView{a} }

// MarshalJSON is for views that contain attempts.
func (v attemptView) MarshalJSON() ([]byte, error) { return appendView(nil, v), nil }

func (v attemptView) members(w *writer) {
	t := &v.Timings
	w.number("number", int64(v.Number))
	w.instant("started_at", v.StartedAt)
	w.number("duration_ms", v.Duration.Milliseconds())
	w.phase("dns_ms", t.DNS)
	w.phase("connect_ms", t.Connect)
	w.phase("tls_ms", t.TLS)
	w.phase("first_byte_ms", t.FirstByte)
	w.boolean("connection_reused", t.Reused)
	w.known("status", uint64(v.Status))
	w.optional("error", v.Error)
	w.optional("response_body", v.ResponseBody)
	w.headers("response_headers", v.ResponseHeaders)
	w.instant("next_at", v.NextAt)
	w.optional("reason", v.Reason)
	w.known("version", v.Version)
	if v.ConnectRetries > 0 {
		w.number("connect_retries", int64(v.ConnectRetries))
	}
}

// orNull makes the zero value null in JSON.
func orNull[T comparable](v *T) *T {
	if *v == *new(T) {
		return nil
	}
	return v
}

type attemptsView struct {
	Attempts []attemptView `json:"attempts"`
}

// registeredView is the answer to a registration: the job that has the topic and
// id now, and what became of the registration.
type registeredView struct {
	jobView
	result string
}

func (v registeredView) members(w *writer) {
	v.jobView.members(w)
	w.text("result", v.result)
}

// itemView is the answer to one job of a batch: the job, or what is wrong.
type itemView struct {
	status int
	result string
	job    *jobView
	err    *httpapi.Problem
	fanOut *fanOutView // instead of result and job

	jobs int // registrations of the item
}

func (v itemView) members(w *writer) {
	w.number("status", int64(v.status))
	w.given("result", orNull(&v.result))
	if v.job != nil {
		w.name("job")
		w.object(v.job)
	}
	if v.err != nil {
		w.member("error", v.err)
	}
	if v.fanOut != nil {
		v.fanOut.members(w)
	}
}

type resultsView []itemView

func (v resultsView) members(w *writer) {
	list(w, "results", v)
}

// cancelView is the answer to a cancel.
type cancelView struct {
	Result  string `json:"result"`
	Attempt int    `json:"attempt,omitempty"`
}

// viewStates names all states, also those of no job.
func viewStates(counts map[job.State]int64) map[string]int64 {
	view := make(map[string]int64, len(job.States))
	for _, s := range job.States {
		view[s.String()] = counts[s]
	}
	return view
}

// callerView is who is calling; both parts of the key are null where no key is
// asked for.
type callerView struct {
	KeyID   *string `json:"key_id"`
	KeyName *string `json:"key_name"`
	Scope   string  `json:"scope"`
}

// keyView is an API key as the API shows it. A stored key that cannot be read
// has an id only.
type keyView struct {
	ID        string  `json:"id"`
	Name      *string `json:"name"`
	Scope     *string `json:"scope"`
	Namespace *string `json:"namespace"`
	CreatedAt instant `json:"created_at"`
	ExpiresAt instant `json:"expires_at"`
	Rate      *string `json:"rate"`
	Source    string  `json:"source"`
}

// newKeyView is the only answer that shows a token.
type newKeyView struct {
	Token string `json:"token"`
	keyView
}

func viewKey(k *access.Key) keyView {
	v := keyView{
		ID:        k.ID,
		Name:      orNull(&k.Name),
		Namespace: orNull(&k.Namespace),
		CreatedAt: instant(k.CreatedAt),
		ExpiresAt: instant(k.ExpiresAt),
		Source:    "settings",
	}
	if k.Stored {
		v.Source = "store"
	}
	if k.Scope != access.Nobody {
		scope := k.Scope.String()
		v.Scope = &scope
	}
	if k.Rate != (access.Rate{}) {
		rate := k.Rate.String()
		v.Rate = &rate
	}
	return v
}

// each shows all of a list.
func each[T, V any](all []T, view func(*T) V) []V {
	views := make([]V, len(all))
	for i := range all {
		views[i] = view(&all[i])
	}
	return views
}

// listView is a list in one piece.
type listView[V any] struct {
	Data []V `json:"data"`
}

func listOf[T, V any](all []T, view func(*T) V) listView[V] { return listView[V]{each(all, view)} }

// pageView is a page of a list.
type pageView[V any] struct {
	Data       []V     `json:"data"`
	NextCursor *string `json:"next_cursor"`
}

// jobPage is a page of jobs.
type jobPage pageView[jobView]

func (v jobPage) members(w *writer) {
	list(w, "data", v.Data)
	w.member("next_cursor", v.NextCursor)
}

func pageOf[T, V any](all []T, view func(*T) V, next string) pageView[V] {
	return pageView[V]{each(all, view), orNull(&next)}
}

// resultView says what became of a call that leaves nothing to show.
type resultView struct {
	Result string `json:"result"`
}

func resultOf(result string) resultView { return resultView{result} }
