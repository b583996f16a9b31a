package access

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/duehook/duehook/internal/testing/testenv"
)

func auditLine(t *testing.T, c Change) map[string]any {
	t.Helper()
	var log bytes.Buffer
	c.Log(t.Context(), slog.New(slog.NewJSONHandler(&log, nil)))
	var line map[string]any
	if err := json.Unmarshal(log.Bytes(), &line); err != nil {
		t.Fatalf("%v: %s", err, log.String())
	}
	delete(line, "time")
	return line
}

func TestAuditLines(t *testing.T) {
	token, key := issue(t)
	who := mustAuthenticate(t, newKeys(t, Options{Keys: []Key{key}}), token)
	got := auditLine(t, Change{
		Who: who, What: "POST /v1/jobs/{topic}/{id}/run", Target: "order-timeout/order-8812", Result: "job_finished",
		Client: "192.0.2.7", RequestID: "r-1",
	})
	want := map[string]any{
		"level": "INFO", "msg": "audit", "who": map[string]any{"key_id": key.ID, "key_name": "ci"},
		"what": "POST /v1/jobs/{topic}/{id}/run", "target": "order-timeout/order-8812", "result": "job_finished",
		"client": "192.0.2.7", "request_id": "r-1",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestAuditBoundsWhatCallersWrite(t *testing.T) {
	token := newToken().Reveal()
	for name, target := range map[string]string{
		"long":          strings.Repeat("x", 1<<16),
		"cut in a rune": strings.Repeat("x", maxTarget-1) + "€€€",
		"not UTF-8":     "\xff\xfe",
		"lines":         "a\nlevel=INFO msg=audit",
		"a token":       "t/" + token,
		"a URL":         "https://user:pass@host/?q=1",
	} {
		got, _ := auditLine(t, Change{Target: target})["target"].(string)
		if len(got) > maxTarget+3 || !strings.HasPrefix(got, target[:1]) && name != "not UTF-8" ||
			strings.Contains(got, secretOf(token)[:8]) || strings.Contains(got, "pass") {
			t.Errorf("%s: %.400q", name, got)
		}
	}
}

// Anybody can make calls without a key: their lines are bounded, those of keys are not.
func TestAuditBoundsAnonymousCallers(t *testing.T) {
	clock := testenv.NewClock(time.Date(2026, 1, 1, 9, 0, 0, 0, time.UTC))
	var log bytes.Buffer
	a := NewAudit(slog.New(slog.NewJSONHandler(&log, nil)), clock)
	logged := func(n int, who Principal) (audits, left int) {
		t.Helper()
		log.Reset()
		for range n {
			a.Log(t.Context(), &Change{Who: who, Result: "unauthorized"})
		}
		for line := range strings.Lines(log.String()) {
			var is struct {
				Msg   string
				Lines int
			}
			if err := json.Unmarshal([]byte(line), &is); err != nil {
				t.Fatal(err)
			}
			if is.Msg == "audit" {
				audits++
			}
			left += is.Lines
		}
		return audits, left
	}
	for _, tc := range []struct {
		name         string
		after        time.Duration
		calls        int
		who          Principal
		audits, left int
	}{
		{"more than are logged", 0, anonymousLines + 500, Principal{}, anonymousLines, 0},
		{"a second later", time.Second, 7, Principal{}, 0, 0},
		{"with a key", 0, 100, Principal{KeyID: "k"}, 100, 0},
		{"with a key, a minute later", anonymousEvery, 1, Principal{KeyID: "k"}, 1, 507},
		{"again", 0, anonymousLines + 1, Principal{}, anonymousLines, 0},
		{"after the clock went back", -time.Hour, 1, Principal{}, 1, 1},
	} {
		clock.Advance(tc.after)
		if audits, left := logged(tc.calls, tc.who); audits != tc.audits || left != tc.left {
			t.Errorf("%s: %d lines and %d left out, want %d and %d", tc.name, audits, left, tc.audits, tc.left)
		}
	}
}
