package v1

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/duehook/duehook/httpapi"
	"github.com/duehook/duehook/internal/inbox"
	"github.com/duehook/duehook/internal/testing/must"
)

// fakeInboxes are inboxes in memory. internal/inbox tests those in databases.
type fakeInboxes struct {
	faults *faultyStore

	mu   sync.Mutex
	rows map[string][]inbox.Row
}

func newFakeInboxes(faults *faultyStore) *fakeInboxes {
	f := &fakeInboxes{faults: faults, rows: map[string][]inbox.Row{}}
	for _, name := range []string{"orders", "walked"} {
		for id := range int64(3) {
			f.rows[name] = append(f.rows[name],
				inbox.Row{ID: 2*id + 1, Key: "k", Request: `{"topic":"t"}`, CreatedAt: 1767258000000, FailedAt: 1767258001000, Error: "invalid_request: /url"},
				inbox.Row{ID: 2*id + 2, Key: "k", Request: `{"topic":"t"}`, CreatedAt: 1767258000000, WaitsFor: "t"})
		}
	}
	return f
}

func (f *fakeInboxes) Statuses(context.Context) []inbox.Status {
	_ = f.faults.err() // or a panic
	return []inbox.Status{
		{Name: "orders", Database: "postgres", Topics: []string{"t"}, Reading: true, Fresh: 1, Waiting: 3, Failed: 3},
		{Name: "walked", Database: "mysql", Error: "connection refused"},
	}
}

func (f *fakeInboxes) SetAside(_ context.Context, name string, thatWait bool, after int64, limit int) (found []inbox.Row, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.rows[name] {
		if r.ID > after && (r.WaitsFor != "") == thatWait && len(found) < limit {
			found = append(found, r)
		}
	}
	return found, f.err(name)
}

func (f *fakeInboxes) Retry(_ context.Context, name string, ids []int64) (int64, error) {
	return f.remove(name, ids)
}

func (f *fakeInboxes) Drop(_ context.Context, name string, ids []int64) (int64, error) {
	return f.remove(name, ids)
}

func (f *fakeInboxes) remove(name string, ids []int64) (int64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.err(name); err != nil {
		return 0, err
	}
	before := len(f.rows[name])
	f.rows[name] = slices.DeleteFunc(f.rows[name], func(r inbox.Row) bool {
		return r.WaitsFor == "" && (len(ids) == 0 || slices.Contains(ids, r.ID))
	})
	return int64(before - len(f.rows[name])), nil
}

func (f *fakeInboxes) err(name string) error {
	var missing error
	if f.rows[name] == nil {
		missing = inbox.ErrNotFound
	}
	return cmp.Or(f.faults.err(), missing)
}

func coverInboxes(a *keyedAPI) {
	const list, some = "/v1/inboxes/orders/rows", `{"ids":[1]}`
	a.want(200, "GET", "/v1/inboxes", "")
	calls := map[string]string{"GET /rows": "", "POST /retry": some, "POST /drop": some}
	each := func(want httpapi.Code, inbox string) {
		for call, body := range calls {
			method, path, _ := strings.Cut(call, " ")
			a.wantProblem(want, method, "/v1/inboxes/"+inbox+path, body)
		}
	}
	a.want(200, "GET", list, "")
	a.want(200, "POST", "/v1/inboxes/orders/retry", some)
	a.want(200, "POST", "/v1/inboxes/orders/drop", some)
	each(httpapi.CodeInboxNotFound, "missing")
	a.faults.set(func() error { return fmt.Errorf("%w: orders: connection refused", inbox.ErrUnavailable) })
	each(httpapi.CodeInboxUnavailable, "orders")
	a.faults.set(func() error { return errors.New("a defect") })
	each(httpapi.CodeInternalError, "orders")
	a.faults.set(func() error { panic("a defect") })
	a.wantProblem(httpapi.CodeInternalError, "GET", "/v1/inboxes", "")
	a.faults.set(nil)
}

func TestInboxes(t *testing.T) {
	a := newAPI(t)
	ids := func(query string) (all []float64) {
		for _, r := range a.want(200, "GET", "/v1/inboxes/orders/rows"+query, "")["data"].([]any) {
			all = append(all, r.(map[string]any)["id"].(float64))
		}
		return all
	}
	must.Equal(t, "failed rows", fmt.Sprint(ids("")), "[1 3 5]")
	must.Equal(t, "failed rows", fmt.Sprint(ids("?state=failed&limit=2")), "[1 3]")
	must.Equal(t, "rows that wait", fmt.Sprint(ids("?state=waiting")), "[2 4 6]")
	a.refuses("GET", "/v1/inboxes/orders/rows", map[string]string{"?state=fresh": "?state", "?cursor=!": "?cursor", "?cursor=eA": "?cursor"})
	many := `{"ids":[` + strings.Repeat("1,", inbox.MaxIDs) + `1]}`
	a.refuses("POST", "/v1/inboxes/orders/retry", map[string]string{`{}`: "", `{"ids":[]}`: "", `{"all":false}`: "", `{"ids":[1],"all":true}`: "", `{"ids":["1"]}`: "/ids/0", `{"ids":[1.5]}`: "/ids/0", many: "/ids"})
	must.Equal(t, "rows that are retried", a.want(200, "POST", "/v1/inboxes/orders/retry", `{"ids":[1,2,9000000000]}`)["rows"].(float64), 1)
	must.Equal(t, "failed rows", fmt.Sprint(ids("")), "[3 5]")
	must.Equal(t, "rows that are dropped", a.want(200, "POST", "/v1/inboxes/orders/drop", `{"all":true}`)["rows"].(float64), 2)
	must.Equal(t, "failed rows", len(ids("")), 0)
}
