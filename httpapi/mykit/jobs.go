package mykit

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/duehook/duehook/httpapi"
	"github.com/duehook/duehook/internal/app/operations"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

// maxFound bounds the jobs of one id.
const maxFound = 1000

// find returns the dialect's jobs with an id of a client, one of a topic.
func (a *api) find(c *httpapi.Call, clientID string) ([]job.Job, error) {
	q := store.Query{IndexedID: nameOf(clientID), Dialect: Name, Only: c.Topics(), Limit: maxFound}
	for found := []job.Job(nil); ; {
		page, err := a.App.List(c.Context(), q)
		if err != nil {
			return nil, err
		}
		found = append(found, page.Jobs...)
		if q.Cursor = page.Next; q.Cursor == "" || len(found) >= maxFound {
			return found, nil
		}
	}
}

// same allows a change only of the job that was found.
func same(found *job.Job) func(*job.Job) error {
	return func(j *job.Job) error {
		if j.UID != found.UID {
			return store.ErrNotFound
		}
		return nil
	}
}

// changed is the error of a change; nil if the job went, ended or was taken up before.
func changed(err error) error {
	for _, over := range []error{store.ErrNotFound, job.ErrFinished, job.ErrNotEnded, job.ErrInFlight} {
		if errors.Is(err, over) {
			return nil
		}
	}
	return err
}

// delete answers GET /delete. It succeeds, too, if there is nothing to delete.
func (a *api) delete(c *httpapi.Call) error {
	id := c.Query().Get("jobId")
	if id == "" {
		return fail(c, noJobID)
	}
	c.Target = httpapi.Shorten(id)
	found, err := a.find(c, id)
	if err != nil {
		return err
	}
	for i := range found {
		if j := &found[i]; !j.State.Final() || j.State == job.Dead {
			if _, _, err := a.App.Cancel(c.Context(), j.Key, same(j)); changed(err) != nil {
				return err
			}
		}
	}
	return succeed(c, nil)
}

// restoreJob answers GET /reStoreJob: the job waits for its time again, or goes now if that has
// passed, whatever became of it.
func (a *api) restoreJob(c *httpapi.Call) error {
	q := c.Query()
	if !q.Has("jobId") {
		return badRequest("Required String parameter 'jobId' is not present.")
	}
	id := q.Get("jobId")
	c.Target = httpapi.Shorten(id)
	found, err := a.find(c, id)
	if err == nil && len(found) == 0 {
		err = store.ErrNotFound
	}
	if err != nil {
		return err
	}
	for i := range found {
		if err := a.restoreOne(c.Context(), &found[i]); changed(err) != nil {
			return err
		}
	}
	return succeed(c, nil)
}

func (a *api) restoreOne(ctx context.Context, j *job.Job) (err error) {
	switch {
	case j.State.Final():
		var d *job.Draft
		if j.DueAt > job.InstantOf(a.Clock.Now()) {
			d = &job.Draft{At: &j.DueAt}
		}
		_, err = a.App.Replay(ctx, j.Key, d, same(j))
	case j.State == job.Retrying:
		_, err = a.App.Run(ctx, j.Key, same(j))
	}
	return err
}

// booleans are the texts that the original's framework reads as boolean.
var booleans = map[string]bool{
	"true": true, "on": true, "yes": true, "1": true, "": true, // the default
	"false": false, "off": false, "no": false, "0": false,
}

// restoreAll answers GET /reStore. The store has all unfinished jobs, so there is nothing to read
// anew: jobs that wait for a retry go now.
func (a *api) restoreAll(c *httpapi.Call) error {
	overdue, known := booleans[strings.ToLower(strings.TrimSpace(c.Query().Get("expire")))]
	if !known {
		return badRequest("expire must be true or false.")
	}
	start := a.Clock.Now()
	d := a.ofDialect(c, operations.Cancel)
	p, err := a.Operations.Preview(c.Context(), d)
	if err != nil {
		return err
	}
	if overdue {
		d.Action, d.Filter.States = string(operations.Run), []job.State{job.Retrying}
		if _, err := a.complete(c, d); err != nil {
			return err
		}
	}
	return a.report(c, start, "恢复", p.Matched)
}

// clearAll answers GET /clearAll.
func (a *api) clearAll(c *httpapi.Call) error {
	start := a.Clock.Now()
	o, err := a.complete(c, a.ofDialect(c, operations.Cancel))
	if err != nil {
		return err
	}
	return a.report(c, start, "删除", o.Matched)
}

// ofDialect is an operation on the caller's unfinished jobs of the dialect.
func (a *api) ofDialect(c *httpapi.Call, action operations.Action) operations.Draft {
	d := operations.Draft{Action: string(action), Rate: new(operations.MaxRate), Filter: store.Query{Dialect: Name, Only: c.Topics()}}
	if caller, keyed := c.Caller(); keyed {
		d.By = caller.KeyName
	}
	return d
}

const (
	// patience is how long a call waits for its operation, which goes on after it.
	patience = 7 * time.Second
	// pause is the time between looks at an operation.
	pause = 20 * time.Millisecond
)

// complete begins an operation, and returns it when it has ended or the call's time is over.
func (a *api) complete(c *httpapi.Call, d operations.Draft) (operations.Operation, error) {
	o, err := a.Operations.Create(c.Context(), d)
	if err != nil {
		return o, err
	}
	c.Target = o.ID
	c.SetLocation("/v1/operations/" + o.ID)
	ctx, cancel := context.WithTimeout(c.Context(), patience)
	defer cancel()
	for !o.State.Ended() && job.Sleep(ctx, a.Pace, pause) == nil {
		if o, err = a.Operations.Get(c.Context(), o.ID); err != nil {
			return o, err
		}
	}
	return o, nil
}

// report answers with the text of the original: how long it took, and the number of jobs.
func (a *api) report(c *httpapi.Call, start time.Time, did string, n int64) error {
	return succeed(c, fmt.Sprintf("花费了%d ms，%s %d 行数据", a.Clock.Now().Sub(start).Milliseconds(), did, n))
}
