package contract

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/testing/must"
)

func headers(pairs ...string) http.Header {
	h := http.Header{}
	for i := 0; i < len(pairs); i += 2 {
		h.Set(pairs[i], pairs[i+1])
	}
	return h
}

func TestReceiverContract(t *testing.T) {
	const now = job.Instant(1_900_000_000_000)
	in90s := now.Add(90 * time.Second).Time().Format(http.TimeFormat)
	failed := job.Outcome{Kind: job.OutcomeFailed}
	delivered := job.Outcome{Kind: job.OutcomeDelivered}
	failedAfter := func(d time.Duration) job.Outcome { return job.Outcome{Kind: job.OutcomeFailed, After: d} }
	snoozed := func(d time.Duration) job.Outcome { return job.Outcome{Kind: job.OutcomeSnoozed, After: d} }
	at := func(t job.Instant) job.Outcome { return job.Outcome{Kind: job.OutcomeRescheduled, At: t} }
	gone := job.Outcome{Kind: job.OutcomeRefused, Reason: job.ReasonGone}
	aborted := job.Outcome{Kind: job.OutcomeRefused, Reason: job.ReasonAborted}

	for name, tt := range map[string]struct {
		answer Answer
		expect string
		want   job.Outcome
		class  string
	}{
		"200":                    {Answer{Status: 200}, "", delivered, ""},
		"204":                    {Answer{Status: 204}, "", delivered, ""},
		"299":                    {Answer{Status: 299}, "", delivered, ""},
		"2xx cut body":           {Answer{Status: 200, Cut: true}, "", delivered, ""},
		"2xx broken body":        {Answer{Status: 200, Lost: "connection_reset"}, "", delivered, ""},
		"expect":                 {Answer{Status: 200, Body: []byte("success")}, "success", delivered, ""},
		"expect, case and space": {Answer{Status: 201, Body: []byte(" \r\nSuccess\n")}, "success", delivered, ""},
		"expect, other":          {Answer{Status: 200, Body: []byte("fail")}, "success", failed, Unexpected},
		"expect, more":           {Answer{Status: 200, Body: []byte("success!")}, "success", failed, Unexpected},
		"expect, empty":          {Answer{Status: 200}, "success", failed, Unexpected},
		"expect, cut":            {Answer{Status: 200, Body: []byte("success"), Cut: true}, "success", failed, TooLarge},
		"expect, broken":         {Answer{Status: 200, Body: []byte("success"), Lost: "response_timeout"}, "success", failed, "response_timeout"},
		"expect, not a 2xx":      {Answer{Status: 500, Body: []byte("success")}, "success", failed, "http_500"},

		"410":               {Answer{Status: 410}, "", gone, "http_410"},
		"410 and snooze":    {Answer{Status: 410, Header: headers("Duehook-Action", "snooze", "Retry-After", "5")}, "", gone, "http_410"},
		"abort on 400":      {Answer{Status: 400, Header: headers("webhook-delivery", "abort-message")}, "", aborted, "http_400"},
		"abort on 500":      {Answer{Status: 500, Header: headers("Webhook-Delivery", " Abort-Message ")}, "", aborted, "http_500"},
		"abort on 302":      {Answer{Status: 302, Header: headers("webhook-delivery", "abort-message")}, "", aborted, "http_302"},
		"no abort on 200":   {Answer{Status: 200, Header: headers("webhook-delivery", "abort-message")}, "", delivered, ""},
		"disable":           {Answer{Status: 400, Header: headers("webhook-delivery", " Disable")}, "", gone, "http_400"},
		"disable on 503":    {Answer{Status: 503, Header: headers("webhook-delivery", "disable", "Retry-After", "9")}, "", gone, "http_503"},
		"no disable on 200": {Answer{Status: 200, Header: headers("webhook-delivery", "disable")}, "", delivered, ""},
		"another directive": {Answer{Status: 500, Header: headers("webhook-delivery", "disable-endpoint")}, "", failed, "http_500"},

		"429, seconds":      {Answer{Status: 429, Header: headers("Retry-After", "120")}, "", failedAfter(2 * time.Minute), "http_429"},
		"503, seconds":      {Answer{Status: 503, Header: headers("Retry-After", "7")}, "", failedAfter(7 * time.Second), "http_503"},
		"503, date":         {Answer{Status: 503, Header: headers("Retry-After", in90s)}, "", failedAfter(90 * time.Second), "http_503"},
		"429, plain":        {Answer{Status: 429}, "", failed, "http_429"},
		"503, nonsense":     {Answer{Status: 503, Header: headers("Retry-After", "soon")}, "", failed, "http_503"},
		"500 names, too":    {Answer{Status: 500, Header: headers("Retry-After", "120")}, "", failedAfter(2 * time.Minute), "http_500"},
		"408, seconds":      {Answer{Status: 408, Header: headers("Retry-After", "3")}, "", failedAfter(3 * time.Second), "http_408"},
		"425, date":         {Answer{Status: 425, Header: headers("Retry-After", in90s)}, "", failedAfter(90 * time.Second), "http_425"},
		"301, seconds":      {Answer{Status: 301, Header: headers("Retry-After", "60", "Location", "/")}, "", failedAfter(time.Minute), "http_301"},
		"404, seconds":      {Answer{Status: 404, Header: headers("Retry-After", "60")}, "", failedAfter(time.Minute), "http_404"},
		"200, not expected": {Answer{Status: 200, Header: headers("Retry-After", "60"), Body: []byte("busy")}, "success", failedAfter(time.Minute), Unexpected},
		"200 does not name": {Answer{Status: 200, Header: headers("Retry-After", "120")}, "", delivered, ""},

		"snooze on 200":            {Answer{Status: 200, Header: headers("Duehook-Action", "snooze", "Retry-After", "60")}, "", snoozed(time.Minute), ""},
		"snooze on 503":            {Answer{Status: 503, Header: headers("Duehook-Action", "Snooze", "Retry-After", "60")}, "", snoozed(time.Minute), ""},
		"snooze on 404":            {Answer{Status: 404, Header: headers("Duehook-Action", "snooze", "Retry-After", in90s)}, "", snoozed(90 * time.Second), ""},
		"snooze before expect":     {Answer{Status: 200, Header: headers("Duehook-Action", "snooze", "Retry-After", "60")}, "ok", snoozed(time.Minute), ""},
		"snooze without a time":    {Answer{Status: 200, Header: headers("Duehook-Action", "snooze")}, "", failed, BadSnooze},
		"snooze with nonsense":     {Answer{Status: 503, Header: headers("Duehook-Action", "snooze", "Retry-After", "-5")}, "", failed, BadSnooze},
		"another action":           {Answer{Status: 200, Header: headers("Duehook-Action", "dance")}, "", delivered, ""},
		"snooze clamped to a day":  {Answer{Status: 200, Header: headers("Duehook-Action", "snooze", "Retry-After", "999999")}, "", snoozed(24 * time.Hour), ""},
		"snooze clamped to second": {Answer{Status: 200, Header: headers("Duehook-Action", "snooze", "Retry-After", "0")}, "", snoozed(time.Second), ""},

		"reschedule":               {Answer{Status: 200, Header: headers("Duehook-Action", "reschedule", "Duehook-At", "2030-03-17T17:46:45Z")}, "", at(now + 5_000), ""},
		"reschedule on 500":        {Answer{Status: 500, Header: headers("Duehook-Action", " Reschedule", "Duehook-At", " 2030-03-17T18:46:45.5+01:00 ")}, "", at(now + 5_500), ""},
		"reschedule, seconds":      {Answer{Status: 200, Header: headers("Duehook-Action", "reschedule", "Duehook-At", "1900000005")}, "no", at(now + 5_000), ""},
		"reschedule, milliseconds": {Answer{Status: 200, Header: headers("Duehook-Action", "reschedule", "Duehook-At", "1900000005001")}, "", at(now + 5_001), ""},
		"reschedule to the past":   {Answer{Status: 200, Header: headers("Duehook-Action", "reschedule", "Duehook-At", "0001-01-01T00:00:00Z")}, "", at(now + 1_000), ""},
		"reschedule too far":       {Answer{Status: 200, Header: headers("Duehook-Action", "reschedule", "Duehook-At", "9999-12-31T23:59:59Z")}, "", at(now.Add(366 * 24 * time.Hour)), ""},
		"reschedule without time":  {Answer{Status: 200, Header: headers("Duehook-Action", "reschedule", "Retry-After", "5")}, "", failed, BadAt},
		"reschedule with nonsense": {Answer{Status: 200, Header: headers("Duehook-Action", "reschedule", "Duehook-At", "tomorrow")}, "", failed, BadAt},
		"reschedule, no offset":    {Answer{Status: 503, Header: headers("Duehook-Action", "reschedule", "Duehook-At", "2030-03-17T17:46:45")}, "", failed, BadAt},
		"410 and reschedule":       {Answer{Status: 410, Header: headers("Duehook-Action", "reschedule", "Duehook-At", "1900000005")}, "", gone, "http_410"},
		"abort and reschedule": {
			Answer{Status: 400, Header: headers("Webhook-Delivery", "abort-message", "Duehook-Action", "reschedule", "Duehook-At", "1900000005")},
			"", aborted, "http_400",
		},

		"301": {Answer{Status: 301, Header: headers("Location", "http://x.example/")}, "", failed, "http_301"},
		"304": {Answer{Status: 304}, "", failed, "http_304"},
		"101": {Answer{Status: 101}, "", failed, "http_101"},
		"400": {Answer{Status: 400}, "", failed, "http_400"},
		"404": {Answer{Status: 404}, "", failed, "http_404"},
		"500": {Answer{Status: 500}, "", failed, "http_500"},
		"999": {Answer{Status: 999}, "", failed, "http_999"},
	} {
		t.Run(name, func(t *testing.T) {
			if tt.answer.Header == nil {
				tt.answer.Header = http.Header{}
			}
			got, class := Judge(tt.answer, tt.expect, now)
			must.Same(t, "outcome", got, tt.want)
			must.Equal(t, "class", class, tt.class)
		})
	}
}

