package scenario

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/duehook/duehook/bench/contender"
	"github.com/duehook/duehook/bench/report"
	"github.com/duehook/duehook/bench/stats"
)

// page is a call that the dashboard or an operator makes.
type page struct {
	title, path string
	body        string // of a POST; empty: a GET
	behind      int    // pages of 1,000 jobs before it
}

// cancelTopic is the operation that runs beside the pages: it cancels the jobs of one topic.
const cancelTopic = `{"action":"cancel","filter":{"topic":"topic-9"},"rate":1000}`

// pageTopics is how many topics the waiting jobs have.
const pageTopics = 10

// pagesOf are the calls, some about a job that waits.
func pagesOf(j *contender.Job) []page {
	one := "/v1/jobs/" + j.Topic + "/" + j.ID
	later := j.Due.Add(12 * time.Hour).UTC() // in the middle of them all
	from, to := "due_from="+later.Format(time.RFC3339), "due_to="+later.Add(time.Minute).Format(time.RFC3339)
	plan := fmt.Sprintf(`{"topic":%q,"url":%q,"at":%q}`, j.Topic, j.URL, later.Format(time.RFC3339))
	return []page{
		{title: "overview", path: "/v1/overview"},
		{title: "activity of a day", path: "/v1/activity?window=24h"},
		{title: "topics, the busiest first", path: "/v1/topics?order=-unfinished"},
		{title: "endpoints", path: "/v1/endpoints"},
		{title: "dead letters", path: "/v1/dead"},
		{title: "jobs", path: "/v1/jobs"},
		{title: "jobs of a topic, by due time", path: "/v1/jobs?state=waiting&order=due&topic=" + j.Topic},
		{title: "jobs, by due time, the last first", path: "/v1/jobs?state=waiting&order=-due"},
		{title: "search by a prefix that no id has", path: "/v1/jobs?id=none"},
		{title: "search by a time of registration", path: "/v1/jobs?created_to=2001-01-01T00:00:00Z"},
		{title: "search by a label that no job has", path: "/v1/jobs?labels=none:none"},
		{title: "the same in a topic, by due time", path: "/v1/jobs?labels=none:none&state=waiting&order=due&topic=" + j.Topic},
		{title: "search by a uid that no job has", path: "/v1/jobs?uid=01ARZ3NDEKTSV4RRFFQ69G5FAV"},
		{title: "jobs due in a minute: a column of the overview", path: "/v1/jobs?state=waiting&state=retrying&" + from + "&" + to},
		{title: "jobs of a topic from then on, by due time", path: "/v1/jobs?state=waiting&order=due&" + from + "&topic=" + j.Topic},
		{title: "a page behind 10,000 jobs", path: "/v1/jobs?limit=100", behind: 10},
		{title: "a topic", path: "/v1/topics/" + j.Topic},
		{title: "plan of a job", path: "/v1/jobs/plan", body: plan},
		{title: "a job", path: one},
		{title: "why it has not run", path: one + "/explain"},
		{title: "metrics", path: "/metrics"},
		{title: "dry run of a bulk cancel: counts for 5 s at most", path: "/v1/operations?dry_run=true", body: cancelTopic},
	}
}

// pageCalls is how often each page is asked for.
const pageCalls = 10

// inMemory is the most waiting jobs with which Redis is measured: more take many gigabytes.
const inMemory = 1_000_000

// pages measures the pages of a node beside many waiting jobs, alone and beside a bulk operation.
func pages(ctx context.Context, r *runner) (*result, error) {
	table := report.Table{Header: []string{"ms", "", "waiting jobs", "median", "longest", "beside a bulk cancel: median", "longest", "answer"}}
	for _, name := range r.among(contender.Duehook, contender.Embedded, contender.OnSQL) {
		for _, waiting := range r.Size.Restart {
			if name == contender.Duehook && waiting > inMemory {
				continue
			}
			if err := r.pagesBeside(ctx, name, waiting, &table); err != nil {
				return nil, err
			}
		}
	}
	return &result{tables: []report.Table{table}}, nil
}

