package qstash

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/duehook/duehook/httpapi"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/kit/jsonio"
)

const (
	tokenParameter  = "qstash_token"
	settingsPrefix  = "Upstash-"
	forwardPrefix   = "Upstash-Forward-"
	callbackName    = "Upstash-Callback"
	failureName     = "Upstash-Failure-Callback"
	byContentHeader = "Upstash-Content-Based-Deduplication"
)

// The headers that are additions to the original, for moving messages and schedules here.
const (
	// idHeader is the id of a message or a schedule. What there is by that id stays as it is.
	idHeader = "Duehook-Id"
	// pausedHeader has a schedule begin paused.
	pausedHeader = "Duehook-Paused"
	// dryRunHeader answers as if, and changes nothing.
	dryRunHeader = "Duehook-Dry-Run"
)

// settings are what the dialect keeps of a message beside the job.
type settings struct {
	ID         string `json:"id,omitempty"` // that the client chose
	CallerIP   string `json:"ip,omitempty"`
	RetryDelay string `json:"retry_delay,omitempty"` // the expression
	Flow       *flow  `json:"flow,omitempty"`
}

// flow is a flow-control key with the limits that a message names; zero: it does not.
type flow struct {
	Key         string        `json:"key"`
	Parallelism int           `json:"parallelism,omitempty"`
	Rate        int           `json:"rate,omitempty"`
	Period      time.Duration `json:"period,omitempty"`
}

func (v settings) dialect() *job.Dialect {
	data, _ := json.Marshal(v) // texts and numbers
	return &job.Dialect{Name: Name, Data: string(data), Indexed: v.ID != ""}
}

// settingsOf are the settings of a message; those of another dialect's job are empty.
func settingsOf(s *job.Dialect) (v settings) {
	if s != nil && s.Name == Name {
		_ = json.Unmarshal([]byte(s.Data), &v) // what readMessage wrote
	}
	return v
}

// message is a message as a client asks for it.
type message struct {
	draft job.Draft
	url   string // of the destination; empty: a group
	queue string
	dedup string // empty: none
	settings
}

// readMessage reads the settings of a message, a header each.
func readMessage(h http.Header, destination string, body []byte, queue, callerIP string) (*message, error) {
	m := &message{queue: queue, settings: settings{CallerIP: callerIP}}
	for _, step := range []func(http.Header) error{
		refuseMissing, m.readDestination(destination), m.readTime, m.readRetries, m.readFlow, m.readCallbacks, m.readBody(body), m.readRest,
	} {
		if err := step(h); err != nil {
			return nil, err
		}
	}
	m.draft.Dialect = m.dialect()
	return m, nil
}

// refuseMissing refuses settings that would be ignored.
func refuseMissing(h http.Header) error {
	for name, values := range h {
		if !strings.HasPrefix(name, settingsPrefix) || strings.Join(values, "") == "" {
			continue
		}
		switch rest := strings.TrimPrefix(name, settingsPrefix); {
		case strings.HasPrefix(rest, "Workflow-"), rest == "Redact-Fields", rest == "Header-Forward" && !strings.EqualFold(values[0], "false"):
			return refused("%s is not supported here; see docs/migrate/qstash.md.", name)
		case rest == "Cron", rest == "Schedule-Id", rest == "Queue-Name": // createSchedule has taken its own
			return refused("%s belongs to schedules: POST /v2/schedules/{destination}", name)
		}
	}
	return nil
}

func isTrue(s string) bool { return strings.EqualFold(s, "true") }

