package redisstore

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/oklog/ulid/v2"
	"pgregory.net/rapid"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/testing/must"
	"github.com/duehook/duehook/store/encoding"
)

func drawJob(t *rapid.T) job.Job {
	created := job.Instant(rapid.Int64Range(1, 4_000_000_000_000).Draw(t, "created"))
	later := func(name string) job.Instant {
		if rapid.Bool().Draw(t, "has "+name) {
			return created + job.Instant(rapid.Int64Range(0, 1<<36).Draw(t, name))
		}
		return 0
	}
	id := ulid.MustNew(uint64(created), nil)
	j := job.Job{
		Key: job.Key{Topic: "t", ID: "i"}, UID: id.String(),
		Spec: job.Spec{
			Destination: job.Destination("http://a.example/" + rapid.StringMatching(`[a-z]{0,9}`).Draw(t, "path")), Body: rapid.SliceOf(rapid.Byte()).Draw(t, "body"),
			BizKey: rapid.StringMatching(`[a-z]{0,3}`).Draw(t, "biz"), BodyForm: job.BodyJSON,
			When:    job.When{Delay: time.Duration(rapid.Int64Range(0, 1<<40).Draw(t, "delay"))},
			Timeout: time.Duration(rapid.Int64Range(0, 60_000).Draw(t, "timeout")) * time.Millisecond,
		},
		State:     job.State(rapid.IntRange(0, int(job.Expired)).Draw(t, "state")),
		CreatedAt: created, UpdatedAt: max(created, later("updated")), DueAt: later("due"), NextAt: created + 1, ExpiresAt: later("expires"), EndedAt: later("ended"),
		Attempts: rapid.IntRange(0, 2000).Draw(t, "attempts"), Snoozes: rapid.IntRange(0, 100).Draw(t, "snoozes"),
		ExpiredLeases: rapid.IntRange(0, 10).Draw(t, "expired leases"), Token: rapid.Uint64Range(0, 1<<40).Draw(t, "token"),
		Version: rapid.Uint64Range(0, 1<<40).Draw(t, "version"), CancelRequested: rapid.Bool().Draw(t, "cancel"),
	}
	switch rapid.IntRange(0, 2).Draw(t, "when") {
	case 0: // as it is registered
		j.DueAt = created.Add(j.Spec.When.Delay)
		j.NextAt = j.DueAt
	case 1:
		j.Spec.When = job.When{At: created + 1}
	case 2: // with any due time
		j.Spec.When.Spread = time.Duration(rapid.Int64Range(0, 86_400_000).Draw(t, "spread")) * time.Millisecond
	}
	if rapid.Bool().Draw(t, "has ttl") {
		j.Spec.TTL = time.Duration(rapid.Int64Range(1, 1<<40).Draw(t, "ttl"))
		if rapid.Bool().Draw(t, "ttl counts from registration") {
			j.ExpiresAt = created.Add(j.Spec.TTL)
		}
	}
	j.Spec.BodyForm = job.BodyForm(rapid.IntRange(0, 9).Draw(t, "form"))
	j.Spec.ContentType = rapid.SampledFrom([]string{"", "application/json", "text/plain; charset=utf-8", "a/b"}).Draw(t, "type")
	if j.State.Final() {
		j.NextAt = 0
		j.Reason = rapid.SampledFrom([]string{"", job.ReasonGone, job.ReasonTTL}).Draw(t, "reason")
	}
	if rapid.Bool().Draw(t, "retry") {
		limit := rapid.IntRange(0, 5).Draw(t, "limit")
		j.Spec.Retry = &job.Retry{Steps: []time.Duration{time.Second, time.Minute}, Limit: &limit}
	}
	return j
}

func drawTimings(t *rapid.T) job.Timings {
	phase := func(name string) time.Duration { return time.Duration(rapid.Int64Range(0, 1<<37).Draw(t, name)) }
	return job.Timings{
		DNS: phase("dns"), Connect: phase("connect"), TLS: phase("tls"), FirstByte: phase("first byte"),
		Reused: rapid.Bool().Draw(t, "reused"),
	}
}

func TestRecordRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		j := drawJob(t)
		log := make([]job.Attempt, rapid.IntRange(0, 4).Draw(t, "attempts logged"))
		for i := range log {
			log[i] = job.Attempt{
				Number: i + 1, StartedAt: 1, Duration: time.Second, ResponseBody: rapid.String().Draw(t, "body"),
				NextAt: job.Instant(rapid.Int64Range(0, 1<<40).Draw(t, "next")), Timings: drawTimings(t),
			}
		}
		r := newRecord(j, log)
		w, err := r.encode()
		ok(t, "encode", err)
		back, err := decodeRecord(j.Key, w)
		ok(t, "decodeRecord", err)
		if diff := cmp.Diff(j, back.Job, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("job changed (-want +got):\n%s", diff)
		}
		got, err := back.attempts()
		ok(t, "attempts", err)
		if diff := cmp.Diff(log, got, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("log changed (-want +got):\n%s", diff)
		}
	})
}

// An entry that was written before phases were measured, and in another
// encoding of integers.
func TestOldAttemptIsRead(t *testing.T) {
	r := record{logs: 1, log: []byte("1767258015087 63\n" +
		"\x87\xa1n\x01\xa1s\xd3\x00\x00\x01\x9bx\xc9\n\x80\xa1d\xd3\x00\x00\x00\x00\x05/\x83\xc0" +
		"\xa1c\xcd\x01\xf4\xa1e\xa8http_500\xa1b\xa9try later\xa1r\xa6ladder")}
	got, err := r.attempts()
	ok(t, "attempts", err)
	want := []job.Attempt{{
		Number: 1, StartedAt: 1_767_258_000_000, Duration: 87 * time.Millisecond, Status: 500, Error: "http_500",
		ResponseBody: "try later", NextAt: 1_767_258_015_087, Reason: job.ReasonLadder,
	}}
	must.Same(t, "result", got, want)
}

// TestWaitingIsShort: what a job takes that only waits, besides its body and
// URL, is told to be little. It grows by intent only.
func TestWaitingIsShort(t *testing.T) {
	reg := waitingJob(1)
	plain := reg.Spec
	full := reg.Spec
	full.Timeout, full.TTL = 10*time.Second, 2*time.Hour
	timed := reg.Spec
	timed.When = job.When{At: 1_767_259_800_000}
	for name, c := range map[string]struct {
		spec  job.Spec
		limit int
	}{
		"usual":            {plain, 43},
		"at a time":        {timed, 49},
		"TTL and timeout":  {full, 57},
		"a biz_key, for 8": {job.Spec{Destination: plain.Destination, Body: plain.Body, BodyForm: job.BodyJSON, BizKey: "12345678"}, 70},
	} {
		reg.Spec = c.spec
		r := newRecord(reg.Job(1_767_258_000_000), nil)
		w, err := r.encode()
		ok(t, "encode", err)
		if n := len(w.registration) - len(c.spec.Destination) - len(c.spec.Body); n > c.limit || w.progress != "" {
			t.Errorf("%s: %d bytes besides URL and body and a progress of %q, want %d at most and none", name, n, w.progress, c.limit)
		}
	}
}

// Attempts are most of what an ended job takes: one grows by intent only.
func TestAttemptIsShort(t *testing.T) {
	a := job.Attempt{
		Number: 1, StartedAt: 1_767_258_000_000, Duration: 87 * time.Millisecond, Status: 200, Reason: job.ReasonDelivered,
	}
	for name, c := range map[string]struct {
		timings job.Timings
		limit   int
	}{
		"unmeasured": {job.Timings{}, 38},
		"reused":     {job.Timings{FirstByte: 80 * time.Millisecond, Reused: true}, 51},
		"all": {job.Timings{
			DNS: 3 * time.Millisecond, Connect: 11 * time.Millisecond, TLS: 24 * time.Millisecond, FirstByte: 42 * time.Millisecond,
		}, 69},
	} {
		a.Timings = c.timings
		b := encodeAttempt(&a)
		if len(b) > c.limit {
			t.Errorf("%s: %d bytes, want %d at most", name, len(b), c.limit)
		}
	}
}

