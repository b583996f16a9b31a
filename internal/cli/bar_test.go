package cli

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/duehook/duehook/internal/testing/testenv"
)

func TestBar(t *testing.T) {
	clock := testenv.NewClock(time.Unix(1_800_000_000, 0))
	var out bytes.Buffer
	columns := 120
	a := &app{Options: Options{Clock: clock, Err: &out, Interactive: true, Columns: func() int { return columns }}}
	b := a.newBar("jobs")
	b.total = 1_000_000
	b.show(0)
	clock.Advance(100 * time.Millisecond)
	b.show(1) // too soon
	clock.Advance(99*time.Second + 900*time.Millisecond)
	b.show(250_000)
	b.end()
	b.end()
	got := strings.Split(out.String(), "\r")
	if len(got) != 3 || !strings.HasPrefix(got[1], "[....................]   0%  0 of 1,000,000  0/s ") || strings.Count(out.String(), "\n") != 1 {
		t.Errorf("drew %q", got)
	}
	if want := "[#####...............]  25%  250,000 of 1,000,000  2,500/s  5m left"; strings.TrimSpace(got[len(got)-1]) != want {
		t.Errorf("drew %q, want %q", got[len(got)-1], want)
	}
	out.Reset()
	columns = 40
	b.show(250_000)
	if want := "\r[#####...............]  25%  250,000 of"; out.String() != want {
		t.Errorf("in 40 columns, drew %q, want %q", out.String(), want)
	}
	b.end()
	if widest := (&bar{unit: "bytes", total: 1 << 50}).line(1<<50-1, 900*time.Hour); len(widest) > widestBar {
		t.Errorf("%d columns: %s", len(widest), widest)
	}
	if line := (&bar{unit: "jobs"}).line(1200, time.Second); line != "1,200 jobs  1,200/s" {
		t.Errorf("of an unknown total: %q", line)
	}
	out.Reset()
	a.Interactive = false
	quiet := a.newBar("jobs")
	quiet.show(1)
	quiet.end()
	if out.Len() > 0 {
		t.Errorf("a program reads %q", out.String())
	}
}
