package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/duehook/duehook/client"
	"github.com/duehook/duehook/internal/job"
)

// draft is the flags of send.
type draft struct {
	r               client.Registration
	in, at, body    string
	headers, labels []string
	ttl, timeout    string
	steps, onConfl  string
	expect          string
	limit           int
	target          int
	wait            bool
}

func (a *app) send() *cobra.Command {
	d := &draft{limit: -1}
	cmd := &cobra.Command{
		Use:   "send URL",
		Short: "Register a job and print when it is due",
		Example: `  duehook send https://shop.example/hooks/timeout --in 30m --topic order-timeout --id order-8812 --body '{"order_id":8812}'
  duehook send --group order-paid --topic order-events --id order-8812-paid
  duehook send http://127.0.0.1:3000/hook --wait
  duehook send --pull --topic orders --id order-8812 --in 30m`,
		Args: cobra.MaximumNArgs(1),
	}
	f := cmd.Flags()
	f.StringVar(&d.in, "in", "", "delay, such as 30m or 1d12h")
	f.StringVar(&d.at, "at", "", "due time, such as 2026-01-31T09:00:00Z")
	f.StringVar(&d.r.Topic, "topic", "", "topic (default \"default\")")
	f.StringVar(&d.r.ID, "id", "", "id within the topic (default: a random one)")
	f.StringVar(&d.body, "body", "", "@file, - for standard input, or text; JSON is sent as JSON")
	f.StringVar(&d.r.ContentType, "content-type", "", "content type of the body")
	f.StringVar(&d.r.Method, "method", "", "POST, PUT, PATCH, GET or DELETE (default POST)")
	f.StringArrayVar(&d.headers, "header", nil, "header of the delivery, as name:value; repeatable")
	f.StringArrayVar(&d.labels, "label", nil, "label to search by, as key=value; repeatable")
	f.StringVar(&d.r.BizKey, "biz-key", "", "business key to search by")
	f.StringVar(&d.r.OrderKey, "order-key", "", "jobs with the same key are delivered one at a time")
	f.StringVar(&d.r.Group, "group", "", "register a job for each member of this group, instead of URL")
	f.BoolVar(&d.r.Pull, "pull", false, "consumers fetch the job, instead of URL")
	numberFlag(cmd, &d.r.Priority, "priority", 1, "1 to 9; 9 goes first (default 5)")
	f.StringVar(&d.ttl, "ttl", "", "the job expires after this time")
	f.StringVar(&d.timeout, "timeout", "", "of one attempt")
	f.StringVar(&d.steps, "retry", "", "delays between attempts, such as 15s,3m,10m")
	numberFlag(cmd, &d.limit, "limit", 0, "most retries; 0 means one attempt")
	f.StringVar(&d.expect, "expect", "", "the body of an answer must match this to count as a delivery; see docs/api.md")
	numberFlag(cmd, &d.target, "count", 1, "the job is due when its count reaches this")
	f.StringVar(&d.onConfl, "on-conflict", "", "reject, ignore, replace, later, sooner, renew or once (default reject)")
	f.BoolVar(&d.wait, "wait", false, "follow the job to its end; the exit code is 0 if it was delivered")
	cmd.RunE = a.connected(func(ctx context.Context, args []string) error {
		if len(args) == 1 {
			d.r.URL = args[0]
		}
		if err := a.complete(d); err != nil {
			return err
		}
		return a.register(ctx, d)
	})
	return cmd
}

