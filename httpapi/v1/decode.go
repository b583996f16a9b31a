package v1

import (
	"encoding/base64"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/duehook/duehook/httpapi/decode"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/services/access"
)

var (
	draftFields = decode.NewFieldSet(map[string]func(*job.Draft, decode.Field){
		"topic":        func(d *job.Draft, f decode.Field) { d.Topic = f.Text() },
		"id":           func(d *job.Draft, f decode.Field) { d.ID = f.Text() },
		"uid":          func(d *job.Draft, f decode.Field) { d.UID = f.Text() },
		"biz_key":      func(d *job.Draft, f decode.Field) { d.BizKey = f.Text() },
		"order_key":    func(d *job.Draft, f decode.Field) { d.OrderKey = f.Text() },
		"group":        func(d *job.Draft, f decode.Field) { d.Group = f.Text() },
		"filter_label": func(d *job.Draft, f decode.Field) { d.FilterLabel = f.Text() },
		"url":          func(d *job.Draft, f decode.Field) { d.Destination = (*job.Destination)(f.Text()) },
		"pull":         func(d *job.Draft, f decode.Field) { d.Pull = new(f.Boolean()) },
		"method":       func(d *job.Draft, f decode.Field) { d.Method = f.Text() },
		"delay":        func(d *job.Draft, f decode.Field) { d.Delay = f.Duration() },
		"at":           func(d *job.Draft, f decode.Field) { d.At = f.Instant() },
		"spread":       func(d *job.Draft, f decode.Field) { d.Spread = f.Duration() },
		"body":         func(d *job.Draft, f decode.Field) { setBody(d, f, job.BodyJSON, f.Raw) },
		"body_text":    setBodyText,
		"body_base64":  setBodyBase64,
		"content_type": func(d *job.Draft, f decode.Field) { d.ContentType = f.Text() },
		"headers":      func(d *job.Draft, f decode.Field) { d.Headers = f.Texts() },
		"timeout":      func(d *job.Draft, f decode.Field) { d.Timeout = f.Duration() },
		"ttl":          func(d *job.Draft, f decode.Field) { d.TTL = f.Duration() },
		"on_conflict":  func(d *job.Draft, f decode.Field) { d.OnConflict = f.Text() },
		"labels":       func(d *job.Draft, f decode.Field) { d.Labels = f.Texts() },
		"priority":     func(d *job.Draft, f decode.Field) { d.Priority = f.Integer() },
		"retry":        func(d *job.Draft, f decode.Field) { d.Retry = retryFields.New(f) },
		"callbacks":    func(d *job.Draft, f decode.Field) { d.Callbacks = decodeCallbacks(f) },
		"count": func(d *job.Draft, f decode.Field) {
			var count job.CountDraft
			countFields.Into(&count, f)
			if f.Raw[0] == '{' { // otherwise its target would be missed, too
				d.Count = &count
			}
		},
		"expect": func(d *job.Draft, f decode.Field) {
			expectFields.Into(d, f)
			d.NoExpect = d.Expect == nil
		},
	}).WithNull(map[string]func(*job.Draft){
		"biz_key": func(d *job.Draft) { d.NoBizKey = true },
		"expect":  func(d *job.Draft) { d.NoExpect = true },
	})
	retryFields = decode.NewFieldSet(map[string]func(*job.Retry, decode.Field){
		"steps": func(r *job.Retry, f decode.Field) { r.Steps = f.Steps() },
		"limit": func(r *job.Retry, f decode.Field) { r.Limit = f.Integer() },
	})
	countFields = decode.NewFieldSet(map[string]func(*job.CountDraft, decode.Field){
		"target":      func(c *job.CountDraft, f decode.Field) { c.Target = f.Long() },
		"at_deadline": func(c *job.CountDraft, f decode.Field) { c.AtDeadline = f.Text() },
	})
	addFields = decode.NewFieldSet(map[string]func(*job.AddDraft, decode.Field){
		"add": func(a *job.AddDraft, f decode.Field) { a.N = f.Long() },
		"key": func(a *job.AddDraft, f decode.Field) { a.Key = f.Text() },
	})
	expectFields = decode.NewFieldSet(map[string]func(*job.Draft, decode.Field){
		"body": func(d *job.Draft, f decode.Field) { d.Expect = f.Text() },
	})
	batchFields = decode.NewFieldSet(map[string]func(*batch, decode.Field){
		"jobs": func(b *batch, f decode.Field) { b.jobs, b.number = f.First(maxBatch) },
	})
	keyFields = decode.NewFieldSet(map[string]func(*access.Draft, decode.Field){
		"name":       func(d *access.Draft, f decode.Field) { decode.SetText(&d.Name, f) },
		"scope":      func(d *access.Draft, f decode.Field) { decode.SetText(&d.Scope, f) },
		"expires_at": func(d *access.Draft, f decode.Field) { decode.SetText(&d.ExpiresAt, f) },
		"rate":       func(d *access.Draft, f decode.Field) { decode.SetText(&d.Rate, f) },
		"topics":     setTopicSet,
	})
	noFields = decode.NewFieldSet(map[string]func(*struct{}, decode.Field){})
)

// setBody sets the body, whose content may point into the request.
func setBody(d *job.Draft, f decode.Field, form job.BodyForm, content []byte) {
	if d.Body != nil {
		f.Fail("must not be combined with another form of the body")
		return
	}
	d.Body = &job.Body{Form: form, Content: content}
}

func setBodyText(d *job.Draft, f decode.Field) {
	if s := f.Text(); s != nil {
		setBody(d, f, job.BodyText, []byte(*s))
	}
}

var strictBase64 = base64.StdEncoding.Strict()

func setBodyBase64(d *job.Draft, f decode.Field) {
	s := f.Text()
	if s == nil {
		return
	}
	content, err := strictBase64.DecodeString(*s)
	if err != nil || strings.ContainsAny(*s, "\r\n") { // the decoder skips line breaks
		f.Fail("must be base64 (RFC 4648 section 4) with padding and without line breaks")
	}
	setBody(d, f, job.BodyBase64, content)
}

// batch is the body of a batch registration: its jobs, each yet to be decoded, and their number. Those beyond the
// most are left out: an empty one takes ten times its bytes.
type batch struct {
	jobs   []json.RawMessage
	number int
}

// setTopicSet decodes topics of a key. Beyond the largest number, only the number matters.
func setTopicSet(d *access.Draft, f decode.Field) {
	list := f.List()
	if list == nil {
		return
	}
	d.Topics = make([]string, len(list))
	for i, raw := range list[:min(len(list), job.MaxTopicSet)] {
		one := decode.Field{Raw: raw, Parent: f.Pointer(), Name: strconv.Itoa(i), Errs: f.Errs}
		if text := one.Text(); text != nil {
			d.Topics[i] = *text
		}
	}
}
