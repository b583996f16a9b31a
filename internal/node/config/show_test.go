package config

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/duehook/duehook/internal/documents"
	"github.com/duehook/duehook/internal/job"
)

func TestPrintTellsValuesAndOriginsAndNoSecret(t *testing.T) {
	c := load(t, []string{"--workers=9", "--api-keys=" + keyLine}, []string{
		"DUEHOOK_REDIS_URL=rediss://bob:hunter2@db:6379/1", "DUEHOOK_INBOX_URL=a=postgres://bob:hunter2@a/b,b=mysql://bob:hunter2@db/shop",
	})
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
		{"inbox-url", "a=postgres://bob:***@a/b,b=mysql://bob:***@db/shop", "environment"},
		{"api-keys", "ci", "(" + keyID + ")", "flag", "--api-keys"},
		{"addr", "127.0.0.1:7788", "default"},
		{"lease", "25s", "default", "(timeout", "+", "10s)"},
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
	urls := map[string][]string{"redis-url": {"redis://:hunter2@h:port", "http://:hunter2@h", "redis-cluster://u:hunter2@", "redis://u:hunter2@h/%zz"}}
	for _, rest := range []string{
		"h/d?password=hunter2", "h/d?sslmode=x&PassWord=hunter2", "h/d?pass%77ord=hunter2", "h/d?sslpassword=hunter2", "u:x@hunter2@h/d", "u:1/hunter2@h/d",
		"u:1?hunter2@h/d", "u:1#hunter2@h/d", "u:%hunter2@h/d", "u:%25hunter2@h:port/d", "u:hunter2@h/d?sslmode=x", "u:hunter2@:x/",
	} {
		for flag, start := range map[string]string{"postgres-url": "postgres://", "postgres-direct-url": "postgresql://", "inbox-url": "shop=postgres://"} {
			urls[flag] = append(urls[flag], start+rest)
		}
		urls["inbox-url"] = append(urls["inbox-url"], "shop=mysql://"+rest, "shop=redis://"+rest, "shop=mysql://x/d,shop=mysql://"+rest)
	}
	for flag, all := range urls {
		for _, url := range all {
			_, err := Load([]string{"--" + flag, url}, nil)
			if err == nil || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%s: %v", url, err)
			}
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
	golden(t, filepath.Join("..", "..", "..", "docs", "settings.md"), markdown())
}

var (
	rowOfSetting = regexp.MustCompile("(?m)^\\| `--([a-z-]+)` \\|.*\\| (?:`([^`]*)`)?[^|]* \\| (?:`([^`]*)` to `([^`]*)`)? \\| (.*) \\|$")
	numberInText = regexp.MustCompile(`\b\d[\d.]*`)
)

// TestSettingsPageIsTrue: a node takes the ends of each range in docs/settings.md and refuses what is beyond,
// the default is in the range, and a number in the text is one of these, unless it is listed here.
func TestSettingsPageIsTrue(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "settings.md"))
	if err != nil {
		t.Fatal(err)
	}
	others := map[string][]string{
		"addr":       {"0"},        // a free port
		"api-rate":   {"100", "1"}, // an example
		"tls-cert":   {"1.2"},
		"master-key": {strconv.Itoa(documents.MinMasterKeyBytes)},
		// The status of answers that tests in e2e want.
		"drain-delay": {"503"}, "redis-min-replicas": {"503"},
	}
	rows := rowOfSetting.FindAllStringSubmatch(string(page), -1)
	if len(rows) != len(settings) {
		t.Fatalf("%d rows found for %d settings: the pattern has gone wrong", len(rows), len(settings))
	}
	ranges := 0
	for _, row := range rows {
		name, def, least, most, text := row[1], row[2], row[3], row[4], row[5]
		for _, n := range numberInText.FindAllString(text, -1) {
			if n != "0" && !slices.Contains(append(others[name], least, most, def), n) {
				t.Errorf("--%s: nothing says that %s is true in: %s", name, n, text)
			}
		}
		if least == "" {
			continue
		}
		ranges++
		for value, want := range map[string]bool{least: true, most: true, def: true, beyond(t, name, least, -1): false, beyond(t, name, most, 1): false} {
			_, err := Load([]string{"--redis-url=redis://h:1", "--" + name + "=" + value}, nil)
			refused := err != nil && (strings.Contains(err.Error(), "--"+name+" must be between") || strings.Contains(err.Error(), "--"+name+": "))
			if refused == want {
				t.Errorf("--%s %s: refused %t, against docs/settings.md: %v", name, value, refused, err)
			}
		}
	}
	if ranges < 15 {
		t.Errorf("only %d ranges found: the pattern has gone wrong", ranges)
	}
}

// beyond is a value that is the least step above or below another one.
func beyond(t *testing.T, name, value string, sign int) string {
	t.Helper()
	at := slices.IndexFunc(settings, func(s setting) bool { return s.name == name })
	p := settings[at].at(new(Config))
	if err := parse(p, value); err != nil {
		t.Fatal(err)
	}
	switch v := p.(type) {
	case *time.Duration:
		return job.FormatDuration(*v + time.Duration(sign)*time.Millisecond)
	case *float64:
		return strconv.FormatFloat(*v+float64(sign)*0.01, 'g', -1, 64)
	}
	return strconv.FormatInt(int64(number(p))+int64(sign), 10)
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
		t.Errorf("%s is not current; write it anew with: go test ./internal/node/config -update\n%s", path, diff)
	}
}