// complete turns the flags into a registration.
func (a *app) complete(d *draft) error {
	r := &d.r
	given := 0
	for _, one := range []bool{r.URL != "", r.Group != "", r.Pull} {
		if one {
			given++
		}
	}
	if given != 1 {
		return usagef("name either a URL or a group: duehook send URL, or duehook send --group NAME; or let consumers fetch the job with --pull")
	}
	if d.wait && r.Group != "" {
		return usagef("--wait follows one job; a group makes several. List them with duehook ls group_id:ID")
	}
	var err error
	if r.Headers, err = pairs("--header", ":", d.headers); err != nil {
		return err
	}
	if r.Labels, err = pairs("--label", "=:", d.labels); err != nil {
		return err
	}
	if err := d.times(); err != nil {
		return err
	}
	if d.steps != "" || d.limit >= 0 {
		r.Retry = &client.Retry{}
		for _, step := range ladder(d.steps) {
			if err := duration("--retry", step, nil, &r.Retry.Steps); err != nil {
				return err
			}
		}
		if d.limit >= 0 {
			r.Retry.Limit = &d.limit
		}
	}
	if d.expect != "" {
		r.Expect = &client.Expect{Body: d.expect}
	}
	if d.target > 0 {
		r.Count = &client.CountTarget{Target: int64(d.target)}
	}
	r.OnConflict = client.OnConflict(d.onConfl)
	return a.readBody(d)
}

// times reads the flags that are times.
func (d *draft) times() error {
	if d.in != "" && d.at != "" {
		return usagef("--in and --at exclude each other")
	}
	if err := duration("--in", d.in, &d.r.Delay, nil); err != nil {
		return err
	}
	if err := duration("--ttl", d.ttl, &d.r.TTL, nil); err != nil {
		return err
	}
	if err := duration("--timeout", d.timeout, &d.r.Timeout, nil); err != nil {
		return err
	}
	return dueTime(d.at, &d.r.At)
}

// dueTime reads the flag --at.
func dueTime(text string, to *time.Time) (err error) {
	if text == "" {
		return nil
	}
	if *to, err = time.Parse(time.RFC3339, text); err != nil {
		return usagef("--at %q is not a time such as 2026-01-31T09:00:00Z; --in takes a duration", text)
	}
	return nil
}

// duration reads a flag into one value or appends it to several.
func duration(flag, text string, to *client.Duration, list *[]client.Duration) error {
	if text == "" {
		return nil
	}
	d, err := job.ParseDuration(text)
	switch {
	case err != nil:
		return usagef("%s %q %v", flag, text, err)
	case list != nil:
		*list = append(*list, client.Duration(d))
	default:
		*to = client.Duration(d)
	}
	return nil
}

// ladder is the steps of a ladder, separated by commas or spaces.
func ladder(text string) []string {
	return strings.FieldsFunc(text, func(c rune) bool { return c == ',' || c == ' ' })
}

// pairs reads names and values. The first of the separators is the one to recommend.
func pairs(flag, separators string, from []string) (map[string]string, error) {
	if len(from) == 0 {
		return nil, nil
	}
	to := map[string]string{}
	for _, pair := range from {
		at := strings.IndexAny(pair, separators)
		if at < 0 {
			return nil, usagef("%s %q: write name%cvalue", flag, pair, separators[0])
		}
		to[strings.TrimSpace(pair[:at])] = strings.TrimSpace(pair[at+1:])
	}
	return to, nil
}

// maxBody bounds what is read for a body.
const maxBody = 32 << 20

// registrationOf reads a registration as the API takes it.
func registrationOf(data []byte) (client.Registration, error) {
	line, err := exportedOf(data)
	if err == nil && line.Export != nil {
		err = errors.New("json: unknown field \"export\"")
	}
	return line.Registration, err
}

// exportedOf reads a line of an export: the type of the client permits members that it does not know, which would be lost.
func exportedOf(data []byte) (exported, error) {
	type plain client.Registration
	var r struct {
		plain
		Body   json.RawMessage `json:"body"`
		Export *exportNote     `json:"export"`
	}
	err := strict(data, &r)
	if r.Body != nil {
		r.plain.Body = r.Body
	}
	return exported{client.Registration(r.plain), r.Export}, err
}

// strict reads one JSON value, and refuses members that are not in its type.
func strict(data []byte, to any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(to); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the JSON object")
	}
	return nil
}

