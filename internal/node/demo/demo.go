package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"time"

	"github.com/duehook/duehook/internal/job"
)

// limit is how long the demo may take, in the machine's time. It ends a run that hangs.
const limit = 2 * time.Minute

// ErrFailed is wrapped by the error of a demo whose expectations did not hold.
var ErrFailed = errors.New("the demo did not go as expected")

// Options of Run.
type Options struct {
	// Jobs holds order-timeout.json and payment-notify.json.
	Jobs fs.FS
	// Out gets the timeline, coloured if Color is set. Each line of a story takes Pause.
	Out     io.Writer
	Color   bool
	Pause   time.Duration
	Version string // of duehook
}

// Run plays the stories and checks them. What went wrong is written to Out; the
// error then wraps ErrFailed.
func Run(ctx context.Context, o Options) (err error) {
	clock := job.SystemClock()
	began := clock.Now()
	dir, err := os.MkdirTemp("", "duehook-demo-")
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	t := &timeline{out: o.Out, color: o.Color, pause: o.Pause}
	t.printf("%s\n%s\n", t.paint(bold, "duehook, a demonstration in two stories"),
		t.paint(dim, "Everything runs in this process. The calls and deliveries are real HTTP; only the clock jumps."))

	var log bytes.Buffer
	failed, err := play(ctx, &o, t, dir, slog.New(slog.NewTextHandler(&log, nil)))
	took := clock.Now().Sub(began).Round(100 * time.Millisecond)
	if err == nil && failed == 0 {
		t.printf("\n%s\n", t.paint(green, fmt.Sprintf("All expectations held (%s).", took)))
		t.printf("Next: duehook dev, and register a job of your own.\n")
		return nil
	}
	t.printf("\nWhat duehook logged meanwhile:\n%s", log.String())
	if err != nil {
		return fmt.Errorf("%w: %w", ErrFailed, err)
	}
	t.printf("\n%s\n", t.paint(red, fmt.Sprintf("%d expectations did not hold (%s)", failed, took)))
	return ErrFailed
}

// play plays both stories on one stage, and returns how many expectations did not hold.
func play(ctx context.Context, o *Options, t *timeline, dir string, log *slog.Logger) (failed int, err error) {
	var orders ordersFile
	var payments paymentsFile
	if err := errors.Join(read(o.Jobs, "order-timeout.json", &orders), read(o.Jobs, "payment-notify.json", &payments)); err != nil {
		return 0, err
	}
	if len(orders.Orders) == 0 || len(payments.Payments) == 0 {
		return 0, errors.New("demo: a story has no jobs")
	}
	s, err := openStage(ctx, o, t, dir, log)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	for _, story := range []func(context.Context, *stage) error{orders.play, payments.play} {
		s.checks, s.start = &checks{}, s.dev.Clock.Now()
		err := story(ctx, s)
		failed += s.checks.print(t)
		if err != nil {
			return failed, err
		}
	}
	return failed, nil
}

// read reads a file of definitions.
func read(files fs.FS, name string, into any) error {
	content, err := fs.ReadFile(files, name)
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return fmt.Errorf("demo: %s: %w", name, err)
	}
	return nil
}
