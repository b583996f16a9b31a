package qstash

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/duehook/duehook/httpapi"
	"github.com/duehook/duehook/internal/app"
	"github.com/duehook/duehook/internal/app/groups"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/kit/jsonio"
	"github.com/duehook/duehook/store"
)

// accepted is the answer to a message, or to one of its group.
type accepted struct {
	MessageID    string `json:"messageId"`
	URL          string `json:"url"`
	Deduplicated bool   `json:"deduplicated,omitempty"`
}

// split returns what a path names behind its first words, as the client wrote it, and the headers
// with the settings of its query.
func split(r *http.Request, words int) (destination string, h http.Header) {
	_, rest, _ := strings.Cut(r.RequestURI, prefix)
	for range words {
		_, rest, _ = strings.Cut(rest, "/")
	}
	h = r.Header.Clone()
	destination, query, asked := strings.Cut(rest, "?")
	if !asked {
		return destination, h
	}
	var kept []string
	for parameter := range strings.SplitSeq(query, "&") {
		name, value, _ := strings.Cut(parameter, "=")
		name, errName := url.QueryUnescape(name)
		value, errValue := url.QueryUnescape(value)
		switch {
		case errName == nil && name == tokenParameter:
		case errName == nil && errValue == nil && len(name) > len(settingsPrefix) && strings.EqualFold(name[:len(settingsPrefix)], settingsPrefix):
			h.Set(name, value)
		default:
			kept = append(kept, parameter)
		}
	}
	if len(kept) > 0 {
		destination += "?" + strings.Join(kept, "&")
	}
	return destination, h
}

func (a *api) publish(c *httpapi.Call) error { return a.publishTo(c, "", 1) }

func (a *api) enqueue(c *httpapi.Call) error { return a.publishTo(c, c.Param("queue"), 2) }

// publishTo registers one message, or those of a group.
func (a *api) publishTo(c *httpapi.Call, queue string, words int) error {
	body, err := c.ReadBody(int64(a.App.Bounds().MaxBody))
	if err != nil {
		return err
	}
	defer httpapi.Release(body)
	destination, h := split(c.Request, words)
	m, err := readMessage(h, destination, bytes.Clone(body.Bytes()), queue, c.ClientIP())
	if err != nil {
		a.App.Refuse(1, true)
		return err
	}
	results := a.register(c, []*message{m}, []error{nil})
	r := results[0]
	if r.err != nil {
		return r.err
	}
	c.Target = r.messages[0].MessageID
	if m.ID != "" {
		c.SetResult(r.outcome)
	}
	status := http.StatusOK
	if r.messages[0].Deduplicated {
		status = http.StatusAccepted
	}
	return c.WriteJSON(status, r.answer())
}

// maxBatch is the most messages of a batch, those of groups included.
const maxBatch = app.MaxJobs

// maxItemParts is more than a message of a batch may have, in names and values.
const maxItemParts = 500

// batchItem is a message of a batch. An absent member is null or empty.
type batchItem struct {
	Destination string
	Headers     map[string]string
	Body        string
	Queue       string
}

func (a *api) batch(c *httpapi.Call) error {
	var raw json.RawMessage
	if err := jsonOf(c, a.MaxBatchBytes, &raw); err != nil {
		return err
	}
	var items []batchItem
	if trimmed := bytes.TrimLeft(raw, " \t\r\n"); len(trimmed) > 0 && trimmed[0] == '{' {
		raw = append(append([]byte{'['}, trimmed...), ']')
	}
	n := 0
	for item := range jsonio.Elements(raw) { // before they are decoded: an empty one takes twenty times its bytes
		if n++; n > maxBatch {
			return refused("a batch must have at most %d messages", maxBatch)
		}
		if jsonio.Parts(item, maxItemParts) > maxItemParts {
			return refused("a message of a batch has too many headers or other members: at most %d are allowed", job.MaxHeaders)
		}
	}
	if err := json.Unmarshal(raw, &items); err != nil {
		return refused("a batch must be an array of {destination, headers, body, queue}")
	}
	messages, errs := make([]*message, len(items)), make([]error, len(items))
	for i, item := range items {
		h := http.Header{}
		for name, value := range item.Headers {
			h.Set(name, value)
		}
		messages[i], errs[i] = readMessage(h, item.Destination, []byte(item.Body), item.Queue, c.ClientIP())
	}
	c.Target = strconv.Itoa(len(items)) + " messages"
	results := a.register(c, messages, errs)
	answers := make([]any, len(results))
	for i := range results {
		err := results[i].err
		if err == nil {
			answers[i] = results[i].answer()
			continue
		}
		e := httpapi.AsError(err)
		if !e.ClientsFault() {
			return err
		}
		_, text := errorOf(e)
		answers[i] = map[string]string{"error": text}
	}
	return c.WriteJSON(http.StatusOK, answers)
}

// result is what became of a message: the messages of a group are several.
type result struct {
	messages []accepted
	group    bool
	outcome  string // of the last one
	err      error

	jobs int // how many are registered for it
}

func (r *result) answer() any {
	if r.group {
		return r.messages
	}
	return r.messages[0]
}

func (r *result) add(j *job.Job, deduplicated bool) {
	r.messages = append(r.messages, accepted{MessageID: messageID(j), URL: string(j.Spec.Destination), Deduplicated: deduplicated})
}

