package node

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A copy of a node, running or not, has its jobs and keys, and a node starts on it.
func TestBackup(t *testing.T) {
	dir, copies := t.TempDir(), t.TempDir()
	n := start(t, embedded(t, dir))
	status, _, answer := n.call(http.MethodPost, "/v1/jobs", `{"topic":"t","id":"a","url":"http://a.example/","delay":"1h"}`)
	if status != http.StatusCreated {
		t.Fatalf("%d %s", status, answer)
	}
	for _, name := range []string{"running", "stopped"} {
		to := filepath.Join(copies, name)
		done, err := Backup(t.Context(), embedded(t, dir), to)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !slices.Contains(done.Copied, masterKeyFile) || done.Dir != to || !strings.Contains(done.String(), masterKeyFile) || !strings.Contains(done.String(), to) {
			t.Errorf("it says %s", done)
		}
		if err := n.shutdown(); err != nil {
			t.Fatal(err)
		}
		n = start(t, embedded(t, to))
		if got := n.state("t", "a"); got != "waiting" {
			t.Errorf("on the copy of a %s node the job is %q", name, got)
		}
	}
}

func TestBackupRefuses(t *testing.T) {
	used := t.TempDir()
	if err := os.WriteFile(filepath.Join(used, "x"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for to, want := range map[string]string{used: "is not empty", filepath.Join(t.TempDir(), "copy"): "--data-dir"} {
		_, err := Backup(t.Context(), embedded(t, t.TempDir()), to)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if _, err := Backup(t.Context(), load(t, "--redis-url=redis://h"), used); err == nil {
		t.Error("it backs up Redis")
	}
}
