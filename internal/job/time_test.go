package job_test

import (
	"testing"

	"github.com/duehook/duehook/internal/job"
)

func TestParseTimes(t *testing.T) {
	const at = 1_700_000_000_000
	for _, tt := range []struct {
		text          string
		unix, written job.Instant // zero: refused
	}{
		{"1700000000", at, at},
		{"1700000000.0", at, at},
		{"1.7e9", at, at},
		{"17E+08", at, at},
		{"1700000000123", at + 123, at + 123},
		{"1000000000", 1e12, 1e12},
		{"9999999999999", 9_999_999_999_999, 9_999_999_999_999},
		{"1700000000.5", 0, 0},
		{"999999999", 0, 0},
		{"10000000000", 0, 0},
		{"0170000000", 0, 0},
		{"-1700000000", 0, 0},
		{"0x6553f100", 0, 0},
		{"1_700_000_000", 0, 0},
		{"Inf", 0, 0},
		{"nan", 0, 0},
		{"", 0, 0},
		{"2023-11-14T22:13:20Z", 0, at},
		{"2023-11-14t22:13:20.123z", 0, at + 123},
		{"2023-11-14t23:13:20+01:00", 0, at},
		{"2023-11-14 22:13:20Z", 0, 0},
		{"2023-11-14T22:13:20", 0, 0},
	} {
		if got, err := job.ParseUnix(tt.text); got != tt.unix || (err == nil) != (tt.unix != 0) {
			t.Errorf("ParseUnix(%q) = %d, %v; want %d", tt.text, got, err, tt.unix)
		}
		got, err := job.ParseWritten(tt.text)
		if (err == nil) != (tt.written != 0) || err == nil && job.InstantOf(got) != tt.written {
			t.Errorf("ParseWritten(%q) = %v, %v; want %d", tt.text, got, err, tt.written)
		}
	}
}

func TestCheckText(t *testing.T) {
	for text, wrong := range map[string]bool{
		"": true, "a": false, "订单 – №1": false, "עברית\u200f": false, "12345678901": false, "123456789012": true, "a\tb": true, "\xff": true,
		"a\u202eb": true, "\u202a": true, "\u2066a": true, "a\u2069": true,
	} {
		if err := job.CheckText(text, 1, 11); (err != nil) != wrong {
			t.Errorf("CheckText(%q): %v", text, err)
		}
	}
}
