package dev

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"go.yaml.in/yaml/v3"
	"golang.org/x/net/http/httpguts"

	"github.com/duehook/duehook/httpapi"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/services/access"
)

const (
	clockPath = "/v1/dev/clock"
	sinksPath = "/v1/dev/sinks"
	sinkPath  = sinksPath + "/{sink}"
)

// The codes of errors that only these calls have.
var (
	codeUnfinished   = httpapi.Code{Name: "clock_unfinished", Status: http.StatusConflict, Title: "The clock has not come to that time"}
	codeSinkNotFound = httpapi.Code{Name: "sink_not_found", Status: http.StatusNotFound, Title: "There is no such sink"}
	codeTooManySinks = httpapi.Code{Name: "too_many_sinks", Status: http.StatusConflict, Title: "There are too many sinks"}
)

// Bounds of requests.
const (
	clockBody = 4 << 10
	sinkBody  = 256 << 10
	// farthest is how far one call may move the clock.
	farthest = 100 * 365 * 24 * time.Hour
)

// Dated has answers carry the time of the clock, by which commands count ages, and say that these calls are
// there: the dashboard asks for them only then.
func (d *Dev) Dated(api http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Date", d.Clock.Now().UTC().Format(http.TimeFormat))
		w.Header().Set("Duehook-Dev", "true")
		api.ServeHTTP(w, r)
	})
}

// Dialect has the calls of the clock and the sinks.
func (d *Dev) Dialect() httpapi.Dialect {
	return httpapi.Dialect{Routes: []httpapi.Route{
		{Method: http.MethodGet, Path: clockPath, Scope: access.Read, Handle: d.getClock},
		// A call may work for MostWork.
		{Method: http.MethodPost, Path: clockPath, Scope: access.Write, Stream: true, Handle: d.postClock},
		// What a sink received has bodies and headers.
		{Method: http.MethodGet, Path: sinksPath, Scope: access.Write, Handle: d.listSinks},
		{Method: http.MethodPut, Path: sinkPath, Scope: access.Write, Handle: d.putSink},
		{Method: http.MethodGet, Path: sinkPath, Scope: access.Write, Handle: d.getSink},
		{Method: http.MethodDelete, Path: sinkPath, Scope: access.Write, Handle: d.deleteSink},
		{Method: http.MethodGet, Path: "/v1/dev/openapi.json", Scope: access.Read, Handle: func(c *httpapi.Call) error {
			document, err := OpenAPI()
			if err != nil {
				return err
			}
			return c.Write(http.StatusOK, httpapi.MIMEJSON, document)
		}},
	}}
}

//go:embed openapi.yaml
var openAPISource []byte

// OpenAPI describes these calls, in JSON.
var OpenAPI = sync.OnceValues(func() ([]byte, error) {
	var document map[string]any
	if err := yaml.Unmarshal(openAPISource, &document); err != nil {
		return nil, fmt.Errorf("read the OpenAPI document: %w", err)
	}
	return json.Marshal(document)
})

// clockView is the clock in answers.
type clockView struct {
	Now    string  `json:"now"`
	Speed  float64 `json:"speed"`
	Frozen bool    `json:"frozen"`
	// Next is when something is due next.
	Next *string `json:"next"`
	// Attempts began during the call.
	Attempts *int `json:"attempts,omitempty"`
}

func (d *Dev) view(c *httpapi.Call) (clockView, error) {
	next, err := d.Next(c.Context())
	if err != nil {
		return clockView{}, err
	}
	v := clockView{Now: job.InstantOf(d.Clock.Now()).RFC3339()}
	v.Speed, v.Frozen = d.Clock.Rate()
	if next != 0 {
		at := next.RFC3339()
		v.Next = &at
	}
	return v, nil
}

func (d *Dev) getClock(c *httpapi.Call) error {
	v, err := d.view(c)
	if err != nil {
		return err
	}
	return c.WriteJSON(http.StatusOK, v)
}

// clockChange is the body of a change of the clock: one member.
type clockChange struct {
	Advance *duration  `json:"advance"`
	To      *time.Time `json:"to"`
	Speed   *float64   `json:"speed"`
	Frozen  *bool      `json:"frozen"`
}

