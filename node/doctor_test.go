package node

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/duehook/duehook/internal/testing/testenv"
	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store/redisstore"
)

// finds runs Doctor, and wants a finding with each status and part of a message.
func finds(t *testing.T, flags []string, want ...[3]string) {
	t.Helper()
	findings := Doctor(t.Context(), load(t, append(flags, "--addr=127.0.0.1:0")...), job.SystemClock())
	for _, w := range want {
		found := false
		for _, f := range findings {
			found = found || f.Check == w[0] && f.Status == w[1] && strings.Contains(f.Message, w[2])
		}
		if !found {
			t.Errorf("%s: no %s with %q among\n%v", w[0], w[1], w[2], findings)
		}
	}
}

func TestDoctorOfAnEmbeddedNode(t *testing.T) {
	fresh := filepath.Join(t.TempDir(), "data")
	finds(t, []string{"--data-dir", fresh},
		[3]string{"settings", FoundOK, fresh}, [3]string{"open files", FoundOK, "the limit is"}, [3]string{"data directory", FoundOK, "free space"},
		[3]string{"master key", FoundOK, "the first start makes"}, [3]string{"address", FoundOK, "is free"})
	if _, err := os.Stat(fresh); err == nil {
		t.Error("the doctor made the data directory")
	}
	open := t.TempDir()
	if err := os.Chmod(open, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(open, masterKeyFile), []byte("short"), 0o644); err != nil {
		t.Fatal(err)
	}
	finds(t, []string{"--data-dir", open, "--workers=100000", "--signing=on"},
		[3]string{"data directory", FoundProblem, "chmod 700"}, [3]string{"master key", FoundProblem, "chmod 600"},
		[3]string{"master key", FoundProblem, "set --master-key"}, [3]string{"open files", FoundProblem, "--workers"})
	finds(t, []string{"--data-dir", filepath.Join(open, masterKeyFile)}, [3]string{"data directory", FoundProblem, "not a directory"})
	finds(t, []string{"--tls-cert=none.pem", "--tls-key=none.pem", "--signing=off"},
		[3]string{"certificate", FoundProblem, "none.pem"}, [3]string{"master key", FoundNote, "--signing is off"})
}

func TestDoctorOfANodeOnRedis(t *testing.T) {
	redis := testenv.StartRedis(t)
	on := func(more ...string) []string {
		return append([]string{"--data-dir", t.TempDir(), "--redis-url", redis.URL()}, more...)
	}
	finds(t, on("--redis-min-replicas=1"),
		[3]string{"redis", FoundOK, "answers: Redis "}, [3]string{"clock", FoundOK, "agree"}, [3]string{"redis", FoundProblem, "appendonly yes"},
		[3]string{"redis", FoundProblem, "too few replicas"}, [3]string{"master key", FoundNote, "all other nodes"})
	// It wrote no layout: nodes with any number of shards start.
	s := start(t, load(t, on("--addr=127.0.0.1:0", "--shards=3")...))
	if err := s.shutdown(); err != nil {
		t.Error(err)
	}
	finds(t, on(), [3]string{"redis", FoundProblem, "start all nodes with --shards 3"})
	finds(t, on("--shards=3"), [3]string{"signing secrets", FoundProblem, "cannot be decrypted"})
	old := testenv.PretendRedis(t, "redis_version:6.2.1\r\n", "")
	finds(t, []string{"--redis-url=redis://" + old}, [3]string{"redis", FoundProblem, (&redisstore.VersionError{Version: "6.2.1"}).Error()})
	finds(t, []string{"--redis-url=redis://:pw@127.0.0.1:1"}, [3]string{"redis", FoundUnreachable, "redis://:***@127.0.0.1:1: "})
}

func TestDoctorJudgesTheClock(t *testing.T) {
	for _, c := range []struct {
		ahead, call time.Duration
		want        string
	}{
		{time.Second, time.Second, FoundOK},
		{-time.Second, 0, FoundOK},
		{4 * time.Second, time.Second, FoundNote},
		{-3 * time.Second, 0, FoundNote},
		{-6 * time.Minute, 0, FoundProblem},
		{6 * time.Minute, time.Second, FoundProblem},
	} {
		d := &doctor{}
		if d.skew(c.ahead, c.call); d.findings[0].Status != c.want {
			t.Errorf("%v ahead after %v: %v, want %s", c.ahead, c.call, d.findings, c.want)
		}
	}
}

func TestFindingsOfALog(t *testing.T) {
	d := &doctor{}
	log := slog.New(&findingLog{d: d, check: "redis"}).With("redis", "a:1")
	log.Debug("nothing")
	log.Info("look", "n", 1)
	log.Warn("beware")
	want := []Finding{{"redis", FoundNote, "look (redis a:1, n 1)"}, {"redis", FoundProblem, "beware (redis a:1)"}}
	if len(d.findings) != 2 || d.findings[0] != want[0] || d.findings[1] != want[1] {
		t.Errorf("found %v, want %v", d.findings, want)
	}
}
