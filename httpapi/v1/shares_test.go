package v1

import (
	"errors"
	"testing"

	"github.com/duehook/duehook/httpapi"
	"github.com/duehook/duehook/internal/kit/memory"
	"github.com/duehook/duehook/internal/services/access"
)

// One key has at most half of the memory, for streams of events and for everything else.
func TestOneKeyLeavesRoom(t *testing.T) {
	a := newKeyedAPI(t)
	other, key := a.newKey(access.Draft{Scope: "read"})
	a.accept(a.admin, key)
	before := a.budget.Held()
	var held []*memory.Hold
	for range 4 {
		h := a.budget.Hold(nil)
		if err := errors.Join(h.As(a.admin.ID), h.Add(a.budget.Share()-24<<10)); err != nil {
			t.Fatal(err)
		}
		held = append(held, h)
	}
	a.wantProblem(httpapi.CodeServerBusy, "GET", eventsPath, "")
	a.wantProblem(httpapi.CodeServerBusy, "GET", "/v1/jobs?limit=1000", "")
	for _, path := range []string{eventsPath, "/v1/jobs?limit=1000"} {
		if got := a.call("HEAD", path, "", "Authorization", "Bearer "+other); got.Code != 200 {
			t.Errorf("%s by another key: %d %s", path, got.Code, got.Body)
		}
	}
	for _, h := range held {
		h.Free()
	}
	if n := a.budget.Held(); n != before {
		t.Errorf("%d bytes are held after all calls have ended", n-before)
	}
}