var (
	schemeForm = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*:`)
	webForm    = regexp.MustCompile(`^(?i)(https?:)/+`)
	nameForm   = regexp.MustCompile(`^[A-Za-z0-9._-]+$`)
)

const badScheme = "invalid destination url: endpoint has invalid scheme, add http:// or https://"

// checkName checks the name of a queue, a group or a schedule.
func checkName(what, name string) error {
	if !nameForm.MatchString(name) {
		return refused("%s name %q is invalid: use letters, digits and . _ -", what, name)
	}
	return nil
}

// webURL is a URL of the schemes http and https. Proxies that merge slashes take one of it away.
func webURL(text string) (string, bool) {
	at := webForm.FindStringSubmatchIndex(text)
	if at == nil {
		return "", false
	}
	return text[:at[3]] + "//" + text[at[1]:], true
}

func (m *message) readDestination(destination string) func(http.Header) error {
	return func(http.Header) error {
		url, web := webURL(destination)
		switch {
		case web:
			m.url, m.draft.Destination = url, new(job.Destination(url))
		case strings.HasPrefix(destination, "api/"):
			return refused("%s is not available here: LLM and email are not; see docs/migrate/qstash.md", destination)
		case schemeForm.MatchString(destination), strings.Contains(destination, "/"):
			return refused(badScheme)
		default:
			m.draft.Group = &destination
			return checkName("url group", destination)
		}
		return nil
	}
}

func (m *message) readTime(h http.Header) error {
	if text := h.Get("Upstash-Not-Before"); text != "" {
		seconds, err := strconv.ParseInt(text, 10, 64)
		if err != nil || seconds < 0 || seconds > 1<<40 {
			return refused("Upstash-Not-Before %q must be a Unix time in seconds", text)
		}
		m.draft.At = new(job.InstantOf(time.Unix(seconds, 0)))
		return nil
	}
	return readDuration(h, "Upstash-Delay", &m.draft.Delay)
}

// readDuration reads a setting that may be absent.
func readDuration(h http.Header, name string, to **time.Duration) error {
	text := h.Get(name)
	if text == "" {
		return nil
	}
	d, ok := parseDuration(text)
	if !ok {
		return refused("%s %q must be a duration such as 30s, 5m or 1d10h", name, text)
	}
	*to = &d
	return nil
}

var (
	durationForm = regexp.MustCompile(`^(?:\d+(?:\.\d+)?(?:ms|[smhd]))+$`)
	durationPart = regexp.MustCompile(`(\d+(?:\.\d+)?)(ms|[smhd])`)
	units        = map[string]time.Duration{"ms": time.Millisecond, "s": time.Second, "m": time.Minute, "h": time.Hour, "d": 24 * time.Hour}
)

// parseDuration reads a duration; a bare number is seconds.
func parseDuration(text string) (total time.Duration, ok bool) {
	const longest = 1 << 53 // nanoseconds beyond all limits, and exact as a float64
	text = strings.TrimSpace(text)
	if text != "" && strings.Trim(text, "0123456789.") == "" {
		text += "s"
	}
	if len(text) > 64 || !durationForm.MatchString(text) {
		return 0, false
	}
	sum := 0.0
	for _, part := range durationPart.FindAllStringSubmatch(text, -1) {
		n, _ := strconv.ParseFloat(part[1], 64)
		sum += n * float64(units[part[2]])
	}
	return time.Duration(min(sum, longest*16)), true
}

func (m *message) readRetries(h http.Header) (err error) {
	m.draft.Retry, m.RetryDelay, err = retryOf(h, settingsPrefix, nil)
	return err
}

const defaultRetries = 3

// retryOf reads the retries of a message or, by another prefix, of a callback, whose defaults are
// those of the source.
func retryOf(h http.Header, prefix string, otherwise *job.Retry) (_ *job.Retry, expression string, err error) {
	text, expression := h.Get(prefix+"Retries"), h.Get(prefix+"Retry-Delay")
	if text == "" && expression == "" && otherwise != nil {
		return otherwise, "", nil
	}
	retries := defaultRetries
	if otherwise != nil {
		retries = *otherwise.Limit
	}
	if text != "" {
		if retries, err = strconv.Atoi(strings.TrimSpace(text)); err != nil || retries < 0 {
			return nil, "", refused("%sRetries %q must be a whole number, 0 or more", prefix, text)
		}
	}
	delayOf, err := delays(expression)
	if err != nil {
		return nil, "", refused("%sRetry-Delay: %v", prefix, err)
	}
	r := &job.Retry{Limit: &retries}
	for retried := range min(retries, job.MaxRetrySteps) {
		r.Steps = append(r.Steps, delayOf(retried))
	}
	return r, expression, nil
}

func (m *message) readFlow(h http.Header) error {
	key, value := strings.TrimSpace(h.Get("Upstash-Flow-Control-Key")), h.Get("Upstash-Flow-Control-Value")
	m.draft.Topic = new(Name)
	switch {
	case key == "" && value != "":
		return refused("Upstash-Flow-Control-Value needs Upstash-Flow-Control-Key")
	case key != "" && m.queue != "":
		return refused("a message cannot have both a queue and a flow-control key here; give the queue a parallelism, or leave the queue out")
	case m.queue != "":
		m.draft.Topic = new(queueTopic(m.queue))
		return checkName("queue", m.queue)
	case key == "":
		return nil
	}
	if err := checkFlowKey(key); err != nil {
		return err
	}
	f, err := parseFlow(key, value)
	m.Flow, m.draft.Topic = &f, new(flowTopic(key))
	if err == nil && job.CheckName(*m.draft.Topic) != nil {
		err = refused("the flow-control key is too long: letters, digits and . _ @ - take one byte, others three, and %d are possible", job.MaxName-len(flowPrefix))
	}
	return err
}

func parseFlow(key, value string) (f flow, err error) {
	f.Key = key
	for part := range strings.SplitSeq(value, ",") {
		name, text, _ := strings.Cut(part, "=")
		text = strings.TrimSpace(text)
		ok := true
		switch strings.ToLower(strings.TrimSpace(name)) {
		case "":
		case "parallelism":
			f.Parallelism, ok = atLeastOne(text)
		case "rate", "ratepersecond":
			f.Rate, ok = atLeastOne(text)
		case "period":
			f.Period, ok = parseDuration(text)
			ok = ok && f.Period >= time.Second && f.Period <= 7*24*time.Hour
		default:
			ok = false
		}
		if !ok {
			return f, refused("the flow control %q is invalid: write parallelism=2, rate=3, period=5s; the period is 1s to 7d", strings.TrimSpace(part))
		}
	}
	return f, nil
}

func atLeastOne(text string) (int, bool) {
	n, err := strconv.Atoi(text)
	return n, err == nil && n >= 1
}

func (m *message) readCallbacks(h http.Header) error {
	c := &job.CallbacksDraft{On: map[job.CallbackEvent]*job.CallbackDraft{}, Retry: m.draft.Retry, IncludeRequest: new(true)}
	given := 0
	for _, each := range []struct {
		name string
		on   []job.CallbackEvent
	}{
		{callbackName, []job.CallbackEvent{job.CallbackDelivered, job.CallbackAttemptFailed}},
		{failureName, []job.CallbackEvent{job.CallbackDead}},
	} {
		url := h.Get(each.name)
		if url == "" {
			continue
		}
		to, retry, err := m.callback(h, each.name, url)
		if err != nil {
			return err
		}
		if given++; given > 1 && !sameRetry(retry, c.Retry) {
			return refused("%s and %s must have the same Retries and Retry-Delay here", callbackName, failureName)
		}
		c.Retry = retry
		for _, e := range each.on {
			c.On[e] = to
		}
	}
	if given > 0 {
		m.draft.Callbacks = c
	} else {
		m.draft.Callbacks = &job.CallbacksDraft{} // also if the topic has others
	}
	return nil
}

func (m *message) callback(h http.Header, name, url string) (*job.CallbackDraft, *job.Retry, error) {
	url, ok := webURL(url)
	if !ok {
		return nil, nil, refused("%s: "+badScheme, name)
	}
	for _, missing := range []string{"-Delay", "-Timeout"} {
		if h.Get(name+missing) != "" {
			return nil, nil, refused("%s is not possible", name+missing)
		}
	}
	to := &job.CallbackDraft{Destination: new(job.Destination(url)), Headers: forwarded(h, name+"-Forward-")}
	if method := h.Get(name + "-Method"); method != "" {
		to.Method = new(strings.ToUpper(method))
	}
	retry, _, err := retryOf(h, name+"-", m.draft.Retry)
	return to, retry, err
}

func sameRetry(a, b *job.Retry) bool {
	return *a.Limit == *b.Limit && slices.Equal(a.Steps, b.Steps)
}

// forwarded are the headers that are sent on, by the prefix of their names.
func forwarded(h http.Header, prefix string) map[string]string {
	all := map[string]string{}
	for name, values := range h {
		if of, ok := strings.CutPrefix(name, prefix); ok && of != "" {
			all[of] = strings.TrimSpace(strings.Join(values, ", "))
		}
	}
	return all
}

// readBody keeps JSON and text in forms that people can read elsewhere.
func (m *message) readBody(body []byte) func(http.Header) error {
	return func(h http.Header) error {
		if len(body) == 0 {
			return nil
		}
		kind := h.Get("Content-Type")
		m.draft.ContentType, m.draft.Body = &kind, &job.Body{Form: job.BodyBase64, Content: body}
		switch {
		case strings.Contains(kind, "json") && jsonio.Check(body) == nil && len(jsonio.Trim(body)) == len(body):
			m.draft.Body.Form = job.BodyJSON
		case utf8.Valid(body):
			m.draft.Body.Form = job.BodyText
		}
		return nil
	}
}

// labelKey is the key of the first label; the next ones have a number behind it.
const labelKey = "label"

func (m *message) readRest(h http.Header) error {
	d := &m.draft
	d.Headers = forwarded(h, forwardPrefix)
	d.Method = new("POST")
	if method := h.Get("Upstash-Method"); method != "" {
		d.Method = new(strings.ToUpper(method))
	}
	if text := h.Get("Upstash-Label"); text != "" {
		d.Labels = map[string]string{}
		for label := range strings.SplitSeq(text, ",") {
			key := labelKey
			if n := len(d.Labels); n > 0 {
				key = fmt.Sprintf("%s%d", labelKey, n+1)
			}
			d.Labels[key] = strings.TrimSpace(label)
		}
	}
	if m.ID = h.Get(idHeader); m.ID != "" {
		d.ID, d.OnConflict = &m.ID, new("once")
	}
	m.dedup = h.Get("Upstash-Deduplication-Id")
	byContent, err := httpapi.Flag(byContentHeader, h.Get(byContentHeader))
	if err != nil {
		return err
	}
	if m.dedup == "" && byContent {
		content, err := json.Marshal([]any{m.url, d.Group, d.Body, d.ContentType, d.Headers})
		if err != nil {
			return err
		}
		m.dedup = "\x00" + string(content) // which no header can be
	}
	return readDuration(h, "Upstash-Timeout", &d.Timeout)
}

// labelsOf are the labels of a message.
func labelsOf(labels []job.Label) (all []string) {
	for _, l := range labels { // sorted by key
		if strings.HasPrefix(l.Key, labelKey) {
			all = append(all, l.Value)
		}
	}
	return all
}
