package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/duehook/duehook/job"
)

// DefaultLimit is how long the demo may take, in real time. A run takes half a minute; the
// limit ends those that hang, not those on a slow machine.
const DefaultLimit = 5 * time.Minute

// ErrFailed is wrapped by the error of a demo whose expectations did not hold.
var ErrFailed = errors.New("the demo did not go as expected")

// Options of Run.
type Options struct {
	// Jobs holds order-timeout.json and payment-notify.json.
	Jobs fs.FS
	// Out gets the timeline, coloured if Color is set.
	Out     io.Writer
	Color   bool
	Version string // of duehook
	// Limit is how long it may take, in real time; zero means DefaultLimit.
	Limit time.Duration
}

// show is one run of the demo.
type show struct {
	Options
	*timeline
	*checks
	dir string
	log *slog.Logger
}

// Run plays the stories and checks them. What went wrong is told in Out; the
// error then wraps ErrFailed.
func Run(ctx context.Context, o Options) (err error) {
	clock := job.SystemClock()
	began := clock.Now()
	dir, err := os.MkdirTemp("", "duehook-demo-")
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if o.Limit == 0 {
		o.Limit = DefaultLimit
	}
	ctx, cancel := context.WithTimeout(ctx, o.Limit)
	defer cancel()

	var log logBuffer
	w := &show{
		Options: o, timeline: &timeline{out: o.Out, color: o.Color},
		dir: dir, log: slog.New(slog.NewTextHandler(&log, nil)),
	}
	w.printf("%s\n%s\n", w.paint(bold, "duehook, a demonstration in two stories"),
		w.paint(dim, "Everything runs in this process; the calls and callbacks are real HTTP, only the clocks run fast."))

	failed := 0
	for _, story := range []func(context.Context, *show) error{tellOrders, tellPayments} {
		w.checks = &checks{}
		if err := story(ctx, w); err != nil {
			w.print(w.timeline)
			log.print(w.timeline)
			if errors.Is(ctx.Err(), context.DeadlineExceeded) { // whatever it waited for
				err = fmt.Errorf("stopped after %v, its limit: %w", o.Limit, err)
			}
			return fmt.Errorf("%w: %w", ErrFailed, err)
		}
		w.print(w.timeline)
		failed += w.failed()
	}
	took := clock.Now().Sub(began).Round(100 * time.Millisecond)
	if failed > 0 {
		log.print(w.timeline)
		w.printf("\n%s\n", w.paint(red, fmt.Sprintf("%d expectations did not hold (%s)", failed, took)))
		return ErrFailed
	}
	w.printf("\n%s\n", w.paint(green, fmt.Sprintf("All expectations held (%s).", took)))
	w.printf("Next: duehook serve --allow-cidrs 127.0.0.0/8, and register a job of your own.\n")
	return nil
}

// finish closes the stage; a story counts as failed if that does.
func (s *stage) finish(err *error) {
	if closing := s.close(); closing != nil {
		*err = errors.Join(*err, fmt.Errorf("demo: shutting down: %w", closing))
	}
}

// clockNote explains a story's clock.
func clockNote(speed float64) string {
	return fmt.Sprintf("One second here is %s there; times count from the start of the story.",
		job.FormatDuration(time.Duration(speed*float64(time.Second))))
}

// logBuffer keeps the last of what duehook logs.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// maxLog is more than a demo logs that goes well.
const maxLog = 64 << 10

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if over := b.buf.Len() + len(p) - maxLog; over > 0 {
		b.buf.Next(over)
	}
	return b.buf.Write(p)
}

func (b *logBuffer) print(t *timeline) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.buf.Len() > 0 {
		t.printf("\nWhat duehook logged meanwhile:\n%s", b.buf.String())
	}
}
