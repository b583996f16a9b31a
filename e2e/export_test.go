package e2e

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/duehook/duehook/e2e/receiver"
	"github.com/duehook/duehook/internal/testing/testenv"
)

// TestNightlyExport: the recipe brings back what it says, after Redis has lost everything.
func TestNightlyExport(t *testing.T) {
	t.Parallel()
	export, restore := nightlyCommands(t)
	server := testenv.StartRedis(t)
	n := startNodes(t, shipped, "a", server.URL(), "--retry-steps", "1h")[0]
	r := receiver.Start(t, func(d receiver.Delivery) receiver.Answer {
		if d.ID == "retrying" || d.ID == "dead" {
			return receiver.Answer{Status: http.StatusInternalServerError}
		}
		return receiver.Answer{}
	})
	add := func(id, delay string, retry map[string]any) jobView {
		return register(t, n.base(), registration{Topic: "orders", ID: id, URL: r.URL(), Delay: delay, Body: id, Retry: retry})
	}
	reaches := func(id, state string) {
		t.Helper()
		testenv.Eventually(t, testenv.Patience, func() bool { return getJob(t, n.base(), "orders", id).State == state }, id+" is "+state)
	}
	waiting := add("waiting", "2h", nil)
	add("changed", "1h", nil)
	add("ends-later", "1h", nil)
	add("cancelled", "1h", nil)
	must(t, http.StatusOK, "DELETE", n.base()+"/v1/jobs/orders/cancelled", nil)
	add("delivered", "0s", nil)
	add("dead", "0s", map[string]any{"limit": 0})
	add("retrying", "0s", nil)
	reaches("delivered", "delivered")
	reaches("dead", "dead")
	reaches("retrying", "retrying")
	must(t, http.StatusCreated, "PUT", n.base()+"/v1/topics/orders", map[string]any{"capacity": 100})

	dir := t.TempDir()
	shell(t, n, dir, export)

	must(t, http.StatusOK, "PATCH", n.base()+"/v1/jobs/orders/changed", map[string]any{"delay": "3h"})
	must(t, http.StatusOK, "POST", n.base()+"/v1/jobs/orders/ends-later/run", nil)
	reaches("ends-later", "delivered")
	add("registered-later", "1h", nil)

	server.Restart() // it kept nothing on disk
	n.awaitReady()
	if left := listJobs(t, n.base()+"/v1/jobs?limit=100"); len(left) > 0 {
		t.Fatalf("Redis still has %v", left)
	}
	for range 2 { // an import can be repeated
		shell(t, n, dir, restore)
	}

	var back []string
	for _, j := range listJobs(t, n.base()+"/v1/jobs?limit=100") {
		back = append(back, fmt.Sprint(j.ID, " ", j.State, " ", j.Attempts))
	}
	slices.Sort(back)
	if diff := cmp.Diff([]string{"changed waiting 0", "ends-later waiting 0", "retrying waiting 0", "waiting waiting 0"}, back); diff != "" {
		t.Errorf("the jobs after the import (-want +got):\n%s", diff)
	}
	if now := getJob(t, n.base(), "orders", "waiting"); !now.DueAt.Equal(waiting.DueAt) {
		t.Errorf("the job was due at %v, and is now at %v", waiting.DueAt, now.DueAt)
	}
	var topic struct {
		Capacity int `json:"capacity"`
	}
	must(t, http.StatusOK, "GET", n.base()+"/v1/topics/orders", nil).into(t, &topic)
	if topic.Capacity != 0 {
		t.Errorf("the topic has the capacity %d: the recipe says that settings are lost", topic.Capacity)
	}
	must(t, http.StatusOK, "POST", n.base()+"/v1/jobs/orders/ends-later/run", nil)
	testenv.Eventually(t, testenv.Patience, func() bool { return len(r.Of("orders", "ends-later")) == 2 }, "what ended after the export is sent again")
}

// nightlyCommands are the commands of the recipe.
func nightlyCommands(t *testing.T) (export, restore string) {
	t.Helper()
	recipes, err := os.ReadFile("../docs/howto/export.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllSubmatch(recipes, -1)
	if len(blocks) != 2 {
		t.Fatalf("the recipe has %d blocks of commands, want 2", len(blocks))
	}
	return string(blocks[0][1]), string(blocks[1][1])
}

// shell runs commands of the documents in a directory, against a node.
func shell(t *testing.T, n *node, dir, script string) {
	t.Helper()
	binary, err := shipped()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), testenv.Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-euc", script)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "DUEHOOK_URL="+n.base(), "PATH="+filepath.Dir(binary)+":"+os.Getenv("PATH"), "XDG_CONFIG_HOME="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
}
