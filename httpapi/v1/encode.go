package v1

import (
	"bytes"
	"encoding/base64"
	"maps"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/duehook/duehook/httpapi"
	"github.com/duehook/duehook/job"
)

// Answers with many jobs are written without reflection, which took a sixth of a
// node's time for a batch. The result equals that of encoding/json.

// appender is a view that writes itself.
type appender interface {
	appendJSON(b []byte) ([]byte, error)
}

// writeAppended answers with v, as writeJSON does.
func writeAppended(c *httpapi.Call, status int, v appender) error {
	b := httpapi.Buffer()
	defer httpapi.Release(b)
	text, err := v.appendJSON(b.AvailableBuffer())
	if err != nil {
		return err
	}
	b.Write(append(text, '\n')) // the text is where it belongs, if there was room for it
	return c.Write(status, httpapi.MIMEJSON, b.Bytes())
}

func (v resultsView) appendJSON(b []byte) ([]byte, error) {
	b = slices.Grow(b, len(v.Results)*typicalResult)
	b = append(b, `{"results":`...)
	b, err := appendList(b, v.Results)
	return append(b, '}'), err
}

// typicalResult is about how many bytes the answer to one job of a batch takes.
const typicalResult = 512

func (v *itemView) appendJSON(b []byte) ([]byte, error) {
	b = strconv.AppendInt(append(b, `{"status":`...), int64(v.Status), 10)
	var err error
	if v.Result != "" {
		b, err = appendText(append(b, `,"result":`...), v.Result)
	}
	if err == nil && v.Job != nil {
		b, err = v.Job.appendJSON(append(b, `,"job":`...))
	}
	if err == nil && v.Error != nil {
		b, err = appendAny(append(b, `,"error":`...), v.Error)
	}
	if err == nil && v.fanOutView != nil {
		b, err = v.appendMembers(append(b, ','))
	}
	return append(b, '}'), err
}

func (v *registeredView) appendJSON(b []byte) ([]byte, error) {
	b, err := v.jobView.appendJSON(b)
	if err != nil {
		return b, err
	}
	b, err = appendText(append(b[:len(b)-1], `,"result":`...), v.Result)
	return append(b, '}'), err
}

// jobPage is a page of jobs.
type jobPage pageView[jobView]

func (v jobPage) appendJSON(b []byte) ([]byte, error) {
	b = slices.Grow(b, len(v.Data)*typicalResult)
	b, err := appendList(append(b, `{"data":`...), v.Data)
	if err != nil {
		return b, err
	}
	b, err = appendOptional(append(b, `,"next_cursor":`...), v.NextCursor)
	return append(b, '}'), err
}

// appendList writes views, which are not nil, as an array.
func appendList[T any, P interface {
	*T
	appender
}](b []byte, views []T) ([]byte, error) {
	b = append(b, '[')
	var err error
	for i := range views {
		if i > 0 {
			b = append(b, ',')
		}
		if b, err = P(&views[i]).appendJSON(b); err != nil {
			return b, err
		}
	}
	return append(b, ']'), nil
}

func (v *jobView) appendJSON(b []byte) ([]byte, error) {
	w := jobWriter{b: b}
	w.text(`{"uid":`, v.UID)
	w.text(`,"topic":`, v.Topic)
	w.text(`,"id":`, v.ID)
	w.optional(`,"biz_key":`, v.BizKey)
	if v.OrderKey != "" {
		w.text(`,"order_key":`, v.OrderKey)
	}
	w.texts(`,"labels":`, v.Labels)
	w.text(`,"url":`, v.URL)
	w.text(`,"method":`, v.Method)
	w.text(`,"state":`, v.State)
	w.integer(`,"priority":`, v.Priority)
	w.instant(`,"due_at":`, v.DueAt)
	if v.Spread != "" {
		w.text(`,"spread":`, v.Spread)
	}
	if v.Rounds != 0 {
		w.integer(`,"rounds":`, v.Rounds)
	}
	w.instant(`,"created_at":`, v.CreatedAt)
	w.instant(`,"next_at":`, v.NextAt)
	w.integer(`,"attempts":`, v.Attempts)
	w.integer(`,"max_attempts":`, v.MaxAttempts)
	w.name(`,"last_attempt":`)
	if v.LastAttempt == nil {
		w.name("null")
	} else {
		w.keep(v.LastAttempt.appendJSON(w.b))
	}
	w.instant(`,"ended_at":`, v.EndedAt)
	w.optional(`,"reason":`, v.Reason)
	w.name(`,"version":`)
	w.b = strconv.AppendUint(w.b, v.Version, 10)
	if v.Group != "" {
		w.text(`,"group":`, v.Group)
	}
	if v.GroupID != "" {
		w.text(`,"group_id":`, v.GroupID)
	}
	w.name(`,"schedule":`)
	if v.Schedule == nil {
		w.name("null")
	} else {
		w.any(v.Schedule)
	}
	if len(v.Callbacks) > 0 {
		w.name(`,"callbacks":`)
		w.keep(appendList(w.b, v.Callbacks))
	}
	if v.CallbackOf != nil {
		w.name(`,"callback_of":`)
		w.any(v.CallbackOf)
	}
	if v.Count != nil {
		w.name(`,"count":`)
		w.any(v.Count)
	}
	w.name("}")
	return w.b, w.err
}

func (v *attemptView) appendJSON(b []byte) ([]byte, error) {
	w := jobWriter{b: b}
	v.appendMembers(&w)
	w.name("}")
	return w.b, w.err
}

