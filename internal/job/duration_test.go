package job_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"pgregory.net/rapid"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/testing/must"
)

const day = 24 * time.Hour

// parse reads a duration as fronts do: a JSON string, or a number of seconds.
func parse(t testing.TB, raw string) (time.Duration, error) {
	t.Helper()
	if !strings.HasPrefix(raw, `"`) {
		n, err := strconv.ParseFloat(strings.TrimSpace(raw), 64)
		if err != nil && !errors.Is(err, strconv.ErrRange) {
			t.Fatal(err)
		}
		return job.Seconds(n)
	}
	var s string
	must.OK(t, json.Unmarshal([]byte(raw), &s))
	return job.ParseDuration(s)
}

func TestDurations(t *testing.T) {
	tests := map[string]time.Duration{
		// Numbers are whole seconds, by value.
		`0`: 0, `-0`: 0, `90`: 90 * time.Second, ` 90 `: 90 * time.Second,
		`5.0`: 5 * time.Second, `1e3`: 1000 * time.Second, `1.5E1`: 15 * time.Second, `100e-2`: time.Second,
		`9223372036`: 9223372036 * time.Second,
		// Strings.
		`"0"`: 0, `"0s"`: 0, `"1500ms"`: 1500 * time.Millisecond, `"90s"`: 90 * time.Second,
		`"1d12h"`: 36 * time.Hour, `"2h30m"`: 150 * time.Minute, `"2w"`: 14 * day,
		`"1w1d1h1m1s1ms"`: 8*day + time.Hour + time.Minute + time.Second + time.Millisecond,
		`"1.5s"`:          1500 * time.Millisecond, `"1h0m0.001000s"`: time.Hour + time.Millisecond,
		`"\u0039s"`: 9 * time.Second,
		`"PT30M"`:   30 * time.Minute, `"P1DT12H"`: 36 * time.Hour, `"P2W"`: 14 * day, `"PT48H"`: 48 * time.Hour,
		`"0.5h"`: 30 * time.Minute, `"1.5h"`: 90 * time.Minute, `"0.25d"`: 6 * time.Hour, `"1.5h30m"`: 2 * time.Hour, `"PT0.5H"`: 30 * time.Minute, `"P1.5D"`: 36 * time.Hour,
		`"0.0009765625w"`: 590625 * time.Millisecond, `"1.000000000000h"`: time.Hour, `"2.0ms"`: 2 * time.Millisecond,
		`"1h 30m"`: 90 * time.Minute, `"1 h  30 m"`: 90 * time.Minute, `"5 s"`: 5 * time.Second, `"30 minutes"`: 30 * time.Minute, `"1 minute"`: time.Minute,
		`"2 weeks 1 day 1 hour 1 min 3 sec 4 milliseconds"`: 15*day + time.Hour + time.Minute + 3*time.Second + 4*time.Millisecond,
		`"90seconds"`: 90 * time.Second, `"2hrs"`: 2 * time.Hour, `"0 s"`: 0,
		`"PT1.5S"`: 1500 * time.Millisecond, `"P1D"`: day, `"PT0S"`: 0,
	}
	for raw, want := range tests {
		got, err := parse(t, raw)
		if err != nil || got != want {
			t.Errorf("%s = %v, %v; want %v", raw, got, err, want)
		}
	}
}

