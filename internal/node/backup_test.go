package node

import (
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/duehook/duehook/internal/testing/must"
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

// Nobody else reads a backup, whatever the modes of its directory were, nor what a start finds in a data directory.
func TestModes(t *testing.T) {
	dir, copies := t.TempDir(), t.TempDir()
	for _, at := range []string{dir, copies} { // a volume that a mount made
		must.OK(t, os.Chmod(at, 0o755))
	}
	private := func(what, dir string) {
		t.Helper()
		files := 0
		must.OK(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			must.OK(t, err)
			info, err := d.Info()
			must.OK(t, err)
			files++
			if info.Mode().Perm()&0o077 != 0 {
				t.Errorf("%s: %s has the mode %v", what, path, info.Mode())
			}
			return nil
		}))
		if files < 7 {
			t.Errorf("%s has %d files", what, files)
		}
	}
	n := start(t, embedded(t, dir))
	if status, _, answer := n.call(http.MethodPost, "/v1/jobs", `{"topic":"t","id":"a","url":"http://a.example/","delay":"1h"}`); status != http.StatusCreated {
		t.Fatalf("%d %s", status, answer)
	}
	private("a new node", filepath.Join(dir, "jobs"))
	_, err := Backup(t.Context(), embedded(t, dir), copies)
	must.OK(t, err)
	private("a backup", copies)
	must.OK(t, n.shutdown())
	must.OK(t, filepath.WalkDir(copies, func(path string, d fs.DirEntry, err error) error { // restored with umask 022
		if d.IsDir() {
			return errors.Join(err, os.Chmod(path, 0o755))
		}
		return errors.Join(err, os.Chmod(path, 0o644))
	}))
	n = start(t, embedded(t, copies))
	private("a restored node", copies)
	must.OK(t, n.shutdown())
	private("a stopped node", copies)
	must.OK(t, os.Chmod(copies, 0o770)) // the group may: volumes of containers need it
	must.OK(t, os.Chmod(filepath.Join(copies, masterKeyFile), 0o664))
	n = start(t, embedded(t, copies))
	must.OK(t, n.shutdown())
	info, err := os.Stat(filepath.Join(copies, masterKeyFile))
	must.OK(t, err)
	must.Equal(t, "mode beside a group", info.Mode().Perm(), 0o660)
}
