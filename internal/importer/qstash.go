package importer

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/go-retryablehttp"
	"golang.org/x/sync/errgroup"

	"github.com/duehook/duehook/client"
	"github.com/duehook/duehook/internal/job"
)

const (
	// qstashPage is how many events are read at once; fewer if they have more than qstashBytes.
	qstashPage  = 100
	qstashBytes = 32 << 20
	// qstashFound is how many messages are found before they are read.
	qstashFound = 100_000
)

// qstash reads schedules and messages over the API of QStash. Messages are found by the logs: QStash
// has no list of them. The dialect of QStash translates and registers them.
type qstash struct {
	Options
	http *retryablehttp.Client
	read int
}

func openQStash(ctx context.Context, o Options) (*Source, error) {
	if o.URL != "" || o.Pull {
		return nil, failf(ErrUsage, "messages of QStash have a URL: leave out --to and --pull")
	}
	to, err := url.Parse(o.Address)
	if err != nil || to.Host == "" || to.Scheme != "http" && to.Scheme != "https" {
		return nil, failf(ErrUsage, "--source must be the address of QStash, such as https://qstash.upstash.io")
	}
	if o.Token = cmp.Or(o.Set["token"], o.Token); o.Token == "" {
		return nil, failf(ErrUsage, "give the token of QStash, QSTASH_TOKEN, as DUEHOOK_SOURCE_TOKEN")
	}
	o.Address = strings.TrimRight(o.Address, "/")
	q := &qstash{Options: o, http: newHTTP()}
	return &Source{Jobs: q.jobs(ctx), Close: func() error { q.http.HTTPClient.CloseIdleConnections(); return nil }}, nil
}

// qnumber is a number, which some answers have as text.
type qnumber float64

func (n *qnumber) UnmarshalJSON(data []byte) error {
	f, err := strconv.ParseFloat(strings.Trim(string(data), `"`), 64)
	*n = qnumber(f)
	return err
}

func (n qnumber) time() time.Time { return time.UnixMilli(int64(n)) }

func (n qnumber) String() string { return strconv.FormatFloat(float64(n), 'f', -1, 64) }

// qstashSettings are what messages and schedules have in common.
type qstashSettings struct {
	Method                string
	Header                map[string][]string
	Body                  string
	BodyBase64            []byte
	QueueName             string
	Callback              string
	FailureCallback       string
	CallbackHeader        map[string][]string
	FailureCallbackHeader map[string][]string
	RetryDelayExpression  string
	Label                 string
	Labels                []string
	FlowControlKey        string
	Parallelism           qnumber
	Rate                  qnumber
	Period                qnumber // seconds
}

type qstashMessage struct {
	URL        string
	MaxRetries *qnumber
	NotBefore  qnumber
	qstashSettings
}

type qstashSchedule struct {
	ScheduleID       string
	Cron             string
	Destination      string
	Retries          *qnumber
	Delay            qnumber // seconds
	Timeout          qnumber // seconds
	IsPaused         bool
	NextScheduleTime qnumber
	qstashSettings
}

// qstashEvent is an event of the logs.
type qstashEvent struct {
	Time      qnumber
	State     string
	MessageID string
	Timeout   qnumber // milliseconds
}

// qstashMessageFound is what the events of a message say.
type qstashMessageFound struct {
	id      string
	first   qnumber
	timeout qnumber
	ended   bool
}

func (q *qstash) jobs(ctx context.Context) iter.Seq2[Job, error] {
	return func(yield func(Job, error) bool) {
		var all []qstashSchedule
		if err := q.get(ctx, "/v2/schedules", &all); err != nil {
			yield(Job{}, q.explain(err))
			return
		}
		for i := range all {
			if q.read++; !yield(q.schedule(&all[i]), nil) {
				return
			}
		}
		found, oldest, cursor := map[string]*qstashMessageFound{}, qnumber(math.Inf(1)), ""
		for {
			events, next, err := q.page(ctx, cursor)
			if err != nil {
				yield(Job{}, q.explain(err))
				return
			}
			for _, e := range events {
				f := found[e.MessageID]
				if f == nil {
					f = &qstashMessageFound{id: e.MessageID, first: e.Time}
					found[e.MessageID] = f
				}
				oldest, f.first, f.timeout = min(oldest, e.Time), min(f.first, e.Time), max(f.timeout, e.Timeout)
				f.ended = f.ended || slices.Contains([]string{"DELIVERED", "FAILED", "CANCEL_REQUESTED", "CANCELED", "CANCELLED"}, strings.ToUpper(e.State))
			}
			if next == cursor {
				next = "" // a cursor that leads nowhere
			}
			if cursor = next; cursor == "" || len(found) >= qstashFound {
				if !q.messages(ctx, found, yield) {
					return
				}
				clear(found) // a message whose events go on is read again, and registered once
			}
			if cursor == "" {
				break
			}
		}
		switch {
		case q.read == 0:
			yield(Job{}, failf(ErrNothing, "%s has no schedules and, by its logs, no messages that wait", q.Address))
		case !math.IsInf(float64(oldest), 1):
			yield(Job{Note: fmt.Sprintf("The logs of %s begin at %s: messages without an event since then were not found.", q.Address, oldest.time().UTC().Format(time.RFC3339))}, nil)
		}
	}
}

