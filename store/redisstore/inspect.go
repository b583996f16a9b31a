package redisstore

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// minMajor is the oldest major version of Redis with a flag for scripts that run when
// memory is full.
const minMajor = 7

// VersionError reports that a server is too old. The store sends nothing to it.
type VersionError struct{ Version string }

func (e *VersionError) Error() string {
	return fmt.Sprintf("Redis %s is too old: duehook needs %d.0 or newer", e.Version, minMajor)
}

// inspector checks each server at its first connection, also after a failover, and logs
// settings that endanger jobs.
type inspector struct {
	log      *slog.Logger
	replicas int // that changes are to wait for

	met func() // called for each connection, unless nil

	mu       sync.Mutex
	seen     map[string]bool   // run ids of masters
	policies map[string]string // their memory policies when they were looked at last
}

// onConnect refuses servers that are too old.
func (i *inspector) onConnect(ctx context.Context, conn *redis.Conn) error {
	server, err := info(ctx, conn, "server")
	if err != nil {
		return err
	}
	if server["redis_mode"] == "sentinel" {
		return nil
	}
	version := server["redis_version"]
	major, _, _ := strings.Cut(version, ".")
	if n, err := strconv.Atoi(major); err == nil && n < minMajor {
		return &VersionError{Version: version}
	}
	if i.met != nil {
		i.met()
	}
	if !i.first(server["run_id"]) {
		return nil
	}
	rest, err := info(ctx, conn, "replication", "memory", "persistence")
	if err != nil {
		return err
	}
	if rest["role"] == "slave" {
		i.forget(server["run_id"]) // it may be in charge one day
		return nil
	}
	log := i.log.With("redis", address(ctx, conn))
	if version == "" || rest["role"] == "" {
		log.Info("Redis forbids INFO, so duehook cannot check its version, memory policy and persistence: check them yourself")
		return nil
	}
	i.policy(server["run_id"], rest["maxmemory_policy"], log)
	i.look(rest, log)
	return lookAtDisk(ctx, conn, rest, log)
}

// look warns of dangers that need no settings to detect.
func (i *inspector) look(facts map[string]string, log *slog.Logger) {
	if n, err := strconv.Atoi(facts["connected_slaves"]); err == nil && n < i.replicas {
		log.Warn("Redis has too few replicas to confirm registrations: all are refused until more connect; --redis-min-replicas sets the number",
			"replicas", n, "needed", i.replicas)
	}
}

// policy warns once if a server evicts jobs when its memory is full, and again if it has a new policy.
func (i *inspector) policy(runID, policy string, log *slog.Logger) {
	i.mu.Lock()
	old := i.policies[runID]
	if i.policies == nil {
		i.policies = map[string]string{}
	}
	i.policies[runID] = policy
	i.mu.Unlock()
	switch {
	case policy == old || policy == "":
	case policy != "noeviction":
		log.Warn("Redis evicts waiting jobs when its memory is full: set maxmemory-policy noeviction", "maxmemory_policy", policy)
	case old != "":
		log.Info("Redis keeps waiting jobs when its memory is full again", "maxmemory_policy", policy)
	}
}

// lookAtDisk warns when a restart of the server would lose jobs.
func lookAtDisk(ctx context.Context, conn *redis.Conn, facts map[string]string, log *slog.Logger) error {
	settings, err := conn.Do(ctx, "config", "get", "appendfsync", "save").StringSlice()
	if err != nil && !isReply(err) {
		return err
	}
	allowed := err == nil
	value := map[string]string{}
	for i := 0; i+1 < len(settings); i += 2 {
		value[settings[i]] = settings[i+1]
	}
	aof := facts["aof_enabled"] == "1"
	switch {
	case aof && !allowed:
		log.Info("Redis forbids CONFIG, so duehook cannot check appendfsync: check it yourself")
	case aof && value["appendfsync"] != "always":
		log.Info("Redis answers before its disk has the data: a crash can lose the last registrations; appendfsync always prevents it", "appendfsync", value["appendfsync"])
	case aof:
	case !allowed:
		log.Warn("Redis writes no append-only file, so a restart loses jobs: set appendonly yes; Redis forbids CONFIG, so duehook cannot check snapshots")
	case value["save"] == "":
		log.Warn("Redis stores nothing on disk: a restart loses all jobs; set appendonly yes")
	default:
		log.Warn("Redis stores snapshots only: a restart loses everything since the last one; set appendonly yes", "save", value["save"])
	}
	return nil
}

// first reports whether the server was not checked before.
func (i *inspector) first(runID string) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.seen[runID] {
		return false
	}
	i.seen[runID] = true
	return true
}

func (i *inspector) forget(runID string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.seen, runID)
}

// ServerVersion returns the version of Redis, of one server in a Cluster.
func (s *Store) ServerVersion(ctx context.Context) (string, error) {
	facts, err := s.db.InfoMap(ctx, "server").Result()
	return facts["Server"]["redis_version"], s.wrap(err)
}

// info returns the fields of INFO, none if the server refuses it.
func info(ctx context.Context, conn *redis.Conn, sections ...any) (map[string]string, error) {
	text, err := conn.Do(ctx, append([]any{"info"}, sections...)...).Text()
	if err != nil && !isReply(err) {
		return nil, err
	}
	facts := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			facts[name] = value
		}
	}
	return facts, nil
}

// address is the server's end of a connection, for the log.
func address(ctx context.Context, conn *redis.Conn) string {
	text, err := conn.Do(ctx, "client", "info").Text()
	if err != nil {
		return ""
	}
	_, after, _ := strings.Cut(text, " laddr=")
	addr, _, _ := strings.Cut(after, " ")
	return addr
}
