package redisstore

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/rules"
)

//go:embed lua
var luaFiles embed.FS

func lua(name string) string {
	text, err := luaFiles.ReadFile("lua/" + name + ".lua")
	if err != nil {
		panic(err) // a misspelled name
	}
	return string(text)
}

// A full Redis refuses only scripts that need more memory. The others must run, or it could
// never drain.
const (
	refusedWhenFull = ""
	runsWhenFull    = " flags=allow-oom"
	readOnly        = " flags=no-writes"
)

const keysOfChange = "lanes counts circuits deads topics places ranks index busy endings heads turns calls"

var (
	registerScript = newScript(refusedWhenFull, "lanes counts circuits topics ranks index busy heads turns calls", "base", "states", "lanes", "turns", "batch", "limits", "register")
	claimScript    = newScript(runsWhenFull, "lanes counts circuits topics places busy heads turns calls", "base", "record", "parse", "states", "lanes", "turns", "batch", "limits", "claim")
	countScript    = newScript(runsWhenFull, "lanes circuits", "base", "record", "parse", "states", "lanes", "count")
	recallScript   = newScript(refusedWhenFull, "lanes circuits", "base", "record", "parse", "states", "lanes", "count") // for keys to remember
	settleScript   = newScript(refusedWhenFull, keysOfChange, "base", "record", "states", "lanes", "turns", "batch", "limits", "entry", "settle")
	drainScript    = newScript(runsWhenFull, keysOfChange, "base", "record", "states", "lanes", "turns", "batch", "limits", "entry", "settle") // with shorter logs
	changeScript   = newScript(runsWhenFull, keysOfChange, "base", "states", "lanes", "turns", "batch", "limits", "entry", "change")
	takeScript     = newScript(refusedWhenFull, keysOfChange, "base", "states", "lanes", "turns", "batch", "limits", "entry", "change") // for jobs that it does not have yet
	lookScript     = newScript(runsWhenFull, "lanes", "base", "states", "lanes", "look")
	readScript     = newScript(readOnly, "", "base", "read")
	findScript     = newScript(readOnly, "", "find")
	fieldsScript   = newScript(runsWhenFull, "plan", "fields")
	reserveScript  = newScript(refusedWhenFull, "plan", "fields") // for jobs to come
	entriesScript  = newScript(readOnly, "", "entries")
	rememberScript = newScript(refusedWhenFull, "", "remember")
	markScript     = newScript(runsWhenFull, "", "mark")

	takesScript = newScript(refusedWhenFull, takenKeys, "takes")

	factsScript = newScript(runsWhenFull, "lanes counts circuits ready topics tokens places ranks calls plan", "base", "states", "facts")
	carryScript = newScript(runsWhenFull, "lanes counts circuits ready tokens places ranks index busy calls plan", "base", "states", "lanes", "carry")
)

// libraries are the files of lua/lib, which several scripts begin with.
var libraries = []string{"base", "record", "parse", "states", "lanes", "batch", "entry", "limits", "turns"}

// ownKeys are the names of the shard's keys with which the keys of a script begin.
var ownKeys = map[*redis.Script][]string{}

// newScript joins files of lua into a script. Its first keys are keys of the shard, which the
// script has as local variables of these names; OWN_KEYS is their number. Constants come from
// the domain and the store.
func newScript(flags, keys string, files ...string) *redis.Script {
	var b strings.Builder
	fmt.Fprintf(&b, "#!lua%s\n", flags)
	names := strings.Fields(keys)
	if len(names) > 0 {
		b.WriteString("local places, index -- lua/lib/lanes.lua checks whether the script has them\n")
		at := make([]string, len(names))
		for i := range at {
			at[i] = fmt.Sprintf("KEYS[%d]", i+1)
		}
		fmt.Fprintf(&b, "local %s = %s\nlocal OWN_KEYS = %d\n", strings.Join(names, ", "), strings.Join(at, ", "), len(names))
	}
	if len(files) > 1 {
		b.WriteString(constants())
	}
	for _, name := range files {
		if slices.Contains(libraries, name) {
			name = "lib/" + name
		}
		b.WriteString(lua(name))
	}
	s := redis.NewScript(b.String())
	ownKeys[s] = names
	return s
}