func TestRetryAfter(t *testing.T) {
	now := job.InstantOf(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))
	for value, want := range map[string]time.Duration{ // 0: ignored
		"":                                 0,
		" ":                                0,
		"soon":                             0,
		"-1":                               0,
		"+5":                               0,
		"1.5":                              0,
		"1e3":                              0,
		"0x10":                             0,
		"5s":                               0,
		"Tue, 99 Jan 2030":                 0,
		"0":                                time.Second,
		"1":                                time.Second,
		" 30 ":                             30 * time.Second,
		"0030":                             30 * time.Second,
		"86400":                            24 * time.Hour,
		"86401":                            24 * time.Hour,
		"9223372036":                       24 * time.Hour,
		"9223372036854775807":              24 * time.Hour,
		"9223372036854775808":              24 * time.Hour,
		"99999999999999999999":             24 * time.Hour,
		strings.Repeat("9", 9000):          24 * time.Hour,
		"Tue, 01 Jan 2030 00:10:00 GMT":    10 * time.Minute,
		"Tuesday, 01-Jan-30 00:10:00 GMT":  10 * time.Minute,
		"Tue Jan  1 00:10:00 2030":         10 * time.Minute,
		"Tue, 01 Jan 2030 00:00:00 GMT":    time.Second,
		"Mon, 01 Jan 1990 00:00:00 GMT":    time.Second,
		"Sat, 01 Jan 0001 00:00:00 GMT":    time.Second,
		"Fri, 31 Dec 9999 23:59:59 GMT":    24 * time.Hour,
		"Tue, 01 Jan 2030 00:10:00 +0100!": 0,
	} {
		got, ok := retryAfter(value, now, maxRetryAfter)
		if got != want || ok != (want != 0) {
			t.Errorf("%.40q: %v, %v; want %v", value, got, ok, want)
		}
	}
}

