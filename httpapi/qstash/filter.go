package qstash

import (
	"bytes"
	"context"
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/duehook/duehook/httpapi"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

const maxRequest = 1 << 20

// decoded reads JSON leniently: unknown members are ignored. Without any, into stays as it is.
func decoded(text []byte, into any) error {
	if len(bytes.TrimSpace(text)) == 0 {
		return nil
	}
	if json.Unmarshal(text, into) != nil {
		return refused("the body is not the JSON that this call takes")
	}
	return nil
}

// filter selects messages: each part that is given has to match, by any of its values.
type filter struct {
	parts    map[string][]string
	from, to job.Instant // of the creation, inclusive; zero: any
}

// parts are what a filter can select by, and the values of a job.
var parts = map[string]func(j *job.Job) []string{
	"topicName":      func(j *job.Job) []string { return []string{viewOf(j).TopicName} },
	"queueName":      func(j *job.Job) []string { return []string{queueOf(j.Topic)} },
	"scheduleId":     func(j *job.Job) []string { return []string{viewOf(j).ScheduleID} },
	"url":            func(j *job.Job) []string { return []string{string(j.Spec.Destination)} },
	"label":          func(j *job.Job) []string { return labelsOf(j.Spec.Labels) },
	"flowControlKey": func(j *job.Job) []string { return []string{viewOf(j).FlowControlKey} },
	"callerIp":       func(j *job.Job) []string { return []string{viewOf(j).CallerIP} },
	"messageId":      func(j *job.Job) []string { return []string{messageID(j)} },
	"host": func(j *job.Job) []string {
		u, err := url.Parse(string(j.Spec.Destination))
		if err != nil {
			return nil
		}
		return []string{u.Host, u.Hostname()}
	},
	"path": func(j *job.Job) []string {
		u, err := url.Parse(j.Spec.Destination.Sent())
		if err != nil {
			return nil
		}
		return []string{u.EscapedPath()}
	},
	"responseStatus": func(j *job.Job) []string {
		if j.LastAttempt == nil {
			return []string{"0"}
		}
		return []string{strconv.Itoa(j.LastAttempt.Status)}
	},
}

// aliases are other names of parts.
var aliases = map[string]string{"callerIP": "callerIp", "messageIds": "messageId", "dlqIds": "dlqId"}

// filterOf reads a filter from a query.
func filterOf(q url.Values) (f filter, err error) {
	f.parts = map[string][]string{}
	for name := range parts {
		values := list(q, name)
		for alias, of := range aliases {
			if of == name {
				values = append(values, list(q, alias)...)
			}
		}
		if name == "url" {
			values = urls(q["url"])
		}
		if len(values) > 0 {
			f.parts[name] = values
		}
	}
	for name, to := range map[string]*job.Instant{"fromDate": &f.from, "toDate": &f.to} {
		if text := q.Get(name); text != "" {
			ms, err := strconv.ParseInt(text, 10, 64)
			if err != nil || ms < 0 {
				return f, refused("%s must be Unix milliseconds", name)
			}
			*to = job.Instant(ms)
		}
	}
	return f, nil
}

// urls splits only where a URL follows the comma.
func urls(values []string) (all []string) {
	for _, value := range values {
		for part := range strings.SplitSeq(value, ",") {
			if strings.HasPrefix(part, "http") || len(all) == 0 {
				all = append(all, part)
			} else {
				all[len(all)-1] += "," + part
			}
		}
	}
	return all
}

func (f *filter) matches(j *job.Job) bool {
	return j.Spec.In(Name) && j.CreatedAt >= f.from && (f.to == 0 || j.CreatedAt <= f.to) && f.matchesParts(j)
}

func (f *filter) matchesParts(j *job.Job) bool {
	for name, wanted := range f.parts {
		if !slices.ContainsFunc(parts[name](j), func(v string) bool { return slices.Contains(wanted, v) }) {
			return false
		}
	}
	return true
}

// query is the part of the filter that a store can select by.
func (f *filter) query(states ...job.State) store.Query {
	q := store.Query{Only: own, States: states, CreatedFrom: f.from}
	if f.to != 0 {
		q.CreatedTo = f.to + 1
	}
	if of := f.parts["queueName"]; len(of) == 1 {
		q.Topic = queueTopic(of[0])
	}
	if of := f.parts["scheduleId"]; len(of) == 1 {
		q.Schedule = of[0]
	}
	return q
}

// maxScanned bounds what one call looks at: some ten thousand messages that it selects, or fewer others.
const maxScanned = 12_000

// maxNamed bounds the jobs whose ids a call names, in bytes: there is no page of them.
const maxNamed = 4 * store.PageBytes

func tooMuchNamed(ids string) error {
	return refused("the messages of these %s are larger than %d MiB together; name fewer at a time", ids, maxNamed>>20)
}

// amount is a number of jobs, and their bytes.
type amount struct{ jobs, bytes int }

// each passes the jobs that a query and a filter select, until it has taken as many as asked for.
// It returns the cursor behind the last one; empty: there are no more.
func (a *api) each(ctx context.Context, q store.Query, most amount, cursor string, take func(j *job.Job) (bool, error)) (next string, err error) {
	q.Cursor = cursor
	taken := amount{}
	for scanned := 0; ; {
		q.Limit = min(most.jobs-taken.jobs, 100)
		page, err := a.App.List(ctx, q)
		if err != nil {
			return "", err
		}
		for i := range page.Jobs {
			ok, err := take(&page.Jobs[i])
			if err != nil {
				return "", err
			}
			if ok {
				taken.jobs++
				taken.bytes += store.SizeOf(&page.Jobs[i])
			}
		}
		scanned += page.Scanned
		if q.Cursor = page.Next; q.Cursor == "" || taken.jobs >= most.jobs || taken.bytes >= most.bytes || scanned >= maxScanned {
			return q.Cursor, nil
		}
	}
}

// count reads how many a call is to take.
func count(q url.Values, otherwise, most int) (int, error) {
	text := q.Get("count")
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, refused("count must be from 1 to %d", most)
	}
	return min(n, most), nil
}