// page is a page of the logs, and the cursor behind it.
func (q *qstash) page(ctx context.Context, cursor string) ([]qstashEvent, string, error) {
	for count := qstashPage; ; count /= 2 {
		query := url.Values{"count": {strconv.Itoa(count)}}
		if cursor != "" {
			query.Set("cursor", cursor)
		}
		var answer struct {
			Cursor       string
			Events, Logs []qstashEvent
		}
		err := q.get(ctx, "/v2/logs?"+query.Encode(), &answer)
		if errors.Is(err, errTooLarge) && count > 1 {
			continue
		}
		if len(answer.Events) == 0 {
			answer.Events = answer.Logs // documents have both names
		}
		return answer.Events, answer.Cursor, err
	}
}

// messages reads and passes the messages that have not ended, the oldest first.
func (q *qstash) messages(ctx context.Context, found map[string]*qstashMessageFound, yield func(Job, error) bool) bool {
	waiting := slices.SortedFunc(maps.Values(found), func(a, b *qstashMessageFound) int {
		return cmp.Or(cmp.Compare(a.first, b.first), strings.Compare(a.id, b.id))
	})
	waiting = slices.DeleteFunc(waiting, func(f *qstashMessageFound) bool { return f.ended })
	for some := range slices.Chunk(waiting, atOnce) {
		jobs := make([]*Job, len(some))
		group, ctx := errgroup.WithContext(ctx)
		for i, f := range some {
			group.Go(func() (err error) {
				jobs[i], err = q.message(ctx, f)
				return err
			})
		}
		if err := group.Wait(); err != nil {
			yield(Job{}, q.explain(err))
			return false
		}
		for _, j := range jobs {
			if j == nil {
				continue
			}
			if q.read++; !yield(*j, nil) {
				return false
			}
		}
	}
	return true
}

// message reads a message; nil: it has ended.
func (q *qstash) message(ctx context.Context, f *qstashMessageFound) (*Job, error) {
	var m qstashMessage
	err := q.get(ctx, "/v2/messages/"+url.PathEscape(f.id), &m)
	if refusedAs(err) == http.StatusNotFound {
		return nil, nil
	}
	switch {
	case errors.As(err, new(*qstashError)), errors.As(err, new(*Error)):
		return nil, err
	case err != nil:
		return &Job{Registration: client.Registration{Topic: "qstash", ID: f.id}, Err: fmt.Errorf("it cannot be read: %w", err)}, nil
	}
	path, topic, h := "/v2/publish/", "qstash", m.headers()
	if m.QueueName != "" {
		path, topic = "/v2/enqueue/"+m.QueueName+"/", "qstash:queue:"+m.QueueName
	} else if m.FlowControlKey != "" {
		topic = "qstash:flow:" + job.EscapeName(m.FlowControlKey)
	}
	h.set("Duehook-Id", f.id)
	h.set("Upstash-Not-Before", qnumber(math.Ceil(float64(m.NotBefore)/1000)).String())
	if m.MaxRetries != nil {
		h.set("Upstash-Retries", m.MaxRetries.String())
	}
	if f.timeout > 0 {
		h.set("Upstash-Timeout", f.timeout.String()+"ms")
	}
	j := q.job(topic, f.id, m.NotBefore, path+m.URL, h, &m.qstashSettings)
	j.Call.Queue = m.QueueName
	return &j, nil
}

func (q *qstash) schedule(s *qstashSchedule) Job {
	h := s.headers()
	h.set("Duehook-Id", s.ScheduleID)
	h.set("Upstash-Cron", s.Cron)
	h.set("Upstash-Queue-Name", s.QueueName)
	if s.IsPaused {
		h.set("Duehook-Paused", "true")
	}
	if s.Retries != nil {
		h.set("Upstash-Retries", s.Retries.String())
	}
	for name, seconds := range map[string]qnumber{"Upstash-Delay": s.Delay, "Upstash-Timeout": s.Timeout} {
		if seconds > 0 {
			h.set(name, seconds.String()+"s")
		}
	}
	return q.job("schedules", s.ScheduleID, s.NextScheduleTime, "/v2/schedules/"+s.Destination, h, &s.qstashSettings)
}