func FuzzRetryAfter(f *testing.F) {
	for _, seed := range []string{"120", "-1", "9223372036854775807", "Tue, 01 Jan 2030 00:10:00 GMT", "\x00"} {
		f.Add(seed, int64(1_900_000_000_000))
	}
	f.Fuzz(func(t *testing.T, value string, now int64) {
		d, ok := retryAfter(value, job.Instant(now%math.MaxInt32*1000), maxRetryAfter)
		if ok && (d < minRetryAfter || d > maxRetryAfter) || !ok && d != 0 {
			t.Errorf("%q at %d: %v, %v", value, now, d, ok)
		}
	})
}

func TestExcerptIsShortValidText(t *testing.T) {
	for name, tt := range map[string]struct{ body, want string }{
		"empty":           {"", ""},
		"short":           {"all is well", "all is well"},
		"NUL":             {"a\x00b", "a\uFFFDb"},
		"gzip":            {"\x1f\x8b\x08", "\x1f\uFFFD\x08"},
		"long":            {strings.Repeat("x", 2000), strings.Repeat("x", 1024)},
		"cut in a rune":   {strings.Repeat("x", 1023) + "é", strings.Repeat("x", 1023)},
		"long, not valid": {strings.Repeat("\xff", 2000), "\uFFFD"},
		"grown too long":  {strings.Repeat("\x00", 1024), strings.Repeat("\uFFFD", 341)},
	} {
		got := Excerpt([]byte(tt.body))
		if got != tt.want {
			t.Errorf("%s: %s, want %s", name, strconv.Quote(got), strconv.Quote(tt.want))
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		got := Excerpt(rapid.SliceOfN(rapid.Byte(), 0, 3000).Draw(t, "body"))
		if len(got) > ExcerptLimit || !utf8.ValidString(got) || strings.Contains(got, "\x00") {
			t.Fatalf("excerpt of %d bytes, valid %v", len(got), utf8.ValidString(got))
		}
	})
}