func (d *Dev) postClock(c *httpapi.Call) error {
	var change clockChange
	if err := readObject(c, clockBody, &change); err != nil {
		return err
	}
	given := 0
	for _, is := range []bool{change.Advance != nil, change.To != nil, change.Speed != nil, change.Frozen != nil} {
		if is {
			given++
		}
	}
	if given != 1 {
		return httpapi.Invalid(httpapi.FieldError{Message: "has one member: advance, to, speed or frozen"})
	}
	var done Progress
	var err error
	switch {
	case change.Speed != nil:
		if !(*change.Speed > 0 && *change.Speed <= MaxSpeed) {
			return invalid("/speed", "is more than 0 and at most %d; frozen stops the clock", MaxSpeed)
		}
		d.Clock.Run(*change.Speed)
	case change.Frozen != nil && *change.Frozen:
		d.Clock.Freeze()
	case change.Frozen != nil:
		speed, _ := d.Clock.Rate()
		d.Clock.Run(speed)
	default:
		if err = c.WriteWithin(MostWork + time.Minute); err != nil {
			return err
		}
		var to time.Time
		if to, err = d.target(&change); err == nil {
			done, err = d.Advance(c.Context(), to)
		}
	}
	if errors.Is(err, ErrUnfinished) {
		now := job.InstantOf(done.Now).RFC3339()
		return &httpapi.Error{
			Code: codeUnfinished,
			Detail: fmt.Sprintf("The call worked for %v, made %d attempts and came to %s. Send {\"to\": \"…\"} with the time that you want to continue.",
				MostWork, done.Attempts, now),
			More: clockStopped{now, done.Attempts},
		}
	}
	if err != nil {
		return err
	}
	v, err := d.view(c)
	if err != nil {
		return err
	}
	if change.Advance != nil || change.To != nil {
		v.Now = job.InstantOf(done.Now).RFC3339()
	}
	v.Attempts = &done.Attempts
	return c.WriteJSON(http.StatusOK, v)
}

// clockStopped is how far an unfinished call came.
type clockStopped struct {
	Now      string `json:"now"`
	Attempts int    `json:"attempts"`
}

// target is the time to which a change moves the clock.
func (d *Dev) target(change *clockChange) (time.Time, error) {
	now := d.Clock.Now()
	if change.Advance != nil {
		by := time.Duration(*change.Advance)
		if by < 0 || by > farthest {
			return now, invalid("/advance", "is from 0 to 100 years: the clock does not go back")
		}
		return job.InstantOf(now).Add(by).Time(), nil
	}
	if job.InstantOf(*change.To) < job.InstantOf(now) {
		return now, invalid("/to", "is before %s, the present of the clock, which does not go back", job.InstantOf(now).RFC3339())
	}
	if change.To.Sub(now) > farthest {
		return now, invalid("/to", "is more than 100 years ahead")
	}
	return *change.To, nil
}

// answerView is an answer of a sink, in requests and answers.
type answerView struct {
	Status  *int              `json:"status"`
	Body    string            `json:"body"`
	Headers map[string]string `json:"headers"`
	Delay   duration          `json:"delay"`
}

type sinkChange struct {
	Answers []json.RawMessage `json:"answers"` // each of an answerView
}

func (d *Dev) putSink(c *httpapi.Call) error {
	var change sinkChange
	if err := readObject(c, sinkBody, &change); err != nil {
		return err
	}
	answers, err := change.check()
	if err != nil {
		return err
	}
	created, err := d.Sinks.Put(c.Param("sink"), answers)
	if errors.Is(err, ErrSinkName) {
		return invalid("/sink", "%v", err)
	}
	if err != nil {
		return &httpapi.Error{Code: codeTooManySinks, Detail: fmt.Sprintf("There are %d sinks, the most. Delete some.", MaxSinks)}
	}
	if created {
		return d.writeSink(c, http.StatusCreated)
	}
	return d.writeSink(c, http.StatusOK)
}

func (change *sinkChange) check() ([]Answer, error) {
	if len(change.Answers) > MaxAnswers {
		return nil, invalid("/answers", "has %d answers; the most are %d", len(change.Answers), MaxAnswers)
	}
	answers := make([]Answer, len(change.Answers))
	for i, text := range change.Answers {
		at := fmt.Sprintf("/answers/%d", i)
		var v answerView
		if err := decode(bytes.NewReader(text), at, &v); err != nil {
			return nil, err
		}
		a := Answer{Status: http.StatusOK, Body: v.Body, Headers: v.Headers, Delay: time.Duration(v.Delay)}
		if v.Status != nil {
			a.Status = *v.Status
		}
		switch {
		case a.Status < http.StatusOK || a.Status > 599:
			return nil, invalid(at+"/status", "is from 200 to 599")
		case a.Delay < 0 || a.Delay > MaxDelay:
			return nil, invalid(at+"/delay", "is from 0 to %s", job.FormatDuration(MaxDelay))
		}
		for _, name := range slices.Sorted(maps.Keys(a.Headers)) {
			if !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(a.Headers[name]) {
				return nil, invalid(at+"/headers/"+httpapi.EscapePointer(name), "is no header")
			}
		}
		answers[i] = a
	}
	return answers, nil
}

