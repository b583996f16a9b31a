package redisstore

import (
	"context"
	"crypto/rand"
	"slices"
)

// The epoch of resharded jobs. Without it, the nodes would compare all jobs with the ledger
// first, and jobs with order keys would wait for that.

// takeEpoch gives new shards the epoch of the old ones if those lack no job. A shard
// that loses jobs later loses the epoch, too. Otherwise no shard is whole: it may get jobs
// whose predecessors are missing.
func (m *mover) takeEpoch(ctx context.Context) error {
	if m.report.Resumed { // jobs that were moved may be lost
		return m.forgetEpoch(ctx)
	}
	wholes, err := gather(ctx, m.from, m.from.isWhole)
	if err != nil {
		return err
	}
	epochs, err := m.from.SwapEpoch(ctx, rand.Text(), "")
	if err != nil {
		return err
	}
	other := func(epoch string) bool { return epoch != epochs[0] }
	if slices.Contains(wholes, false) || slices.ContainsFunc(epochs, other) || epochs[0] == "" {
		return m.forgetEpoch(ctx)
	}
	m.epoch = epochs[0]
	_, err = m.to.SwapEpoch(ctx, m.epoch, "")
	return err
}

func (m *mover) forgetEpoch(ctx context.Context) error {
	_, err := m.to.SwapEpoch(ctx, rand.Text(), "")
	return err
}

// confirmEpoch marks the new shards as whole: all jobs of whole shards are there.
func (m *mover) confirmEpoch(ctx context.Context) error {
	if m.epoch == "" {
		return nil
	}
	before, err := m.to.SwapEpoch(ctx, m.epoch, m.epoch)
	lost := slices.ContainsFunc(before, func(had string) bool { return had != m.epoch })
	if err == nil && (lost || m.report.After != m.report.Before) {
		return m.forgetEpoch(ctx)
	}
	return err
}
