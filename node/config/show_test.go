package config

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/duehook/duehook/job"
)

func TestPrintTellsValuesAndOriginsAndNoSecret(t *testing.T) {
	c := load(t, []string{"--workers=9", "--api-keys=" + keyLine}, []string{"DUEHOOK_REDIS_URL=rediss://bob:hunter2@db:6379/1"})
	var out bytes.Buffer
	if err := c.Print(&out, false); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(out.String(), "hunter2") || strings.Contains(out.String(), keyDigest) {
		t.Errorf("a password or digest is shown:\n%s", &out)
	}
	for _, want := range [][]string{
		{"workers", "9", "flag", "--workers"},
		{"redis-url", "rediss://bob:***@db:6379/1", "environment", "DUEHOOK_REDIS_URL"},
		{"api-keys", "ci", "(" + keyID + ")", "flag", "--api-keys"},
		{"addr", "127.0.0.1:7788", "default"},
		{"lease", "20s", "default", "(timeout", "+", "10s)"},
		{"allow-cidrs", "-", "default"},
	} {
		if !strings.Contains(strings.Join(strings.Fields(out.String()), " "), strings.Join(want, " ")) {
			t.Errorf("no line %v in:\n%s", want, &out)
		}
	}
	if lines := strings.Count(out.String(), "\n"); lines != len(settings)+1 {
		t.Errorf("%d lines for %d settings", lines, len(settings))
	}
	out.Reset()
	if err := c.Print(&out, true); err != nil || strings.Count(out.String(), "\n") != len(settings) ||
		!strings.Contains(out.String(), `{"setting":"redis-url","value":"rediss://bob:***@db:6379/1","origin":"environment DUEHOOK_REDIS_URL"}`+"\n") {
		t.Errorf("as JSON: %v\n%s", err, &out)
	}
}

// A refused URL must not bring its password into the logs.
func TestErrorsHoldNoSecret(t *testing.T) {
	for _, url := range []string{"redis://:hunter2@h:port", "http://:hunter2@h", "redis-cluster://u:hunter2@", "redis://u:hunter2@h/%zz"} {
		_, err := Load([]string{"--redis-url", url}, nil)
		if err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", url, err)
		}
	}
	if _, err := Load([]string{"--api-keys", "scope=read token=hunter2,hunter2"}, nil); err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("keys: %v", err)
	}
}

func TestRedact(t *testing.T) {
	for url, want := range map[string]string{
		"":                                     "",
		"redis://h:6379/0":                     "redis://h:6379/0",
		"redis://bob@h":                        "redis://bob@h",
		"redis://:s3cret@h:6379/0":             "redis://:***@h:6379/0",
		"redis://u:p@ss/w?rd@h:6379/0":         "redis://u:***@h:6379/0",
		"redis-cluster://u:pw@a:1,b:2":         "redis-cluster://u:***@a:1,b:2",
		"redis-sentinel://main@a:1,b:2":        "redis-sentinel://main@a:1,b:2",
		"redis-sentinel://u:p@ss@main@a:1,b:2": "redis-sentinel://u:***@main@a:1,b:2",
		"mysql://u:s3cret@h:3306/d":            "mysql://u:***@h:3306/d",
	} {
		if got := Redact(url); got != want {
			t.Errorf("%s: %s, want %s", url, got, want)
		}
	}
}

func TestDurationsReadBackAsWritten(t *testing.T) {
	for _, d := range []time.Duration{0, time.Millisecond, 1500 * time.Millisecond, time.Minute, 36 * time.Hour, 366 * 24 * time.Hour} {
		text := job.FormatDuration(d)
		if got, err := parseDuration(text); err != nil || got != d {
			t.Errorf("%v is written %q and read as %v, %v", d, text, got, err)
		}
	}
}

func TestUsageIsGolden(t *testing.T) {
	golden(t, filepath.Join("testdata", "usage.golden"), Usage())
}

func TestSettingsPageIsCurrent(t *testing.T) {
	golden(t, filepath.Join("..", "..", "docs", "settings.md"), markdown())
}

func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s is not current; write it anew with: go test ./node/config -update\n%s", path, diff)
	}
}
