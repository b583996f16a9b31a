package v1

import (
	"context"
	"testing"

	"github.com/duehook/duehook/httpapi"
	"github.com/duehook/duehook/internal/services/access"
	"github.com/duehook/duehook/scheduler/pulls"
)

// One key has at most half of the streams of events, and its waiting calls are its own.
func TestOneKeyLeavesPlaces(t *testing.T) {
	a := newKeyedAPI(t)
	other, key := a.newKey(access.Draft{Scope: "read"})
	a.accept(a.admin, key)
	for range maxStreams / 2 {
		if a.v1.streams.Take(a.admin.ID) == nil {
			t.Fatal("a stream is refused")
		}
	}
	a.wantProblem(httpapi.CodeTooManyStreams, "GET", eventsPath, "")
	if got := a.call("HEAD", eventsPath, "", "Authorization", "Bearer "+other); got.Code != 200 {
		t.Errorf("another key: %d %s", got.Code, got.Body)
	}
	if held := a.v1.streams.Held(); held != maxStreams/2 {
		t.Errorf("%d places are held after a stream has ended", held)
	}

	seen := &seenPulls{Pulls: a.v1.Pulls}
	a.v1.Pulls = seen
	a.want(200, "POST", "/v1/topics/t/pull", "")
	if seen.by != a.admin.ID {
		t.Errorf("a call waits by the key %q, want %q", seen.by, a.admin.ID)
	}
}

// seenPulls notes by which key a call came.
type seenPulls struct {
	Pulls
	by string
}

func (s *seenPulls) Pull(ctx context.Context, r pulls.Request) ([]pulls.Leased, error) {
	s.by = r.By
	return s.Pulls.Pull(ctx, r)
}