func TestDurationsRefused(t *testing.T) {
	tests := map[string][]string{ // by a part of the message
		"must not be negative": {
			`-1`, `-0.5`, `-1e400`, `"-5s"`, `"-"`, `"PT-6H"`, `"-PT6H"`,
		},
		"must be a whole number": {`0.5`, `1.5`, `1e-3`, `15e-1`},
		"longer than any duration": {
			`9223372037`, `1e10`, `1e400`, `99999999999999999999999999`,
			`"9223372037s"`, `"99999999999999999999s"`, `"9223372036854776.5s"`, `"9223372036.9s"`, `"15251w"`, `"30501w"`, `"P15251W"`, `"P106751DT24H"`, `"106751d23h48m"`,
		},
		"years or months":             {`"P1M"`, `"P1Y"`, `"P1Y2M10DT2H"`},
		"not be finer":                {`"1.0005s"`, `"PT0.0001S"`, `"0.5ms"`, `"0.3333333h"`, `"0.00000000001w"`},
		`is not a duration such as "`: {`""`, `" "`, `"5"`, `" 5s"`, `"5s "`, `"s"`, `"5S"`, `"5x"`, `"5µs"`, `"5us"`, `"5ns"`, `"h5"`, `"1h1h"`, `"1m1h"`, `"1ms1s"`, `"1.s"`, `".5s"`, `"1..5s"`, `"1.2.3s"`, `"1,5s"`, `"+5s"`, `"0x5s"`, `"P"`, `"PT"`, `"P1DT"`, `"P1H"`, `"PT1D"`, `"PT1M1H"`, `"pt1m"`, `"PT1m"`, `"P1 D"`, `"PT1H 30M"`, `"PT 1H"`, `"P1DT "`, `"1h,30m"`, `"1h and 30m"`, `"30 Minutes"`, `"1h 30"`, `"1 h m"`, `"1\u00a0h"`, `"1h\t30m"`, `"3 months"`, `"1 year"`, `"PPT1S"`, `"PT1ST1S"`, `"1dPT1S"`, `"５s"`, `"forever"`},
	}
	for want, raws := range tests {
		for _, raw := range raws {
			got, err := parse(t, raw)
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s = %v, %v; want an error with %q", raw, got, err, want)
			}
		}
	}
}

func TestFormatDuration(t *testing.T) {
	tests := map[time.Duration]string{
		0:                                   "0s",
		time.Microsecond:                    "0s",
		15 * time.Second:                    "15s",
		90 * time.Minute:                    "1h30m",
		36 * time.Hour:                      "1d12h",
		1500 * time.Millisecond:             "1s500ms",
		366 * day:                           "366d",
		-90 * time.Second:                   "-1m30s",
		time.Duration(math.MinInt64):        "-106751d23h47m16s854ms",
		time.Second + 999*time.Microsecond:  "1s",
		15*time.Hour + 250*time.Millisecond: "15h250ms",
	}
	for d, want := range tests {
		must.Equal(t, fmt.Sprintf("FormatDuration(%d)", d), job.FormatDuration(d), want)
	}
}

func TestDurationsSurviveFormatting(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64Range(0, math.MaxInt64/1_000_000).Draw(t, "ms")) * time.Millisecond
		// Go's own form is read back too, whatever whole milliseconds it shows.
		for _, s := range []string{job.FormatDuration(d), d.String()} {
			if got, err := job.ParseDuration(s); err != nil || got != d {
				t.Fatalf("ParseDuration(%q) = %v, %v; want %v", s, got, err, d)
			}
		}
	})
}

func TestLadder(t *testing.T) {
	want := []time.Duration{15 * time.Second, 3 * time.Minute, day}
	for _, s := range []string{"15s 3m 1d", "15s,3m,1d", " 15s, 3m  PT24H,"} {
		got, err := job.ParseLadder(s)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("ParseLadder(%q): %v\n%s", s, err, diff)
		}
	}
	must.Equal(t, "FormatLadder", job.FormatLadder(want), "15s 3m 1d")
}

func TestParseLadderRefuses(t *testing.T) {
	tests := map[string]string{
		"":                           "must have 1 to 64 steps",
		" , ":                        "must have 1 to 64 steps",
		strings.Repeat("1s ", 65):    "must have 1 to 64 steps",
		"15s 3x":                     `step 2, "3x", is not a duration`,
		"0s":                         `step 1, "0s", must be from 1ms to 30d`,
		"30d 30d1ms":                 `step 2, "30d1ms", must be from 1ms to 30d`,
		"15s;3m":                     `step 1, "15s;3m", is not a duration`,
		"15s\t3m":                    "is not a duration",
		"5 10":                       `step 1, "5", is not a duration`,
		"1s 99999999999999999999s":   "longer than any duration",
		strings.Repeat("x", 100_000): `", is not a duration`,
	}
	for s, want := range tests {
		got, err := job.ParseLadder(s)
		switch {
		case err == nil || !strings.Contains(err.Error(), want):
			t.Errorf("ParseLadder(%.40q) = %v, %v; want an error with %q", s, got, err, want)
		case len(err.Error()) > 300:
			t.Errorf("ParseLadder(%.40q): the error is %d bytes long", s, len(err.Error()))
		}
	}
}
