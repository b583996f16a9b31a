package redisstore

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/rules"
)

const (
	// lanesAtOnce bounds the lanes of one plan.
	lanesAtOnce = 64
	// lanesInCrowd bounds the lanes that a call looks at while a topic has no place for more jobs in flight.
	lanesInCrowd = maxLanes
)

// inLine is a lane, and the time of its next visit.
type inLine struct {
	lane string
	look job.Instant
}

// lineOf reads a reply of lanes and their scores.
func lineOf(answer []string) ([]inLine, error) {
	line := make([]inLine, len(answer)/2)
	for i := range line {
		look, err := strconv.ParseFloat(answer[2*i+1], 64)
		if err != nil {
			return nil, fmt.Errorf("redisstore: carry answered %q for a look: %w", answer[2*i+1], err)
		}
		line[i] = inLine{answer[2*i], job.Instant(look)}
	}
	return line, nil
}

// once drops repeated lanes, in place.
func once(line []inLine) []inLine {
	seen := make(map[string]struct{}, len(line))
	return slices.DeleteFunc(line, func(l inLine) bool {
		_, again := seen[l.lane]
		seen[l.lane] = struct{}{}
		return again
	})
}

// Carry reads the earliest lanes and carries from those that are due. An idle shard costs
// one command.
func (s *Store) Carry(ctx context.Context, n int, o store.CarryOptions) (store.CarryResult, error) {
	sh := s.shards[n]
	if o.Pull != nil {
		return s.carryFrom(ctx, n, pullLanes(o.Pull), nil, o)
	}
	line, now, err := s.earliestLanes(ctx, sh)
	if err != nil {
		return store.CarryResult{}, err
	}
	if len(line) == 0 {
		return store.CarryResult{Wait: -1}, nil
	}
	if by := sh.clock.wentBack(); by > 0 {
		// The next round reads the lanes again.
		return store.CarryResult{}, s.afterStep(ctx, sh, by, o)
	}
	if wait := line[0].look.Sub(now); wait > 0 {
		return store.CarryResult{Wait: wait}, nil
	}
	var due []string
	for _, l := range line {
		if l.look <= now {
			due = append(due, l.lane)
		}
	}
	if len(due) > lanesAtOnce {
		rules.TakeTurns(due, topicOf)
	}
	due, beyond := due[:min(len(due), lanesAtOnce)], due[min(len(due), lanesAtOnce):]
	// Lanes of one endpoint take its last places in turn.
	rand.Shuffle(len(due), func(i, j int) { due[i], due[j] = due[j], due[i] }) //nolint:gosec // no secret
	return s.carryFrom(ctx, n, slices.Clip(due), beyond, o)
}

// topicOf is the topic of a lane.
func topicOf(lane string) string {
	topic, _, _ := strings.Cut(lane, "|")
	return topic
}

// pullLanes are the names of all lanes that the pull queues of topics may have.
func pullLanes(topics []string) []string {
	var names []string
	for _, topic := range topics {
		for _, l := range job.PullLanes(topic) {
			names = append(names, l.String())
		}
	}
	return names
}

// earliestLanes returns the earliest lanes and the time. If lanes that the last plan left
// are due by now, it returns those, which saves a busy shard a command.
func (s *Store) earliestLanes(ctx context.Context, sh *shard) ([]inLine, job.Instant, error) {
	if line := sh.line.Swap(nil); line != nil && len(*line) > 0 {
		if now, ok := sh.clock.now(); ok && (*line)[0].look <= now {
			return *line, now, nil
		}
	}
	lanes, err := s.db.Do(ctx, "zrange", sh.lanes, 0, lanesAtOnce-1, "withscores").StringSlice()
	if err != nil || len(lanes) == 0 {
		return nil, 0, s.wrap(err)
	}
	line, err := lineOf(lanes)
	if err != nil {
		return nil, 0, err
	}
	now, err := s.serverNow(ctx, sh)
	return line, now, err
}

// serverNow is the server's time: an estimate if it is fresh, otherwise read from the
// server.
func (s *Store) serverNow(ctx context.Context, sh *shard) (job.Instant, error) {
	if now, ok := sh.clock.now(); ok {
		return now, nil
	}
	return s.askNow(ctx, sh)
}

// askNow asks the server for its time.
func (s *Store) askNow(ctx context.Context, sh *shard) (job.Instant, error) {
	// It runs a script with a key of the shard, because in a Cluster a bare TIME may reach
	// any node.
	reply, err := s.eval(ctx, readScript, []string{sh.lock}, []any{0, wholeRecords})
	if err != nil {
		return 0, err
	}
	return sh.clock.observe(reply[0]), nil
}

func isTimeout(err error) bool {
	t, ok := err.(interface{ Timeout() bool })
	return ok && t.Timeout()
}