// requestView is a request that a sink got.
type requestView struct {
	At        string            `json:"at"`
	Method    string            `json:"method"`
	Path      string            `json:"path"`
	Headers   map[string]string `json:"headers"`
	Body      string            `json:"body"`
	Encoded   string            `json:"body_base64,omitempty"` // of a body that is no UTF-8
	Signature string            `json:"signature"`
}

type sinkView struct {
	Name     string        `json:"name"`
	URL      string        `json:"url"`
	Answers  []answerView  `json:"answers"`
	Total    int           `json:"total"` // requests, with those that are not kept any more
	Requests []requestView `json:"requests,omitempty"`
}

func viewOf(k *Sink) sinkView {
	v := sinkView{Name: k.Name, URL: "http://" + sinkHost + "/" + url.PathEscape(k.Name), Answers: []answerView{}, Total: k.Total}
	for _, a := range k.Answers {
		v.Answers = append(v.Answers, answerView{Status: &a.Status, Body: a.Body, Headers: a.Headers, Delay: duration(a.Delay)})
	}
	return v
}

func (d *Dev) getSink(c *httpapi.Call) error { return d.writeSink(c, http.StatusOK) }

func (d *Dev) writeSink(c *httpapi.Call, status int) error {
	k, err := d.Sinks.Get(c.Param("sink"))
	if err != nil {
		return &httpapi.Error{Code: codeSinkNotFound, Detail: "No delivery came to this sink, and no call has set it. PUT it, or register a job for http://sink/NAME."}
	}
	v := struct {
		sinkView
		Requests []requestView `json:"requests"` // never left out
	}{viewOf(&k), make([]requestView, len(k.Requests))}
	for i, r := range k.Requests {
		of := requestView{At: job.InstantOf(r.At).RFC3339(), Method: r.Method, Path: r.Path, Headers: r.Headers, Signature: r.Signature}
		of.Body, of.Encoded = text(r.Body)
		v.Requests[i] = of
	}
	return c.WriteJSON(status, v)
}

func (d *Dev) listSinks(c *httpapi.Call) error {
	list := struct {
		Data []sinkView `json:"data"`
	}{[]sinkView{}}
	for _, k := range d.Sinks.List() {
		list.Data = append(list.Data, viewOf(&k))
	}
	return c.WriteJSON(http.StatusOK, list)
}

func (d *Dev) deleteSink(c *httpapi.Call) error {
	d.Sinks.Delete(c.Param("sink"))
	c.Writer.WriteHeader(http.StatusNoContent)
	return nil
}

// duration is a duration in JSON: "1h30m" or a number of seconds.
type duration time.Duration

func (d *duration) UnmarshalJSON(raw []byte) error {
	var value any
	if err := json.Unmarshal(raw, &value); err != nil {
		return err
	}
	var parsed time.Duration
	var err error
	switch v := value.(type) {
	case string:
		parsed, err = job.ParseDuration(v)
	case float64:
		parsed, err = job.Seconds(v)
	default:
		err = errors.New(`is a duration such as "25h", or a number of seconds`)
	}
	if err != nil { // of this type, it gets the member
		return &json.UnmarshalTypeError{Value: fmt.Sprintf("%s: %v", raw, err), Type: reflect.TypeFor[duration]()}
	}
	*d = duration(parsed)
	return nil
}

func (d duration) MarshalJSON() ([]byte, error) {
	return json.Marshal(job.FormatDuration(time.Duration(d)))
}

// readObject reads a JSON object of known members.
func readObject(c *httpapi.Call, limit int64, into any) error {
	b, err := c.ReadJSON(limit)
	if err != nil {
		return err
	}
	defer httpapi.Release(b)
	return decode(b, "", into)
}

// decode decodes an object of known members; at is its place in the request.
func decode(text io.Reader, at string, into any) error {
	decoder := json.NewDecoder(text)
	decoder.DisallowUnknownFields()
	err := decoder.Decode(into)
	if err == nil {
		return nil
	}
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		message := "must not be of the type " + wrong.Value
		if wrong.Field != "" {
			at += "/" + strings.ReplaceAll(wrong.Field, ".", "/")
		}
		if wrong.Type == reflect.TypeFor[duration]() {
			message = wrong.Value
		}
		return invalid(at, "%s", message)
	}
	return invalid(at, "%s", strings.TrimPrefix(err.Error(), "json: "))
}

func invalid(pointer, format string, args ...any) error {
	return httpapi.Invalid(httpapi.FieldError{Pointer: pointer, Message: fmt.Sprintf(format, args...)})
}