// constants are the constants of the domain and the store that scripts use.
func constants() string {
	var ofState strings.Builder
	for _, state := range job.States {
		fmt.Fprintf(&ofState, "[%d]='|%d',", state, state)
	}
	return fmt.Sprintf("local WAITING, READY, RUNNING, FINAL, DEAD, LAST = %d, %d, %d, %d, %d, %d\n",
		job.Waiting, job.Ready, job.Running, job.Delivered, job.Dead, len(job.States)-1) +
		"local OF_STATE = {" + ofState.String() + "} -- behind a topic or an endpoint: a field of counts\n" +
		fmt.Sprintf("local LETTERS, RIVALS, AT_ONCE, CALLS = '%s', %d, %d, %d\n", laneLetters(), rules.MaxRivals, lanesAtOnce, maxBatch) +
		fmt.Sprintf("local ROOM, SMALL, SUSPECT_AFTER, MANY = %d, %d, %d, %d\n", store.BatchBytes, store.SmallRecord, job.SuspectAfter, manyJobs) +
		fmt.Sprintf("local PULLED, PULL_CHANNEL, NEVER = '|%s', '%s', %d\n", job.PullQueue, pullChannel, parked) +
		fmt.Sprintf("local ORDERED, CLAIMED_TURN, FRESH_TURN = '|[%s]|', '%d', '%d'\n", orderedLetters(), job.Claimed, job.Fresh) +
		fmt.Sprintf("local TURN, DIGITS, UID, PARK = %d, %d, %d, %d\n", turnLen, turnLen-uidLen, uidLen, parked)
}

// ownKeysOf returns the keys of a shard for each script. Calls append to them, so they
// have no room to spare.
func ownKeysOf(prefix string) map[*redis.Script][]string {
	own := make(map[*redis.Script][]string, len(ownKeys))
	for script, names := range ownKeys {
		keys := make([]string, len(names))
		for i, name := range names {
			keys[i] = prefix + name
		}
		own[script] = keys
	}
	return own
}

// maxBatch bounds one script's work: while it runs, Redis serves nobody else.
const maxBatch = 500

// maxLanes bounds the lanes of a batch: a job in a lane of its own takes three times as long as one that shares its lane.
const maxLanes = 128

// batchOf is how many of the first n jobs make a batch: up to maxBatch, in up to maxLanes lanes.
func batchOf(n int, lane func(i int) job.Lane) int {
	if n = min(n, maxBatch); n <= maxLanes {
		return n
	}
	lanes := make(map[job.Lane]struct{}, maxLanes)
	for i := range n {
		if lanes[lane(i)] = struct{}{}; len(lanes) > maxLanes {
			return i
		}
	}
	return n
}

// maxRegister bounds the registrations of a script. Each may have an endpoint of its own, as in
// a fan-out: then 200 take Redis 3 ms and 1,000 would take 20 ms. Smaller parts save nothing.
const maxRegister = 200

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

var errNoTime = errors.New("redisstore: a script's answer lacks the time")

// laneLetters are the letters by which the lanes of one topic and endpoint differ.
func laneLetters() string {
	var letters strings.Builder
	for n := job.MaxPriority; n >= job.MinPriority; n-- {
		for _, ordered := range []bool{false, true} {
			letters.WriteByte(letterOf(n, ordered))
		}
	}
	return letters.String()
}

// orderedLetters are those of lanes whose jobs have order keys.
func orderedLetters() string {
	var letters strings.Builder
	for n := job.MaxPriority; n >= job.MinPriority; n-- {
		letters.WriteByte(letterOf(n, true))
	}
	return letters.String()
}

func letterOf(priority int, ordered bool) byte {
	return job.Lane{Priority: job.PriorityOf(priority), Ordered: ordered}.String()[1]
}
