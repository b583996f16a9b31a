package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/duehook/duehook/bench/scenario"
)

// TestMain is also the processes that the benchmark starts: it runs its own
// binary, which is this one.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && slices.Contains([]string{"contender", "receiver"}, os.Args[1]) {
		main()
		return
	}
	os.Exit(m.Run())
}

// TestSoakAllScenarios runs everything in sizes that measure nothing.
func TestSoakAllScenarios(t *testing.T) {
	docs := t.TempDir()
	var document strings.Builder
	for _, name := range scenario.Names() {
		fmt.Fprintf(&document, "<!-- bench %s: begin -->\n<!-- bench %s: end -->\n", name, name)
	}
	path, sizing := filepath.Join(docs, "benchmarks.md"), filepath.Join(docs, "sizing.md")
	for _, p := range []string{path, sizing} {
		if err := os.WriteFile(p, []byte(document.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	if err := run(t.Context(), []string{"-size", "smoke", "-workers", "16", "-docs", docs}, &out); err != nil {
		t.Fatalf("%v after\n%s", err, &out)
	}
	written, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range scenario.Names() {
		if strings.Contains(string(written), fmt.Sprintf("<!-- bench %s: begin -->\n<!-- bench %s: end -->\n", name, name)) {
			t.Errorf("%s has written nothing", name)
		}
	}
	derived, err := os.ReadFile(sizing)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"drain", "registrations", "memory", "restart", "scale"} {
		if strings.Contains(string(derived), fmt.Sprintf("<!-- bench %s: begin -->\n<!-- bench %s: end -->\n", name, name)) {
			t.Errorf("%s has written nothing on sizing", name)
		}
	}
	if strings.Contains(string(written)+string(derived), "NaN") {
		t.Errorf("something was not measured:\n%s\n%s", written, derived)
	}
}

func TestBadArguments(t *testing.T) {
	for _, args := range [][]string{
		{"-size", "huge"},
		{"-only", "nothing"},
		{"-waiting", "many"},
		{"rest"},
		{"-unknown"},
		{"contender"},
		{"contender", "nobody"},
		{"receiver"},
	} {
		if err := run(context.Background(), args, new(bytes.Buffer)); err == nil {
			t.Errorf("%q is accepted", args)
		}
	}
}