// readAll reads a file, or standard input for -, of at most maxBody.
func (a *app) readAll(name string) (data []byte, err error) {
	err = a.reading([]string{name}, func(in io.Reader) error {
		data, err = io.ReadAll(io.LimitReader(in, maxBody+1))
		if err == nil && len(data) > maxBody {
			err = fmt.Errorf("more than %d MiB", maxBody>>20)
		}
		return err
	})
	return data, err
}

// readBody reads the body from a file, standard input or the flag. Text that is JSON is sent as
// JSON, unless a content type says otherwise.
func (a *app) readBody(d *draft) error {
	data := []byte(d.body)
	name, isFile := strings.CutPrefix(d.body, "@")
	switch {
	case d.body == "":
		return nil
	case d.body == "-", isFile:
		var err error
		if data, err = a.readAll(name); err != nil {
			return usagef("--body %s: %v", d.body, err)
		}
	}
	if len(data) == 0 {
		return nil
	}
	if json.Valid(data) && (d.r.ContentType == "" || strings.Contains(d.r.ContentType, "json")) {
		d.r.Body = json.RawMessage(data)
		return nil
	}
	d.r.BodyBytes = data
	if d.r.ContentType == "" {
		d.r.ContentType = "text/plain; charset=utf-8"
	}
	return nil
}

func (a *app) register(ctx context.Context, d *draft) error {
	if d.r.Group != "" {
		f, err := a.client.RegisterGroup(ctx, d.r)
		return a.one(err, func() { a.registered(f.Jobs...) })
	}
	r, err := a.client.Register(ctx, d.r)
	if err != nil || !d.wait {
		return a.one(err, func() { a.registered(r) })
	}
	a.hint("%s\n", a.jobLine(&r.Job))
	return a.follow(ctx, r.Job)
}

// registered prints a line for each job.
func (a *app) registered(jobs ...client.RegisteredJob) {
	for i := range jobs {
		a.printf("%s  %s\n", a.jobLine(&jobs[i].Job), jobs[i].Result)
	}
}

// outagePatience is how long a wait survives an outage of the server, such as a restart.
const outagePatience = time.Minute

// follow waits for the end of a job. It looks at the job when it is due, and more often then.
func (a *app) follow(ctx context.Context, j client.Job) error {
	attempts, answered := j.Attempts, a.Clock.Now()
	for pause := 50 * time.Millisecond; !j.State.Final(); pause = min(pause*2, time.Second) {
		if ahead := j.NextAt.Sub(a.now()); ahead > 5*time.Second {
			pause = min(ahead-time.Second, 30*time.Second)
		}
		err := job.Sleep(ctx, a.Clock, pause)
		if err != nil {
			return fmt.Errorf("stopped waiting for %s/%s, which continues: %w", j.Topic, j.ID, err)
		}
		found, err := a.client.Job(ctx, j.Topic, j.ID)
		switch {
		case err == nil && found.UID != j.UID:
			return &outcomeError{fmt.Sprintf("another registration has replaced %s/%s", j.Topic, j.ID)}
		case err == nil:
			answered = a.Clock.Now()
		case ctx.Err() == nil && unavailable(err) && a.Clock.Now().Sub(answered) < outagePatience:
			continue
		default:
			return fmt.Errorf("stopped waiting for %s/%s: %w", j.Topic, j.ID, err)
		}
		j = found.Job
		if j.Attempts != attempts && j.LastAttempt != nil && !j.State.Final() {
			a.hint("attempt %d: %s; next %s\n", j.LastAttempt.Number, answer(j.LastAttempt), a.when(j.NextAt))
		}
		attempts = j.Attempts
	}
	if err := a.one(nil, func() { a.printf("%s\n", a.jobLine(&j)) }); err != nil {
		return err
	}
	if j.State != client.StateDelivered {
		return &outcomeError{fmt.Sprintf("%s/%s is %s (%s); duehook explain %s/%s says why", j.Topic, j.ID, j.State, j.Reason, j.Topic, j.ID)}
	}
	return nil
}