// appendMembers writes an object without its end.
func (v *attemptView) appendMembers(w *jobWriter) {
	w.integer(`{"number":`, v.Number)
	w.instant(`,"started_at":`, v.StartedAt)
	number(w, `,"duration_ms":`, &v.DurationMS)
	number(w, `,"dns_ms":`, v.DNSMS)
	number(w, `,"connect_ms":`, v.ConnectMS)
	number(w, `,"tls_ms":`, v.TLSMS)
	number(w, `,"first_byte_ms":`, v.FirstByteMS)
	w.boolean(`,"connection_reused":`, v.ConnectionReused)
	number(w, `,"status":`, v.Status)
	w.optional(`,"error":`, v.Error)
	w.optional(`,"response_body":`, v.ResponseBody)
	w.texts(`,"response_headers":`, v.ResponseHeaders)
	w.instant(`,"next_at":`, v.NextAt)
	w.optional(`,"reason":`, v.Reason)
	if v.Version == nil {
		w.name(`,"version":null`)
	} else {
		w.name(`,"version":`)
		w.b = strconv.AppendUint(w.b, *v.Version, 10)
	}
	if v.ConnectRetries != 0 {
		w.integer(`,"connect_retries":`, v.ConnectRetries)
	}
}

func (v *callbackLink) appendJSON(b []byte) ([]byte, error) {
	w := jobWriter{b: b}
	w.text(`{"event":`, v.Event)
	w.text(`,"id":`, v.ID)
	w.text(`,"url":`, v.URL)
	w.name("}")
	return w.b, w.err
}

func (v *callbackBody) appendJSON(b []byte) ([]byte, error) {
	w := jobWriter{b: b}
	w.text(`{"event":`, v.Event)
	w.instant(`,"at":`, v.At)
	w.name(`,"job":`)
	w.keep(v.Job.appendJSON(w.b))
	w.name(`,"attempt":`)
	if v.Attempt == nil {
		w.name("null")
	} else {
		v.Attempt.appendMembers(&w)
		w.base64(`,"response_body_base64":`, v.Attempt.ResponseBodyBase64)
		w.boolean(`,"response_body_truncated":`, v.Attempt.ResponseBodyTruncated)
		w.name("}")
	}
	w.texts(`,"request":{"headers":`, v.Request.Headers)
	w.base64(`,"body_base64":`, v.Request.BodyBase64)
	w.name("}}")
	return w.b, w.err
}

// jobWriter writes members of an object, and keeps the first error.
type jobWriter struct {
	b   []byte
	err error
}

func (w *jobWriter) name(s string) { w.b = append(w.b, s...) }

func (w *jobWriter) text(name, s string) {
	w.name(name)
	w.keep(appendText(w.b, s))
}

func (w *jobWriter) optional(name string, s *string) {
	w.name(name)
	w.keep(appendOptional(w.b, s))
}

func (w *jobWriter) integer(name string, n int) {
	w.name(name)
	w.b = strconv.AppendInt(w.b, int64(n), 10)
}

func (w *jobWriter) instant(name string, i instant) {
	w.name(name)
	w.b = i.append(w.b)
}

// texts writes an object of texts, by their names.
func (w *jobWriter) texts(name string, texts map[string]string) {
	w.name(name)
	switch {
	case texts == nil:
		w.name("null")
		return
	case len(texts) == 0:
		w.name("{}")
		return
	}
	keys := slices.AppendSeq(make([]string, 0, len(texts)), maps.Keys(texts))
	slices.Sort(keys)
	separator := "{"
	for _, key := range keys {
		w.text(separator, key)
		w.text(":", texts[key])
		separator = ","
	}
	w.name("}")
}

// base64 writes bytes; none is null.
func (w *jobWriter) base64(name string, bytes []byte) {
	w.name(name)
	if bytes == nil {
		w.name("null")
		return
	}
	w.name(`"`)
	w.b = base64.StdEncoding.AppendEncode(w.b, bytes)
	w.name(`"`)
}

func (w *jobWriter) boolean(name string, v bool) {
	w.name(name)
	w.b = strconv.AppendBool(w.b, v)
}

// number writes a number; none is null.
func number[T int | int64](w *jobWriter, name string, n *T) {
	w.name(name)
	if n == nil {
		w.name("null")
		return
	}
	w.b = strconv.AppendInt(w.b, int64(*n), 10)
}

func (w *jobWriter) any(v any) { w.keep(appendAny(w.b, v)) }

func (w *jobWriter) keep(b []byte, err error) {
	w.b = b
	if w.err == nil {
		w.err = err
	}
}

func (i instant) append(b []byte) []byte {
	if i == 0 {
		return append(b, "null"...)
	}
	b = job.Instant(i).Time().AppendFormat(append(b, '"'), job.TimeFormat)
	return append(b, '"')
}

func appendOptional(b []byte, s *string) ([]byte, error) {
	if s == nil {
		return append(b, "null"...), nil
	}
	return appendText(b, *s)
}

// appendText writes a string. Most need no escapes.
func appendText(b []byte, s string) ([]byte, error) {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= utf8.RuneSelf || c == '"' || c == '\\' {
			return appendAny(b, s)
		}
	}
	b = append(append(b, '"'), s...)
	return append(b, '"'), nil
}

// appendAny writes what has no better way.
func appendAny(b []byte, v any) ([]byte, error) {
	text := bytes.NewBuffer(b)
	if err := httpapi.Encode(text, v); err != nil {
		return b, err
	}
	return bytes.TrimSuffix(text.Bytes(), []byte{'\n'}), nil
}
