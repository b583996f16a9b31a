package cli

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/duehook/duehook/internal/job"
)

// barWidth is the length of the bar itself, widestBar that of a line.
const (
	barWidth  = 20
	widestBar = 79
)

// bar shows a person the progress of a long command. It writes nothing for programs.
type bar struct {
	out     io.Writer // nil: nobody looks
	columns func() int
	clock   job.Clock
	unit    string // jobs or bytes
	total   int64  // zero: unknown
	began   time.Time
	shown   time.Time
	started bool
}

func (a *app) newBar(unit string) *bar {
	b := &bar{clock: a.Clock, unit: unit, began: a.Clock.Now()}
	if a.Interactive && !a.json {
		b.out, b.columns = a.Err, a.Columns
	}
	return b
}

// show draws the bar, at most five times a second.
func (b *bar) show(done int64) {
	now := b.clock.Now()
	if b.out == nil || b.started && now.Sub(b.shown) < time.Second/5 {
		return
	}
	b.started, b.shown = true, now
	width := min(b.columns()-1, widestBar) // a line that is full begins the next one
	_, _ = fmt.Fprintf(b.out, "\r%-*.*s", width, width, b.line(done, now.Sub(b.began)))
}

func (b *bar) line(done int64, took time.Duration) string {
	rate := 0.0
	if took > 0 {
		rate = float64(done) / took.Seconds()
	}
	speed := b.amount(int64(rate)) + "/s"
	if b.total <= 0 {
		return fmt.Sprintf("%s %s  %s", b.amount(done), b.unit, speed)
	}
	share := min(float64(done)/float64(b.total), 1)
	full := int(share * barWidth)
	line := fmt.Sprintf("[%s%s] %3d%%  %s of %s  %s", strings.Repeat("#", full), strings.Repeat(".", barWidth-full),
		int(share*100), b.amount(done), b.amount(b.total), speed)
	if left := b.total - done; rate > 0 && left > 0 {
		line += "  " + short(time.Duration(float64(left)/rate*float64(time.Second)).Round(time.Second)) + " left"
	}
	return line
}

func (b *bar) amount(n int64) string {
	if b.unit == "bytes" {
		return humanize.IBytes(uint64(max(n, 0)))
	}
	return humanize.Comma(n)
}

// end leaves the line. It may be called twice.
func (b *bar) end() {
	if b.started {
		b.started = false
		_, _ = fmt.Fprintln(b.out)
	}
}
