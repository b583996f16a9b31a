package nearest_test

import (
	"strings"
	"testing"

	"github.com/duehook/duehook/internal/kit/nearest"
)

func TestName(t *testing.T) {
	known := []string{"url", "at", "id", "topic", "body", "body_text", "biz_key", "delay", "content_type", "on_conflict"}
	for name, want := range map[string]string{
		"dealy": "delay", "deley": "delay", "topics": "topic", "bizkey": "biz_key", "bizKey": "biz_key", "biz-key": "biz_key",
		"contentType": "content_type", "ID": "id", "uri": "url", "on_conflct": "on_conflict", "body_txt": "body_text",
		"aa": "at", "ad": "at", // or id: the first of those
		"": "", "zzz": "", "colour": "", "订单": "", "payload": "", "callback": "", strings.Repeat("a", 1<<20): "",
	} {
		if got := nearest.Name(name, known); got != want {
			t.Errorf("%.20q: %q, want %q", name, got, want)
		}
	}
	if got := nearest.Hint("dealy", known, "--"); got != "; did you mean --delay?" {
		t.Errorf("%q", got)
	}
	if got := nearest.Hint("zzz", known, "--"); got != "" {
		t.Errorf("%q", got)
	}
}
