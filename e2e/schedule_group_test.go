package e2e

import (
	"net/http"
	"strings"
	"testing"

	"github.com/duehook/duehook/e2e/receiver"
	"github.com/duehook/duehook/internal/testing/testenv"
)

// TestScheduleForAGroup: each occurrence of a schedule, and each run by hand, makes one job for each member of a group, on
// all stores. Where nodes share the store, another one registers and delivers.
func TestScheduleForAGroup(t *testing.T) {
	t.Parallel()
	postgres := testenv.Postgres(t, true)
	redis := testenv.StartRedis(t)
	for name, on := range map[string][]string{
		"disk": {"--data-dir", t.TempDir()}, "Redis": {"--redis-url", redis.URL()}, "PostgreSQL": {"--postgres-url", postgres.URL("postgres")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first := newNode(t, shipped, "first", on...)
			first.start()
			other := first
			if name != "disk" {
				other = newNode(t, shipped, "other", on...)
				other.start()
			}
			forAGroup(t, first, other)
		})
	}
}

func forAGroup(t *testing.T, n, other *node) {
	r := receiver.Start(t, receiver.Accept)
	members := []map[string]any{}
	for _, name := range []string{"mail", "crm", "log"} {
		members = append(members, map[string]any{"name": name, "url": r.URL()})
	}
	must(t, http.StatusCreated, "PUT", n.base()+"/v1/groups/g", map[string]any{"members": members})
	must(t, http.StatusCreated, "PUT", n.base()+"/v1/schedules/s", map[string]any{
		"every": "1s", "max_occurrences": 2, "job": map[string]any{"topic": "fan", "group": "g", "body": 1},
	})
	var fan struct {
		Group   string    `json:"group"`
		GroupID string    `json:"group_id"`
		Jobs    []jobView `json:"jobs"`
	}
	key := map[string]string{"Idempotency-Key": "once"}
	answered := func(n *node, status int) string {
		t.Helper()
		a, err := call(t.Context(), "POST", n.base()+"/v1/schedules/s/run", key, nil)
		if err != nil || a.status != status {
			t.Fatalf("run: %d %v, want %d: %s", a.status, err, status, a.body)
		}
		a.into(t, &fan)
		return fan.GroupID
	}
	id := answered(other, http.StatusCreated)
	if again := answered(n, http.StatusOK); again != id || fan.Group != "g" || len(fan.Jobs) != 3 || !strings.HasPrefix(fan.Jobs[0].ID, id+":") {
		t.Errorf("first %s, then %+v", id, fan)
	}
	told, _ := duehook(t, n, "schedule", "run", "s", "--url", n.base())
	if lines := strings.Count(told, "\n"); lines != 3 || !strings.Contains(told, ":crm") {
		t.Errorf("the command printed %d lines:\n%s", lines, told)
	}
	const fired, byHand, each = 2, 2, 3
	testenv.Eventually(t, deliverLimit, func() bool { return r.Jobs() == (fired+byHand)*each }, "all jobs to arrive")
	var s struct {
		Counters struct{ Fired, Manual int } `json:"counters"`
	}
	testenv.Eventually(t, deliverLimit, func() bool {
		must(t, http.StatusOK, "GET", n.base()+"/v1/schedules/s", nil).into(t, &s)
		return s.Counters.Fired == fired && s.Counters.Manual == byHand
	}, "occurrences and runs to count once each")
	if n := r.Count(); n != (fired+byHand)*each {
		t.Errorf("%d deliveries", n)
	}
	must(t, http.StatusOK, "DELETE", n.base()+"/v1/groups/g", nil)
	if a := must(t, http.StatusUnprocessableEntity, "POST", n.base()+"/v1/schedules/s/run", nil); !strings.Contains(string(a.body), "names a group that is missing") {
		t.Errorf("%s", a.body)
	}
}