// ids reads the ids of a call from its query or its body. given is false without any.
func ids(c *httpapi.Call, name string) (all []string, given bool, err error) {
	var body map[string]json.RawMessage
	if c.HasBody() {
		if err := jsonOf(c, maxRequest, &body); err != nil {
			return nil, false, err
		}
	}
	if isTrue(string(body["async"])) || isTrue(c.Query().Get("async")) {
		return nil, false, refused("async is not available here: leave it out, and repeat the call until it finds no more")
	}
	all = list(c.Query(), name)
	if raw, ok := body[name]; ok {
		var more []string
		if json.Unmarshal(raw, &more) != nil || len(more) == 0 {
			return nil, false, refused("%s must be an array of ids that is not empty", name)
		}
		all = append(all, more...)
	}
	if len(all) > maxIDs {
		return nil, false, refused("%s must have at most %d ids", name, maxIDs)
	}
	return all, len(all) > 0, nil
}

const maxIDs = 1000

// uidLength is the length of a ULID.
const uidLength = 26

// byID returns the job of a message or dead letter. The error is store.ErrNotFound if there is
// none.
func (a *api) byID(ctx context.Context, prefix, id string) (job.Job, error) {
	if uid, ok := strings.CutPrefix(id, prefix); ok && len(uid) == uidLength {
		page, err := a.App.List(ctx, store.Query{UID: uid, Limit: 1})
		if err != nil {
			return job.Job{}, err
		}
		if len(page.Jobs) > 0 && page.Jobs[0].Spec.In(Name) {
			return page.Jobs[0], nil
		}
	}
	if prefix != messagePrefix || job.CheckName(id) != nil {
		return job.Job{}, store.ErrNotFound
	}
	page, err := a.App.List(ctx, store.Query{IndexedID: id, Dialect: Name, Only: own, Limit: 1})
	switch {
	case err != nil:
		return job.Job{}, err
	case len(page.Jobs) == 0 || messageID(&page.Jobs[0]) != id:
		return job.Job{}, store.ErrNotFound
	}
	return page.Jobs[0], nil
}
