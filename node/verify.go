package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/node/config"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/ledger"
)

// errNoLedger is the error of VerifyLedger without a ledger.
var errNoLedger = errors.New("there is no ledger to verify: set --ledger-url")

// VerifyLedger compares the ledger of the settings with the store, and writes each
// difference and a summary to w. It changes neither, and returns the number of
// differences.
func VerifyLedger(ctx context.Context, c *config.Config, w io.Writer) (differences int64, err error) {
	if c.LedgerURL == "" {
		return 0, errNoLedger
	}
	// The store logs nothing: its errors contain the same.
	n := &node{Options: Options{Config: c, Logger: slog.New(slog.DiscardHandler)}, clock: job.SystemClock()}
	s, err := n.openInner(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err := s.Ping(ctx); err != nil {
		return 0, err
	}
	var written error
	v, err := ledger.Verify(ctx, ledger.VerifyOptions{
		URL: c.LedgerURL, Namespace: c.Namespace, Store: s,
		Found: func(d ledger.Disagreement) {
			var failed error
			if d.Err != nil {
				_, failed = fmt.Fprintf(w, "%-20s %s  ledger: %s: %v\n", d.Difference, d.Key, d.Ledger.UID, d.Err)
			} else {
				_, failed = fmt.Fprintf(w, "%-20s %s  ledger: %s  store: %s\n", d.Difference, d.Key, stands(d.Ledger), stands(&d.Store))
			}
			written = errors.Join(written, failed)
		},
	})
	if err = errors.Join(err, written); err != nil {
		return 0, err
	}
	_, err = fmt.Fprintf(w, "%d jobs compared, %d differences\n", v.Checked, v.Differences)
	return v.Differences, err
}

// stands describes a job's state.
func stands(s *store.Standing) string {
	if s == nil || !s.Exists() {
		return "none"
	}
	return fmt.Sprintf("%s v%d %s", s.State, s.Version, s.UID)
}
