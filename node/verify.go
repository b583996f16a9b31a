package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/node/config"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/ledger"
)

// errNoLedger is the error of VerifyLedger without a ledger.
var errNoLedger = errors.New("there is no ledger to verify: set --ledger-url")

// Standing is a job on one side of a difference.
type Standing struct {
	State   string `json:"state"`
	Version uint64 `json:"version"`
	UID     string `json:"uid"`
}

// Difference is a job of which ledger and store differ, in the JSON of duehook ledger verify. A side
// without the job is null.
type Difference struct {
	Difference string    `json:"difference"`
	Topic      string    `json:"topic"`
	ID         string    `json:"id"`
	Ledger     *Standing `json:"ledger"`
	Store      *Standing `json:"store"`
	Error      string    `json:"error,omitempty"` // why the ledger's cannot be read; the store was not asked then
}

func (d Difference) String() string {
	if d.Error != "" {
		return fmt.Sprintf("%-20s %s/%s  ledger: %s: %s", d.Difference, d.Topic, d.ID, d.Ledger.UID, d.Error)
	}
	return fmt.Sprintf("%-20s %s/%s  ledger: %s  store: %s", d.Difference, d.Topic, d.ID, d.Ledger, d.Store)
}

func (s *Standing) String() string {
	if s == nil {
		return "none"
	}
	return fmt.Sprintf("%s v%d %s", s.State, s.Version, s.UID)
}

func standing(s *store.Standing) *Standing {
	if s == nil || !s.Exists() {
		return nil
	}
	return &Standing{s.State.String(), s.Version, s.UID}
}

// Verified counts what VerifyLedger found.
type Verified struct {
	Compared    int64 `json:"compared"`
	Differences int64 `json:"differences"`
}

func (v Verified) String() string {
	return fmt.Sprintf("%d jobs compared, %d differences", v.Compared, v.Differences)
}

// VerifyLedger compares the ledger of the settings with the store, and shows each
// difference and a Verified. It changes neither, and returns the number of
// differences.
func VerifyLedger(ctx context.Context, c *config.Config, show func(fmt.Stringer) error) (differences int64, err error) {
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
			found := Difference{Difference: string(d.Difference), Topic: d.Key.Topic, ID: d.Key.ID, Ledger: standing(d.Ledger), Store: standing(&d.Store)}
			if d.Err != nil {
				found.Error = d.Err.Error()
			}
			written = errors.Join(written, show(found))
		},
	})
	if err = errors.Join(err, written); err != nil {
		return 0, err
	}
	return v.Differences, show(Verified{v.Checked, v.Differences})
}