// TestAttemptIsEncodedWhole: all fields are read as they were written, also those that an
// attempt will have one day.
func TestAttemptIsEncodedWhole(t *testing.T) {
	fill := func(v reflect.Value, but int) {
		for i := range v.NumField() {
			f := v.Field(i)
			switch {
			case i == but:
			case f.CanInt():
				f.SetInt(1 << (7 * i))
			case f.Kind() == reflect.String:
				f.SetString(strings.Repeat("x", 40*i))
			case f.Kind() == reflect.Bool:
				f.SetBool(true)
			}
		}
	}
	for but := -1; but < 10; but++ {
		for timed := -1; timed < 6; timed++ {
			var a job.Attempt
			fill(reflect.ValueOf(&a).Elem(), but)
			if timed >= 0 {
				fill(reflect.ValueOf(&a.Timings).Elem(), timed)
			}
			got := encodeAttempt(&a)
			a.NextAt = 0
			var read job.Attempt
			ok(t, "DecodeAttempt", encoding.DecodeAttempt(got, &read))
			must.Same(t, fmt.Sprintf("without %d and %d", but, timed), read, a)
		}
	}
}

func FuzzDecodeRecord(f *testing.F) {
	r := newRecord(job.Job{UID: ulid.ULID{}.String(), CreatedAt: 1}, []job.Attempt{{Number: 1}})
	w, err := r.encode()
	ok(f, "encode", err)
	const waiting = "1 0\n0123456789abcdef\x00\x00\x00"
	f.Add(w.registration, w.progress)
	f.Add(w.registration, w.progress[:len(w.progress)-1])
	f.Add(w.registration[:len(w.registration)-1], w.progress)
	f.Add("", "")
	f.Add(waiting, "")
	f.Add("1 0\n0123456789abcdef\x40\x00\x01\x80\x00", "")
	f.Add("1 0  9223372036854775807\n0123456789abcdef\x00\x00\x00", "")
	f.Add(waiting, "1          9223372036854775807   \n0123456789abcdef1 -1\n")
	f.Fuzz(func(_ *testing.T, registration, progress string) {
		r, err := decodeRecord(job.Key{Topic: "t", ID: "i"}, raw{registration, progress})
		if err != nil {
			return
		}
		_, _ = r.attempts() // must not panic
	})
}

func TestPlace(t *testing.T) {
	for _, c := range []struct {
		score float64
		state job.State
		at    job.Instant
	}{
		{1_763_692_800_000, job.Waiting, 1_763_692_800_000},
		{1_763_692_800_000.25, job.Retrying, 1_763_692_800_000},
		{1_763_692_800_000.5 - inFlightShift, job.Ready, 1_763_692_800_000},
		{1_763_692_800_000.75 - inFlightShift, job.Running, 1_763_692_800_000},
	} {
		state, at := decodeScore(c.score)
		if state != c.state || at != c.at {
			t.Errorf("decodeScore(%f) = %s at %d, want %s at %d", c.score, state, at, c.state, c.at)
		}
	}
}

func TestParseURL(t *testing.T) {
	for _, c := range []struct{ url, wantErr, addr, master, user, password string }{
		{url: "redis://localhost:6379/2", addr: "localhost:6379"},
		{url: "rediss://u:p@r.example:6380", addr: "r.example:6380", user: "u", password: "p"},
		{url: "redis-sentinel://mymaster@a:1,b", addr: "a:1 b:26379", master: "mymaster"},
		{url: "redis-sentinel://u:p%40@m@a:1/3", addr: "a:1", master: "m", user: "u", password: "p@"},
		{url: "redis-cluster://a:1,b:2", addr: "a:1 b:2"},
		{url: "redis-cluster://:secret@a", addr: "a:6379", password: "secret"},
		{url: "redis-cluster://a/1", wantErr: "redis URL: a Redis Cluster has no database numbers; leave /db out"},
		{url: "redis-cluster://a,,b", wantErr: "redis URL: a host is missing in the list"},
		{url: "redis-sentinel://a:1", wantErr: "redis URL: write redis-sentinel://master@host:port,host:port: the master's name is missing"},
		{url: "redis-sentinel://@a:1", wantErr: "redis URL: write redis-sentinel://master@host:port,host:port: the master's name is empty"},
		{url: "redis-sentinel://m@a/x", wantErr: "redis URL: the part after the slash must be a database number"},
		{url: "http://a", wantErr: `redis URL: unknown scheme "http"; use redis, rediss, redis-sentinel or redis-cluster`},
		{url: "localhost:6379", wantErr: "redis URL: write redis://host:port, rediss://, redis-sentinel:// or redis-cluster://"},
	} {
		o, err := parseURL(c.url)
		if c.wantErr != "" {
			if err == nil || err.Error() != c.wantErr {
				t.Errorf("parseURL(%q): error %v, want %q", c.url, err, c.wantErr)
			}
			continue
		}
		if err != nil {
			t.Errorf("parseURL(%q): %v", c.url, err)
			continue
		}
		addr := ""
		for i, a := range o.Addrs {
			if i > 0 {
				addr += " "
			}
			addr += a
		}
		if addr != c.addr || o.MasterName != c.master || o.Username != c.user || o.Password != c.password {
			t.Errorf("parseURL(%q) = %q master %q user %q password %q", c.url, addr, o.MasterName, o.Username, o.Password)
		}
	}
}

