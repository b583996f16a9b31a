package demo

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/duehook/duehook/internal/job"
)

// timeline prints what happens, when it happens.
type timeline struct {
	out   io.Writer
	color bool
	pause time.Duration // after each line of a story
}

// style is an ANSI escape sequence.
type style string

const (
	plain  style = ""
	bold   style = "\x1b[1m"
	dim    style = "\x1b[2m"
	red    style = "\x1b[31m"
	green  style = "\x1b[32m"
	yellow style = "\x1b[33m"
	reset  style = "\x1b[0m"
)

func (t *timeline) paint(s style, text string) string {
	if !t.color || s == plain {
		return text
	}
	return string(s) + text + string(reset)
}

func (t *timeline) printf(format string, args ...any) {
	_, _ = fmt.Fprintf(t.out, format, args...) // nobody to tell when the terminal is gone
}

func (t *timeline) title(text, below string) {
	t.printf("\n%s\n%s\n\n", t.paint(bold, text), t.paint(dim, below))
}

// at prints a line of the story: when, who and what.
func (t *timeline) at(since time.Duration, who string, s style, format string, args ...any) {
	t.printf("  %s  %-9s %s\n", t.paint(dim, clockText(since)), who, t.paint(s, fmt.Sprintf(format, args...)))
	_ = job.Sleep(context.Background(), job.SystemClock(), t.pause)
}

// clockText is a time of the story as hours, minutes and seconds.
func clockText(since time.Duration) string {
	s := int(max(since, 0) / time.Second)
	return fmt.Sprintf("%02d:%02d:%02d", s/3600, s/60%60, s%60)
}
