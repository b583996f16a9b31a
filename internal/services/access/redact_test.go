package access

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestRedact(t *testing.T) {
	token := newToken()
	text, masked := token.Reveal(), "dh_"+token.id()+"_***"
	for given, want := range map[string]string{
		"":                           "",
		"nothing to hide: 10% of it": "nothing to hide: 10% of it",
		"basic knowledge, bearer of news, bearer authentication": "basic knowledge, bearer of news, bearer ***",
		"order-timeout/dh_1": "order-timeout/dh_1",

		text:                                masked,
		"token=" + text + ", twice " + text: "token=" + masked + ", twice " + masked,
		text[:30]:                           masked, // cut off
		strings.ToUpper(text[:0]) + text + "more_of_it": masked,
		"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw":        "whsec_***",
		"Authorization: Bearer abcdefghijklmnop":        "Authorization: Bearer ***",
		"authorization: basic dXNlcjpwYXNzd29yZA==":     "authorization: basic ***",

		"https://shop.example/hook":                     "https://shop.example/hook",
		"https://shop.example:8443/hook?sig=1&to=x":     "https://shop.example:8443/hook?***",
		"https://shop.example#frag":                     "https://shop.example#***",
		"https://user:pass@shop.example/hook?sig=1":     "https://***@shop.example/hook?***",
		"https://user@shop.example":                     "https://***@shop.example",
		"redis://:p/w@redis:6379/0":                     "redis://***@redis:6379/0",
		"redis://:p@w@redis:6379/0":                     "redis://***@redis:6379/0",
		"redis://:p?w@redis:6379/0":                     "redis://***",
		"redis://:p#w@redis:6379/0":                     "redis://***",
		"https://shop.example/?mail=a@b.example":        "https://***",
		"redis-sentinel://u:pw@main@h1:1,h2:2/0":        "redis-sentinel://***@h1:1,h2:2/0",
		`Post "https://h.example/p?t=1": dial tcp: no`:  `Post "https://h.example/p?***": dial tcp: no`,
		"from http://a.example/?x to http://b.example?": "from http://a.example/?*** to http://b.example?***",
	} {
		if got := Redact(given); got != want {
			t.Errorf("Redact(%q) = %q, want %q", given, got, want)
		}
	}
}

func TestRedactHidesWhereverItStands(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		before := rapid.StringMatching(`[ -~]{0,30}`).Draw(t, "before")
		after := rapid.StringMatching(`([ "'/?&#@][ -~]{0,30})?`).Draw(t, "after")
		token := newToken().Reveal()
		got := Redact(before + token + after)
		if strings.Contains(got, secretOf(token)[:6]) {
			t.Fatalf("%q shows the secret", got)
		}
		password := rapid.StringMatching(`[A-Za-z0-9:/?#@!$%&*+=.~-]{1,12}`).Draw(t, "password") + "Zq7Zq7Zq7"
		got = Redact(before + " rediss://user:" + password + "@host.example:6379/0 " + after)
		if strings.Contains(got, "Zq7Zq7Zq7") {
			t.Fatalf("%q shows the password %q", got, password)
		}
	})
}

func FuzzRedact(f *testing.F) {
	for _, s := range []string{"https://u:p@h/?q", "dh_aaaaaaaa_bbbbbbbb", "://", "a://@", "bearer xxxxxxxxxxxxxxxx", "whsec_"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		once := Redact(s)
		if again := Redact(once); again != once {
			t.Errorf("%q became %q, and that %q", s, once, again)
		}
	})
}

func TestRedactAttrIsEverywhereInALine(t *testing.T) {
	var log lockedBuffer
	token := newToken()
	logger := slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{ReplaceAttr: RedactAttr}))
	cause := errors.New("GET https://u:hushhush@h.example/?hushhush=1")
	logger.With("with", token.Reveal()).WithGroup("group").Error("message "+token.Reveal(), //nolint:sloglint // messages are redacted too
		"error", fmt.Errorf("wrapped: %w", cause), "text", cause.Error(), slog.Group("inner", "key", token.Reveal()),
		"number", 7, "nothing", nil, "who", Principal{KeyName: token.Reveal()})
	if log.lines("hushhush") > 0 || log.lines(secretOf(token.Reveal())[:8]) > 0 {
		t.Errorf("shown: %s", log.b.String())
	}
	for _, want := range []string{`"msg":"message dh_` + token.id() + `_***"`, `"error":"wrapped: GET https://***@h.example/?***"`, `"number":7`, `"nothing":null`, `"level":"ERROR"`} {
		if log.lines(want) != 1 {
			t.Errorf("%s is missing in %s", want, log.b.String())
		}
	}
}

func BenchmarkRedactAttr(b *testing.B) {
	out := io.MultiWriter() // writes to nobody; the handler does not notice
	logger := slog.New(slog.NewJSONHandler(out, &slog.HandlerOptions{ReplaceAttr: RedactAttr}))
	plain := slog.New(slog.NewJSONHandler(out, nil))
	for name, l := range map[string]*slog.Logger{"redacted": logger, "plain": plain} {
		b.Run(name, func(b *testing.B) {
			c := Change{What: "POST /v1/jobs", Target: "order-timeout/order-8812", Result: "ok", Client: "192.0.2.7", RequestID: "0123456789abcdef"}
			b.ReportAllocs()
			for b.Loop() {
				c.Log(b.Context(), l)
			}
		})
	}
}