// TestSpoiledRecord: a record that somebody cut or wrote over is told from a
// good one, wherever that can be told.
func TestSpoiledRecord(t *testing.T) {
	r := newRecord(job.Job{UID: ulid.ULID{1}.String(), CreatedAt: 1, Spec: job.Spec{TTL: time.Second}}, []job.Attempt{{Number: 1}})
	good, err := r.encode()
	ok(t, "encode", err)
	key := job.Key{Topic: "t", ID: "i"}
	head, rest, _ := strings.Cut(good.registration, "\n")
	uid, spec := rest[:uidLen], rest[uidLen:]
	progressHead, since, _ := strings.Cut(good.progress, "\n")
	fields := strings.Split(progressHead, " ")
	with := func(field int, value string) string {
		changed := slices.Clone(fields)
		changed[field] = value
		return strings.Join(changed, " ") + "\n" + since
	}
	for name, w := range map[string]raw{
		"nothing":                  {},
		"no registration":          {"", good.progress},
		"no head":                  {head, ""},
		"one field":                {"1\n" + rest, ""},
		"three fields":             {"1 0 0\n" + rest, ""},
		"a word for a number":      {"1 soon\n" + rest, ""},
		"a number too large":       {"9223372036854775808 0\n" + rest, ""},
		"a progress in its place":  {good.progress, ""},
		"no uid":                   {head + "\n" + rest[:uidLen-1], ""},
		"no spec":                  {head + "\n" + uid, ""},
		"a spec cut short":         {head + "\n" + rest[:len(rest)-1], ""},
		"a spec with more":         {head + "\n" + rest + "x", ""},
		"another spec":             {head + "\n" + uid + strings.Repeat("\xc1", len(spec)), ""},
		"a progress without head":  {good.registration, progressHead},
		"a progress of few fields": {good.registration, head + "\n" + since},
		"a field less":             {good.registration, strings.Join(fields[1:], " ") + "\n" + since},
		"a field more":             {good.registration, "0 " + good.progress},
		"a word in the progress":   {good.registration, with(fieldAttempts, "many")},
		"the progress of another":  {good.registration, progressHead + "\n" + strings.Repeat("\x02", uidLen) + since[uidLen:]},
		"a progress without a uid": {good.registration, progressHead + "\n" + since[:uidLen-1]},
	} {
		if got, err := decodeRecord(key, w); !errors.Is(err, errRecord) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	for name, progress := range map[string]string{
		"a log cut short":        good.progress[:len(good.progress)-1],
		"a log without an end":   progressHead + "\n" + uid + "0 5",
		"an entry of words":      progressHead + "\n" + uid + "some text\n",
		"an entry of less":       progressHead + "\n" + uid + "0 -1\n",
		"an entry of the utmost": progressHead + "\n" + uid + "0 9223372036854775807\n",
		"an entry of nothing":    progressHead + "\n" + uid + "0 0\n",
	} {
		r, err := decodeRecord(key, raw{good.registration, progress})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if all, err := r.attempts(); !errors.Is(err, errRecord) {
			t.Errorf("%s: %+v, %v", name, all, err)
		}
	}
	for _, logs := range []string{"-1", "9223372036854775807"} {
		r, err := decodeRecord(key, raw{good.registration, with(fieldLogs, logs)})
		ok(t, "decodeRecord", err)
		if j, err := r.whole(); err != nil || j.LastAttempt == nil {
			t.Errorf("%s entries said, one there: %+v, %v", logs, j, err)
		}
	}
}
