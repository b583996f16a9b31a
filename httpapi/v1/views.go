package v1

import (
	"time"

	"github.com/duehook/duehook/httpapi"
	"github.com/duehook/duehook/internal/services/access"
	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/retrypolicy"
)

// instant is a job.Instant in JSON; none is null.
type instant job.Instant

func (i instant) MarshalJSON() ([]byte, error) {
	return i.append(make([]byte, 0, len(job.TimeFormat)+2)), nil
}

// jobView is a job as the API shows it.
type jobView struct {
	UID         string            `json:"uid"`
	Topic       string            `json:"topic"`
	ID          string            `json:"id"`
	BizKey      *string           `json:"biz_key"`
	OrderKey    string            `json:"order_key,omitempty"`
	Labels      map[string]string `json:"labels"`
	URL         string            `json:"url"`
	Method      string            `json:"method"`
	State       string            `json:"state"`
	Priority    int               `json:"priority"`
	DueAt       instant           `json:"due_at"`
	Spread      string            `json:"spread,omitempty"`
	Rounds      int               `json:"rounds,omitempty"`
	CreatedAt   instant           `json:"created_at"`
	NextAt      instant           `json:"next_at"`
	Attempts    int               `json:"attempts"`
	MaxAttempts int               `json:"max_attempts"`
	LastAttempt *attemptView      `json:"last_attempt"`
	EndedAt     instant           `json:"ended_at"`
	Reason      *string           `json:"reason"`
	Version     uint64            `json:"version"`
	Group       string            `json:"group,omitempty"`
	GroupID     string            `json:"group_id,omitempty"`
	Schedule    *occurrenceOfView `json:"schedule"`
	// Callbacks are those registered so far; left out for a job without any.
	Callbacks []callbackLink `json:"callbacks,omitempty"`
	// CallbackOf is left out of jobs that are no callbacks.
	CallbackOf *callbackOfView `json:"callback_of,omitempty"`
	Count      *countView      `json:"count,omitempty"`
}

// occurrenceOfView is what made a job of a schedule.
type occurrenceOfView struct {
	Name string  `json:"name"`
	Time instant `json:"time"`
	Kind string  `json:"kind"`
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

// attemptView is an attempt as the API shows it. Status is null when no
// answer came, a phase's time when it was not reached or not needed.
type attemptView struct {
	Number           int     `json:"number"`
	StartedAt        instant `json:"started_at"`
	DurationMS       int64   `json:"duration_ms"`
	DNSMS            *int64  `json:"dns_ms"`
	ConnectMS        *int64  `json:"connect_ms"`
	TLSMS            *int64  `json:"tls_ms"`
	FirstByteMS      *int64  `json:"first_byte_ms"`
	ConnectionReused bool    `json:"connection_reused"`
	Status           *int    `json:"status"`
	Error            *string `json:"error"`
	ResponseBody     *string `json:"response_body"`
	// ResponseHeaders is empty where no answer came.
	ResponseHeaders map[string]string `json:"response_headers"`
	NextAt          instant           `json:"next_at"`
	Reason          *string           `json:"reason"`
	Version         *uint64           `json:"version"`
	// ConnectRetries is left out when the first connection was used.
	ConnectRetries int `json:"connect_retries,omitempty"`
}

func (s *API) viewJob(j *job.Job) jobView { return viewJob(j, s.Scheduler.Policy()) }

func viewJob(j *job.Job, policy retrypolicy.Policy) jobView {
	v := jobView{
		UID:         j.UID,
		Topic:       j.Topic,
		ID:          j.ID,
		BizKey:      orNull(&j.Spec.BizKey),
		OrderKey:    j.Spec.OrderKey,
		Labels:      viewLabels(j.Spec.Labels),
		URL:         string(j.Spec.Destination),
		Method:      j.Spec.HTTPMethod(),
		State:       j.State.String(),
		Priority:    j.Spec.Priority.Number(),
		DueAt:       instant(j.DueAt),
		CreatedAt:   instant(j.CreatedAt),
		NextAt:      instant(j.NextAt),
		Attempts:    j.Attempts,
		MaxAttempts: policy.For(j.Spec.Retry).MaxAttempts(),
		EndedAt:     instant(j.EndedAt),
		Reason:      orNull(&j.Reason),
		Version:     j.Version,
	}
	if spread := j.Spec.When.Spread; spread != 0 {
		v.Spread = job.FormatDuration(spread)
	}
	v.Rounds = j.Spec.Rounds()
	v.Count = viewCount(j)
	if g := j.Spec.Group; g != nil {
		v.Group, v.GroupID = g.Group, j.GroupID()
	}
	if o := j.Spec.Occurrence; o != nil {
		v.Schedule = &occurrenceOfView{o.Schedule, instant(o.Time), string(o.Kind)}
	}
	v.Callbacks, v.CallbackOf = linkCallbacks(j), viewCallbackOf(j)
	if j.LastAttempt != nil {
		last := viewAttempt(j.LastAttempt)
		v.LastAttempt = &last
	}
	return v
}

func viewAttempt(a *job.Attempt) attemptView {
	return attemptView{
		Number:           a.Number,
		StartedAt:        instant(a.StartedAt),
		DurationMS:       a.Duration.Milliseconds(),
		DNSMS:            phaseMS(a.Timings.DNS),
		ConnectMS:        phaseMS(a.Timings.Connect),
		TLSMS:            phaseMS(a.Timings.TLS),
		FirstByteMS:      phaseMS(a.Timings.FirstByte),
		ConnectionReused: a.Timings.Reused,
		Status:           orNull(&a.Status),
		Error:            orNull(&a.Error),
		ResponseBody:     orNull(&a.ResponseBody),
		ResponseHeaders:  viewHeaders(a.ResponseHeaders),
		NextAt:           instant(a.NextAt),
		Reason:           orNull(&a.Reason),
		Version:          orNull(&a.Version),
		ConnectRetries:   a.ConnectRetries,
	}
}

// phaseMS is a phase's time in whole milliseconds: zero for a short one, null
// for one that did not happen.
func phaseMS(d time.Duration) *int64 {
	if d == 0 {
		return nil
	}
	ms := d.Milliseconds()
	return &ms
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
	Result string `json:"result"`
}

// itemView is the answer to one job of a batch: the job, or what is wrong.
type itemView struct {
	Status      int              `json:"status"`
	Result      string           `json:"result,omitempty"`
	Job         *jobView         `json:"job,omitempty"`
	Error       *httpapi.Problem `json:"error,omitempty"`
	*fanOutView                  // instead of Result and Job

	jobs int // registrations of the item
}

type resultsView struct {
	Results []itemView `json:"results"`
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

func pageOf[T, V any](all []T, view func(*T) V, next string) pageView[V] {
	return pageView[V]{each(all, view), orNull(&next)}
}

// resultView says what became of a call that leaves nothing to show.
type resultView struct {
	Result string `json:"result"`
}

func resultOf(result string) resultView { return resultView{result} }
