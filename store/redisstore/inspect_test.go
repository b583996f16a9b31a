package redisstore

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/duehook/duehook/internal/testing/testenv"
	"github.com/duehook/duehook/store"
)

// said collects what is logged.
type said struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

// take gives level and message of each line so far, and forgets them.
func (s *said) take() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var lines []string
	for line := range strings.Lines(s.text.String()) {
		lines = append(lines, strings.TrimSpace(line))
	}
	s.text.Reset()
	return lines
}

// inspected is a store whose log goes to said, without what changes from run to run.
func inspected(t *testing.T, o Options) (*Store, *said) {
	t.Helper()
	out := &said{}
	o.Logger = slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey || a.Key == "redis" {
			return slog.Attr{}
		}
		return a
	}}))
	s, err := prepare(o, true)
	ok(t, "prepare", err)
	t.Cleanup(func() { _ = s.Close() })
	return s, out
}

func TestInspection(t *testing.T) {
	durable := []string{"--appendonly", "yes", "--appendfsync", "always"}
	for _, tc := range []struct {
		name     string
		args     []string
		replicas int
		denied   string // commands that the user may not use
		want     []string
	}{
		{name: "as it should be", args: durable},
		{
			name: "nothing on disk",
			want: []string{`level=WARN msg="Redis stores nothing on disk: a restart loses all jobs; set appendonly yes"`},
		},
		{
			name: "snapshots only", args: []string{"--save", "3600 1"},
			want: []string{`level=WARN msg="Redis stores snapshots only: a restart loses everything since the last one; set appendonly yes" save="3600 1"`},
		},
		{
			name: "the disk is not waited for", args: []string{"--appendonly", "yes"},
			want: []string{`level=INFO msg="Redis answers before its disk has the data: a crash can lose the last registrations; appendfsync always prevents it" appendfsync=everysec`},
		},
		{
			name: "eviction", args: append([]string{"--maxmemory-policy", "allkeys-lru"}, durable...),
			want: []string{`level=WARN msg="Redis evicts waiting jobs when its memory is full: set maxmemory-policy noeviction" maxmemory_policy=allkeys-lru`},
		},
		{
			name: "too few replicas", args: durable, replicas: 2,
			want: []string{`level=WARN msg="Redis has too few replicas to confirm registrations: all are refused until more connect; --redis-min-replicas sets the number" replicas=0 needed=2`},
		},
		{
			name: "settings are a secret", denied: "-config",
			want: []string{`level=WARN msg="Redis writes no append-only file, so a restart loses jobs: set appendonly yes; Redis forbids CONFIG, so duehook cannot check snapshots"`},
		},
		{
			name: "settings are a secret, with a file", args: durable, denied: "-config",
			want: []string{`level=INFO msg="Redis forbids CONFIG, so duehook cannot check appendfsync: check it yourself"`},
		},
		{
			name: "everything is a secret", denied: "-info -config",
			want: []string{`level=INFO msg="Redis forbids INFO, so duehook cannot check its version, memory policy and persistence: check them yourself"`},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			server := testenv.StartRedis(t, testenv.WithArgs(tc.args...),
				testenv.WithArgs("--user", "app", "on", ">pw", "~*", "&*", "+@all"), testenv.WithArgs(strings.Fields(tc.denied)...))
			s, log := inspected(t, Options{URL: "redis://app:pw@" + server.Addr(), MinReplicas: tc.replicas})
			for range 3 {
				ok(t, "Ping", s.Ping(t.Context()))
				if _, err := s.Pop(t.Context(), 0, 1, 0); err != nil { // on another connection
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(tc.want, log.take()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A server that was started again, as one that took over, may have other settings.
func TestInspectionAfterRestart(t *testing.T) {
	server := testenv.StartRedis(t, testenv.WithAOF())
	s, log := inspected(t, Options{URL: server.URL()})
	ok(t, "Ping", s.Ping(t.Context()))
	if got := log.take(); got != nil {
		t.Errorf("at first: %q", got)
	}
	server.Stop()
	testenv.WithArgs("--maxmemory-policy", "volatile-ttl")(server)
	server.Start()
	testenv.Eventually(t, testenv.Patience, func() bool { return s.Ping(t.Context()) == nil }, "Redis to be back")
	if got := log.take(); len(got) != 1 || !strings.Contains(got[0], "volatile-ttl") {
		t.Errorf("after the restart: %q", got)
	}
}

// TestOldRedis: a server whose scripts cannot say that they run when memory is
// full is refused, with a reason.
func TestOldRedis(t *testing.T) {
	for version, old := range map[string]bool{"6.2.14": true, "7.0.0": false, "10.1.0": false, "unstable": false} {
		info := "redis_version:" + version + "\r\nrun_id:1\r\nrole:master\r\nmaxmemory_policy:noeviction\r\naof_enabled:1\r\n"
		s, err := prepare(Options{URL: "redis://" + testenv.PretendRedis(t, info, fmt.Sprintf(`{"layout":%d,"shards":1}`, layoutVersion))}, true)
		ok(t, "prepare", err)
		err = s.Ping(t.Context())
		var tooOld *VersionError
		if old {
			if !errors.As(err, &tooOld) || !errors.Is(err, store.ErrUnavailable) ||
				!strings.Contains(err.Error(), "Redis 6.2.14 is too old: duehook needs 7.0 or newer") {
				t.Errorf("Redis %s: %v", version, err)
			}
		} else if err != nil {
			t.Errorf("Redis %s: %v", version, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}
