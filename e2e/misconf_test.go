package e2e

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/duehook/duehook/e2e/receiver"
	"github.com/duehook/duehook/internal/testing/testenv"
)

// TestRedisThatCannotSave: Redis refuses all writes, because it failed to save its snapshot. Registrations are refused and
// the node is not ready. When Redis saves again, the jobs from before are delivered, and those that were refused do not exist.
func TestRedisThatCannotSave(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t, testenv.WithArgs("--save", "3600 1", "--enable-protected-configs", "yes"))
	n := startNodes(t, shipped, "a", server.URL())[0]
	admin := control(t, server)
	r := receiver.Start(t, receiver.Accept)
	const jobs = 20
	for i := range jobs {
		register(t, n.base(), registration{Topic: "before", ID: "j" + string(rune('a'+i)), URL: r.URL(), Delay: "3s"})
	}
	gone := filepath.Join(t.TempDir(), "gone")
	if err := os.Mkdir(gone, 0o700); err != nil {
		t.Fatal(err)
	}
	command(t, admin, "config", "set", "dir", gone)
	if err := os.Remove(gone); err != nil {
		t.Fatal(err)
	}
	command(t, admin, "bgsave")
	status := func(want string) func() bool {
		return func() bool {
			info, err := admin.Info(t.Context(), "persistence").Result()
			return err == nil && strings.Contains(info, "rdb_last_bgsave_status:"+want) && strings.Contains(info, "rdb_bgsave_in_progress:0")
		}
	}
	testenv.Eventually(t, testenv.Patience, status("err"), "Redis fails to save")

	refused := must(t, http.StatusServiceUnavailable, "POST", n.base()+"/v1/jobs", registration{Topic: "refused", ID: "no", URL: r.URL()})
	batch := must(t, http.StatusServiceUnavailable, "POST", n.base()+"/v1/jobs/batch", map[string]any{"jobs": []registration{{Topic: "refused", ID: "none", URL: r.URL()}}})
	for _, a := range []answer{refused, batch} {
		if !strings.Contains(string(a.body), "takes no jobs") || a.header.Get("Retry-After") == "" {
			t.Errorf("refused with %v %s", a.header, a.body)
		}
	}
	testenv.Eventually(t, testenv.Patience, func() bool {
		a, err := call(t.Context(), "GET", n.base()+"/readyz", nil, nil)
		return err == nil && a.status == http.StatusServiceUnavailable && strings.Contains(string(a.body), "MISCONF")
	}, "the node is not ready, and says why")
	must(t, http.StatusOK, "GET", n.base()+"/livez", nil)

	command(t, admin, "config", "set", "dir", server.Dir())
	command(t, admin, "bgsave")
	testenv.Eventually(t, testenv.Patience, status("ok"), "Redis saves")
	testenv.Eventually(t, deliverLimit, func() bool { return r.Jobs() == jobs }, "the jobs from before arrive")
	testenv.Eventually(t, testenv.Patience, func() bool {
		a, err := call(t.Context(), "GET", n.base()+"/readyz", nil, nil)
		return err == nil && a.status == http.StatusOK
	}, "the node is ready again")
	for _, id := range []string{"no", "none"} {
		must(t, http.StatusNotFound, "GET", n.base()+"/v1/jobs/refused/"+id, nil)
	}
}
