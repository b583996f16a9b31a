package redisstore

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/duehook/duehook/job"
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

// A full Redis refuses only what makes it fuller. The rest must go on, or it
// could never drain.
const (
	refusedWhenFull = ""
	runsWhenFull    = " flags=allow-oom"
	readOnly        = " flags=no-writes"
)

const keysOfUpdate = "lanes counts out held deads topics places ranks index busy endings; " +
	"page old_bucket old_dead old_biz new_bucket new_dead new_biz ended"

var (
	registerScript = newScript(refusedWhenFull, "lanes counts held topics ranks index busy", "base", "counts", "lanes", "batch", "limits", "register")
	claimScript    = newScript(runsWhenFull, "lanes counts out held topics places busy", "base", "record", "counts", "lanes", "batch", "limits", "claim")
	settleScript   = newScript(runsWhenFull, "lanes counts out held deads places ranks index busy endings", "base", "record", "counts", "lanes", "batch", "settle")
	updateScript   = newScript(runsWhenFull, keysOfUpdate, "base", "counts", "lanes", "limits", "update")
	takeScript     = newScript(refusedWhenFull, keysOfUpdate, "base", "counts", "lanes", "limits", "update") // for jobs that it does not have yet
	purgeScript    = newScript(runsWhenFull, "counts index endings", "base", "counts", "purge")
	lookScript     = newScript(runsWhenFull, "lanes held", "base", "counts", "lanes", "look")
	readScript     = newScript(readOnly, "", "base", "read")
	findScript     = newScript(readOnly, "", "find")
	entriesScript  = newScript(readOnly, "", "entries")
	documentScript = newScript(runsWhenFull, "", "document")
	layoutScript   = newScript(runsWhenFull, "", "layout")
	swapScript     = newScript(runsWhenFull, "", "swap")

	carryScript    = newScript(runsWhenFull, "", "base", "counts", "lanes", "limits", "priority", "carry")
	holdScript     = newScript(runsWhenFull, "", "base", "counts", "lanes", "hold")
	unholdScript   = newScript(runsWhenFull, "", "base", "unhold")
	circuitsScript = newScript(runsWhenFull, "", "base", "circuits")
	limitScript    = newScript(runsWhenFull, "", "limit")
	dueScript      = newScript(readOnly, "", "due")
	outlookScript  = newScript(readOnly, "", "base", "outlook")
)

// libraries are the files of lua/lib, which several scripts begin with.
var libraries = []string{"base", "record", "counts", "lanes", "batch"}

// ownKeys are the names of the shard's keys with which the keys of a script begin.
var ownKeys = map[*redis.Script][]string{}

// newScript joins files of lua into a script. Its first keys have the names given, as
// local variables: those of the shard's keys, and behind a semicolon those of the call's.
// OWN_KEYS is their number. Constants come from the domain and the store.
func newScript(flags, keys string, files ...string) *redis.Script {
	var b strings.Builder
	fmt.Fprintf(&b, "#!lua%s\n", flags)
	ofShard, ofCall, _ := strings.Cut(keys, ";")
	names := slices.Concat(strings.Fields(ofShard), strings.Fields(ofCall))
	if len(names) > 0 {
		at := make([]string, len(names))
		for i := range at {
			at[i] = fmt.Sprintf("KEYS[%d]", i+1)
		}
		fmt.Fprintf(&b, "local %s = %s\n", strings.Join(names, ", "), strings.Join(at, ", "))
	}
	if len(files) > 1 {
		fmt.Fprintf(&b, "local OWN_KEYS = %d\n%s", len(names), constants())
	}
	for _, name := range files {
		if slices.Contains(libraries, name) {
			name = "lib/" + name
		}
		b.WriteString(lua(name))
	}
	s := redis.NewScript(b.String())
	ownKeys[s] = strings.Fields(ofShard)
	return s
}

// constants are what scripts take from the domain and the store.
func constants() string {
	var ofState strings.Builder
	for _, state := range job.States {
		fmt.Fprintf(&ofState, "[%d]='|%d',", state, state)
	}
	return fmt.Sprintf("local WAITING, READY, RUNNING, FINAL, DEAD, LAST = %d, %d, %d, %d, %d, %d\n",
		job.Waiting, job.Ready, job.Running, job.Delivered, job.Dead, len(job.States)-1) +
		"local OF_STATE = {" + ofState.String() + "} -- behind a topic or an endpoint: a field of counts\n" +
		fmt.Sprintf("local DEFAULT_WEIGHT, UNCALLED, LANE_LOOK, PACE_SLACK, PACE_GAP = %d, %d, %d, %d, %d\n",
			store.DefaultWeight, millis(rules.UncalledLook), millis(rules.LaneLook), millis(rules.PaceSlack), millis(rules.PaceGap)) +
		fmt.Sprintf("local ROOM, SMALL, SUSPECT_AFTER, MANY = %d, %d, %d, %d\n", store.BatchBytes, store.SmallRecord, job.SuspectAfter, manyJobs)
}

// own are the shard's keys of a script, and more keys behind them.
func (k *shardKeys) own(script *redis.Script, more ...string) []string {
	names := ownKeys[script]
	keys := make([]string, 0, len(names)+len(more))
	for _, name := range names {
		keys = append(keys, k.prefix+name)
	}
	return append(keys, more...)
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
