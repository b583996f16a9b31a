package redisstore

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/rules"
)

var (
	//go:embed lua/prelude.lua
	prelude string
	//go:embed lua/batch.lua
	batchLua string
	//go:embed lua/limits.lua
	limitsLua string
	//go:embed lua/limit.lua
	limitLua string
	//go:embed lua/register.lua
	registerLua string
	//go:embed lua/read.lua
	readLua string
	//go:embed lua/update.lua
	updateLua string
	//go:embed lua/priority.lua
	priorityLua string
	//go:embed lua/carry.lua
	carryLua string
	//go:embed lua/claim.lua
	claimLua string
	//go:embed lua/settle.lua
	settleLua string
	//go:embed lua/document.lua
	documentLua string
	//go:embed lua/entries.lua
	entriesLua string
	//go:embed lua/find.lua
	findLua string
	//go:embed lua/forget.lua
	forgetLua string
	//go:embed lua/times.lua
	timesLua string
	//go:embed lua/purge.lua
	purgeLua string
	//go:embed lua/hold.lua
	holdLua string
	//go:embed lua/unhold.lua
	unholdLua string
	//go:embed lua/layout.lua
	layoutLua string
	//go:embed lua/back.lua
	backLua string
	//go:embed lua/look.lua
	lookLua string
	//go:embed lua/circuits.lua
	circuitsLua string
	//go:embed lua/swap.lua
	swapLua string
	//go:embed lua/mark.lua
	markLua string
)

// A full Redis refuses only what makes it fuller. The rest must go on, or it
// could never drain.
const (
	refusedWhenFull = ""
	runsWhenFull    = " flags=allow-oom"
	readOnly        = " flags=no-writes"
)

var (
	registerScript = script(batchLua+limitsLua+registerLua, refusedWhenFull)
	readScript     = script(readLua, readOnly)
	updateScript   = script(limitsLua+updateLua, runsWhenFull)
	takeScript     = script(limitsLua+updateLua, refusedWhenFull) // the same for jobs that it does not have yet
	carryScript    = script(limitsLua+priorityLua+carryLua, runsWhenFull)
	claimScript    = script(batchLua+limitsLua+claimLua, runsWhenFull)
	settleScript   = script(batchLua+settleLua, runsWhenFull)
	documentScript = script(documentLua, runsWhenFull)
	entriesScript  = script(entriesLua, readOnly)
	findScript     = script(findLua, readOnly)
	timesScript    = script(timesLua, readOnly)
	forgetScript   = script(forgetLua, runsWhenFull)
	purgeScript    = script(purgeLua, runsWhenFull)
	holdScript     = script(holdLua, runsWhenFull)
	unholdScript   = script(unholdLua, runsWhenFull)
	limitScript    = script(limitLua, runsWhenFull)
	layoutScript   = script(layoutLua, runsWhenFull)
	backScript     = script(backLua, runsWhenFull)
	lookScript     = script(lookLua, runsWhenFull)
	circuitsScript = script(circuitsLua, runsWhenFull)
	swapScript     = script(swapLua, runsWhenFull)
	markScript     = redis.NewScript("#!lua" + runsWhenFull + "\n" + markLua) // sent whole, so kept short
)

// script puts a script together. The numbers of the states come from the
// domain, and what stores agree on from there, so that they stand in one place.
func script(body, flags string) *redis.Script {
	var ofState strings.Builder
	for _, state := range job.States {
		fmt.Fprintf(&ofState, "[%d]='|%d',", state, state)
	}
	numbers := fmt.Sprintf("local WAITING, READY, RUNNING, FINAL, DEAD, LAST = %d, %d, %d, %d, %d, %d\n",
		job.Waiting, job.Ready, job.Running, job.Delivered, job.Dead, len(job.States)-1) +
		"local OF_STATE = {" + ofState.String() + "} -- behind a topic or an endpoint: a field of counts\n" +
		fmt.Sprintf("local DEFAULT_WEIGHT, UNCALLED, LANE_LOOK, PACE_SLACK, PACE_GAP = %d, %d, %d, %d, %d\n",
			store.DefaultWeight, millis(rules.UncalledLook), millis(rules.LaneLook), millis(rules.PaceSlack), millis(rules.PaceGap)) +
		fmt.Sprintf("local ROOM, SMALL, SUSPECT_AFTER, MANY = %d, %d, %d, %d\n", store.BatchBytes, store.SmallRecord, job.SuspectAfter, manyJobs)
	return redis.NewScript("#!lua" + flags + "\n" + numbers + prelude + body)
}

// maxBatch bounds one script's work: while it runs, Redis serves nobody else.
const maxBatch = 500

// eval runs a script whose answer is a list that begins with the server's time.
func (s *Store) eval(ctx context.Context, script *redis.Script, keys []string, args []any) ([]any, error) {
	cmd := script.Run(ctx, s.db, keys, args...)
	if cmd.Err() != nil {
		return nil, s.wrap(cmd.Err())
	}
	return timed(cmd)
}

// timed is the answer of such a script.
func timed(cmd *redis.Cmd) ([]any, error) {
	v, err := cmd.Slice()
	if err != nil {
		return nil, fmt.Errorf("redisstore: a script's answer is no list: %w", err)
	}
	if len(v) == 0 {
		return nil, errNoTime
	}
	if _, ok := v[0].(int64); !ok {
		return nil, errNoTime
	}
	return v, nil
}

var errNoTime = errors.New("redisstore: a script's answer does not begin with the time")