// register registers messages that could be read; errs says which could not.
func (a *api) register(c *httpapi.Call, messages []*message, errs []error) []result {
	results := make([]result, len(messages))
	var regs []app.Prepared
	dryRun, wrong := httpapi.Flag(dryRunHeader, c.Request.Header.Get(dryRunHeader))
	for i, m := range messages {
		r := &results[i]
		if r.err = cmp.Or(wrong, errs[i]); r.err == nil {
			before := len(regs)
			if regs, r.err = a.prepare(c, m, regs, r); r.err == nil && len(regs) > maxBatch {
				regs, r.err = regs[:before], refused("a batch makes at most %d messages, those of groups included", maxBatch)
			}
			if r.err == nil && !dryRun {
				if r.err = a.makeTopic(c.Context(), m); r.err != nil {
					regs = regs[:before]
				}
			}
			r.jobs = len(regs) - before
		}
		if r.err != nil {
			a.App.Refuse(1, httpapi.AsError(r.err).ClientsFault())
		}
	}
	var registered []store.Registered
	var failed error
	if len(regs) > 0 {
		registered, failed = a.App.RegisterUnless(c.Context(), dryRun, regs...)
	}
	for i, m := range messages {
		r := &results[i]
		if failed != nil && r.jobs > 0 {
			r.err = failed
			continue
		}
		for k := range registered[:r.jobs] {
			r.take(&registered[k], m.dedup != "")
		}
		registered = registered[r.jobs:]
		if r.err == nil && len(r.messages) == 0 {
			r.err = refused("the url group %s has no endpoints", *m.draft.Group)
		}
	}
	return results
}

// take adds the result of a registration. A deduplication id that is taken is no conflict.
func (r *result) take(one *store.Registered, dedup bool) {
	r.outcome = app.OutcomeNames[one.Outcome]
	switch err := app.Refusal(one); {
	case one.Outcome == store.Created:
		r.add(&one.Job, false)
	case err == nil || dedup && one.Outcome.Conflicts():
		r.add(&one.Job, true)
	default:
		r.err = errors.Join(r.err, err)
	}
}

// prepare checks a message and adds its registrations, unless it is a duplicate.
func (a *api) prepare(c *httpapi.Call, m *message, regs []app.Prepared, r *result) ([]app.Prepared, error) {
	ctx := c.Context()
	if err := a.readTopic(ctx, m); err != nil {
		return regs, err
	}
	from := app.Origin{Topics: c.Topics(), Trace: c.Trace()}
	r.group = m.draft.Group != nil
	if m.dedup != "" {
		now := a.Clock.Now()
		current := dedupID(m.dedup, now)
		if m.draft.ID == nil {
			m.draft.ID = &current
		}
		for _, id := range []string{current, dedupID(m.dedup, now.Add(-dedupWindow))} {
			if found, err := a.taken(ctx, m, id, job.InstantOf(now.Add(-dedupWindow)), r); found || err != nil {
				return regs, err
			}
		}
	}
	if !r.group {
		reg, err := a.App.Prepare(&m.draft, from)
		if err != nil {
			return regs, err
		}
		return append(regs, reg), nil
	}
	if _, err := a.Groups.Get(ctx, *m.draft.Group); errors.Is(err, groups.ErrNotFound) {
		return regs, notFound("url group", *m.draft.Group)
	}
	fan, err := a.App.PrepareGroup(ctx, &m.draft, from)
	if err != nil {
		return regs, err
	}
	for i := range fan.Refused {
		r.take(&fan.Refused[i], m.dedup != "")
	}
	return append(regs, fan.Jobs...), r.err
}

// dedupWindow is how long a deduplication id is taken.
const dedupWindow = 10 * time.Minute

// dedupID is the id of jobs with a deduplication id. It changes with each window, so that a job
// of an earlier one does not hold it; the job of the window before is looked up.
func dedupID(id string, at time.Time) string {
	const kept = 10
	digest := sha256.Sum256([]byte(id))
	return "d" + hex.EncodeToString(digest[:kept]) + "-" + strconv.FormatInt(at.Unix()/int64(dedupWindow/time.Second), 36)
}

// taken adds the jobs that have the id and were registered since a time. Cancelled ones alone leave the id free.
func (a *api) taken(ctx context.Context, m *message, id string, since job.Instant, r *result) (bool, error) {
	var jobs []job.Job
	if r.group {
		page, err := a.App.List(ctx, store.Query{Topic: *m.draft.Topic, GroupID: id, Limit: maxBatch})
		if err != nil {
			return false, err
		}
		jobs = slices.DeleteFunc(page.Jobs, func(j job.Job) bool { return j.Spec.Group == nil })
		sort.Slice(jobs, func(i, j int) bool { return jobs[i].Spec.Group.Position < jobs[j].Spec.Group.Position })
	} else {
		j, err := a.App.Get(ctx, job.Key{Topic: *m.draft.Topic, ID: id})
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return false, err
		}
		if err == nil {
			jobs = []job.Job{j}
		}
	}
	cancelled := func(j job.Job) bool { return j.State == job.Cancelled && j.Reason == job.ReasonCancelled }
	if !slices.ContainsFunc(jobs, func(j job.Job) bool { return !cancelled(j) }) {
		return false, nil
	}
	for i := range jobs {
		if jobs[i].CreatedAt > since {
			r.add(&jobs[i], true)
		}
	}
	return len(r.messages) > 0, nil
}