func (r *runner) pagesBeside(ctx context.Context, name string, waiting int, table *report.Table) (err error) {
	c, err := r.contend(ctx, name, r.setup)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	load := r.waitingJobs(waiting)
	load.Topic = func(n int) string { return fmt.Sprint("topic-", n%pageTopics) }
	if err := errors.Join(c.Load(ctx, load), c.Start(ctx)); err != nil {
		return err
	}
	node, ok := c.(contender.API)
	if !ok {
		return fmt.Errorf("%s has no API", name)
	}
	first := load.Job(0)
	all := pagesOf(&first)
	alone, beside := make([]stats.Sample, len(all)), make([]stats.Sample, len(all))
	answers := make([]string, len(all))
	for i := range all {
		if err := r.goBehind(ctx, node.Base(), &all[i]); err != nil {
			return err
		}
	}
	measure := func(into []stats.Sample) error {
		for range pageCalls {
			for i := range all {
				took, answer, err := r.ask(ctx, node.Base(), &all[i])
				if err != nil {
					return fmt.Errorf("%s: %w", all[i].title, err)
				}
				into[i], answers[i] = append(into[i], took.Seconds()*1_000), cmp.Or(answers[i], answer)
			}
		}
		return nil
	}
	if err := measure(alone); err != nil {
		return err
	}
	if _, _, err := r.ask(ctx, node.Base(), &page{path: "/v1/operations", body: cancelTopic}); err != nil {
		return err
	}
	if err := measure(beside); err != nil {
		return err
	}
	for i := range all {
		_, most := alone[i].Range()
		_, mostBeside := beside[i].Range()
		table.Add(all[i].title, contender.Title(name), stats.Count(waiting), stats.Number(alone[i].Median()), stats.Number(most),
			stats.Number(beside[i].Median()), stats.Number(mostBeside), answers[i])
	}
	return nil
}

// goBehind sets the cursor of a page behind others.
func (r *runner) goBehind(ctx context.Context, base string, p *page) error {
	for next := ""; p.behind > 0; p.behind-- {
		_, answer, err := r.call(ctx, base, &page{path: "/v1/jobs?limit=1000" + next})
		if err != nil {
			return err
		}
		var of struct {
			Next string `json:"next_cursor"`
		}
		if err := json.Unmarshal(answer, &of); err != nil || of.Next == "" {
			return err
		}
		if next = "&cursor=" + of.Next; p.behind == 1 {
			p.path += next
		}
	}
	return nil
}

// ask makes a call, and says how long it took and what was answered.
func (r *runner) ask(ctx context.Context, base string, p *page) (time.Duration, string, error) {
	took, body, err := r.call(ctx, base, p)
	return took, answerOf(body), err
}

func (r *runner) call(ctx context.Context, base string, p *page) (took time.Duration, body []byte, err error) {
	method := http.MethodGet
	if p.body != "" {
		method = http.MethodPost
	}
	req, err := http.NewRequestWithContext(ctx, method, base+p.path, strings.NewReader(p.body))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	began := r.clock.Now()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err = io.ReadAll(resp.Body)
	took = r.clock.Now().Sub(began)
	if err != nil {
		return 0, nil, err
	}
	if resp.StatusCode/100 != 2 {
		return 0, nil, fmt.Errorf("it is answered %d %.500s", resp.StatusCode, body)
	}
	return took, body, nil
}

// answerOf says in a word how much of the whole an answer has.
func answerOf(body []byte) string {
	var of struct {
		Data     []json.RawMessage `json:"data"`
		Next     *string           `json:"next_cursor"`
		Matched  int               `json:"matched"`
		Complete *bool             `json:"complete"`
	}
	if !bytes.HasPrefix(body, []byte("{")) || json.Unmarshal(body, &of) != nil {
		return "–"
	}
	switch {
	case of.Complete != nil && *of.Complete:
		return fmt.Sprintf("all %d", of.Matched)
	case of.Complete != nil:
		return fmt.Sprintf("at least %d", of.Matched)
	case of.Next != nil:
		return fmt.Sprintf("%d, more follow", len(of.Data))
	case of.Data != nil:
		return fmt.Sprintf("all %d", len(of.Data))
	}
	return "–"
}