func (q *qstash) job(topic, id string, at qnumber, path string, h qstashHeaders, s *qstashSettings) Job {
	if q.DryRun {
		h.set("Duehook-Dry-Run", "true")
	}
	j := Job{Registration: client.Registration{Topic: topic, ID: id}, Call: &Call{Dialect: "qstash", Path: path, Header: http.Header(h), Body: s.BodyBase64}}
	if at > 0 {
		j.Registration.At = at.time()
	}
	if s.Body != "" {
		j.Call.Body = []byte(s.Body)
	}
	return j
}

type qstashHeaders http.Header

// set sets a header unless the value is empty.
func (h qstashHeaders) set(name, value string) {
	if value != "" {
		http.Header(h).Set(name, value)
	}
}

// forward sets the headers that are sent on. The names of settings begin with Upstash.
func (h qstashHeaders) forward(prefix string, all map[string][]string) {
	for name, values := range all {
		setting, is := strings.CutPrefix(http.CanonicalHeaderKey(name), "Upstash-")
		switch {
		case is:
			name = prefix + setting
		case prefix != "Upstash-" || !strings.EqualFold(name, "Content-Type"):
			name = prefix + "Forward-" + name
		}
		h.set(name, strings.Join(values, ", "))
	}
}

// headers are the settings that messages and schedules have in common.
func (s *qstashSettings) headers() qstashHeaders {
	h := qstashHeaders{}
	h.forward("Upstash-", s.Header)
	h.forward("Upstash-Callback-", s.CallbackHeader)
	h.forward("Upstash-Failure-Callback-", s.FailureCallbackHeader)
	h.set("Upstash-Method", s.Method)
	h.set("Upstash-Callback", s.Callback)
	h.set("Upstash-Failure-Callback", s.FailureCallback)
	h.set("Upstash-Retry-Delay", s.RetryDelayExpression)
	h.set("Upstash-Label", cmp.Or(strings.Join(s.Labels, ","), s.Label))
	h.set("Upstash-Flow-Control-Key", s.FlowControlKey)
	var limits []string
	for _, limit := range []struct {
		form  string
		value qnumber
	}{{"parallelism=%s", s.Parallelism}, {"rate=%s", s.Rate}, {"period=%ss", s.Period}} {
		if limit.value > 0 && s.FlowControlKey != "" {
			limits = append(limits, fmt.Sprintf(limit.form, limit.value))
		}
	}
	h.set("Upstash-Flow-Control-Value", strings.Join(limits, ", "))
	return h
}

// qstashError is an answer that is no success.
type qstashError struct {
	status int
	text   string
}

func (r *qstashError) Error() string { return r.text }

var errTooLarge = errors.New("the answer is too large")

// get reads from the API.
func (q *qstash) get(ctx context.Context, path string, into any) error {
	r, err := retryablehttp.NewRequestWithContext(ctx, http.MethodGet, q.Address+path, nil)
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+q.Token)
	resp, err := q.http.Do(r)
	if err != nil {
		return failf(ErrUnreachable, "QStash cannot be reached: %v; name another address with --source", err)
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(io.LimitReader(resp.Body, qstashBytes+1))
	if err != nil {
		return failf(ErrUnreachable, "QStash cannot be reached: %v", err)
	}
	if resp.StatusCode != http.StatusOK {
		var answer struct{ Error string }
		_ = json.Unmarshal(data, &answer) // a proxy's answer is not JSON
		return &qstashError{resp.StatusCode, strings.TrimSpace(resp.Status + " " + answer.Error)}
	}
	if len(data) > qstashBytes {
		return errTooLarge
	}
	return json.Unmarshal(data, into)
}

// explain says what to do about an error of the API.
func (q *qstash) explain(err error) error {
	switch status := refusedAs(err); {
	case errors.As(err, new(*Error)), errors.Is(err, context.Canceled):
		return err
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return fmt.Errorf("QStash, %s, refuses the token: %w; give that of QSTASH_TOKEN as DUEHOOK_SOURCE_TOKEN", q.Address, err)
	case status == http.StatusTooManyRequests:
		return fmt.Errorf("QStash, %s, limits the calls: %w; try again in some minutes", q.Address, err)
	case status == 0, status == http.StatusNotFound:
		return fmt.Errorf("%s does not answer as QStash does: %w; name its address with --source", q.Address, err)
	}
	return fmt.Errorf("read from QStash, %s: %w", q.Address, err)
}

// refusedAs is the status of an answer that is no success, or 0.
func refusedAs(err error) int {
	if r := (*qstashError)(nil); errors.As(err, &r) {
		return r.status
	}
	return 0
}
