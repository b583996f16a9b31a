package v1

import (
	"encoding/json"
	"strconv"

	"github.com/duehook/duehook/httpapi/decode"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/services/access"
)

var (
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
