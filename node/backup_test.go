package node

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
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
		var said strings.Builder
		to := filepath.Join(copies, name)
		if err := Backup(t.Context(), embedded(t, dir), to, &said); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !strings.Contains(said.String(), masterKeyFile) || !strings.Contains(said.String(), to) {
			t.Errorf("it says %s", &said)
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
		err := Backup(t.Context(), embedded(t, t.TempDir()), to, io.Discard)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if err := Backup(t.Context(), load(t, "--redis-url=redis://h"), used, io.Discard); err == nil {
		t.Error("it backs up Redis")
	}
}
