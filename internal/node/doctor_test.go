package node

import (
	"archive/zip"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/duehook/duehook/internal/documents"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/node/config"
	"github.com/duehook/duehook/internal/schedule"
	"github.com/duehook/duehook/internal/testing/must"
	"github.com/duehook/duehook/internal/testing/testenv"
	"github.com/duehook/duehook/store/redisstore"
)

// finds runs Doctor, and wants a finding with each status and part of a message.
func finds(t *testing.T, flags []string, want ...[3]string) {
	t.Helper()
	findings := Doctor(t.Context(), load(t, append(flags, "--addr=127.0.0.1:0")...), job.SystemClock(), false)
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
		[3]string{"settings", FoundOK, fresh}, [3]string{"workers", FoundOK, "512 workers"}, [3]string{"open files", FoundOK, "the limit is"}, [3]string{"data directory", FoundOK, "free space"},
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

// The doctor names the databases of inboxes, without their passwords.
func TestDoctorOfInboxes(t *testing.T) {
	flags := []string{"--data-dir", t.TempDir(), "--inbox-url=gone=postgres://duehook:hunter2@127.0.0.1:1/shop,lost=mysql://duehook:hunter2@127.0.0.1:1/shop"}
	finds(t, flags,
		[3]string{"inboxes", FoundUnreachable, "gone, postgres://duehook:***@127.0.0.1:1/shop: "}, [3]string{"inboxes", FoundUnreachable, "lost, mysql://duehook:***@127.0.0.1:1/shop: "})
	for _, f := range Doctor(t.Context(), load(t, append(flags, "--addr=127.0.0.1:0")...), job.SystemClock(), false) {
		if strings.Contains(f.Message, "hunter2") {
			t.Errorf("a password is shown: %s", f.Message)
		}
	}
	server := testenv.Postgres(t, false)
	finds(t, []string{"--data-dir", t.TempDir(), "--inbox-url=shop=" + server.URL("postgres")}, [3]string{"inboxes", FoundProblem, "apply what duehook inbox sql --dialect postgres prints"})
}

// With a single worker, one topic has all.
func TestDoctorOfFewWorkers(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	finds(t, []string{"--data-dir", dir, "--workers=1"}, [3]string{"workers", FoundNote, "set --workers to 2"})
	finds(t, []string{"--data-dir", dir, "--workers=2"}, [3]string{"workers", FoundOK, "2 workers"})
	redis := []string{"--data-dir", dir, "--redis-url=redis://127.0.0.1:1", "--shards=4"}
	finds(t, append(redis, "--workers=4"), [3]string{"workers", FoundNote, "set --workers to 8"})
	finds(t, append(redis, "--workers=5"), [3]string{"workers", FoundOK, "2 workers of a shard"})
}

// The doctor finds what a start refuses, without a change, and with deep what a start does not read.
func TestDoctorOpensTheJobs(t *testing.T) {
	dir := t.TempDir()
	data := []string{"--data-dir", dir}
	n := start(t, embedded(t, dir))
	for _, job := range []string{`{"topic":"t","id":"a","url":"http://a.example/","delay":"1h"}`, `{"topic":"t","id":"b","url":"http://a.example/","delay":"1h"}`} {
		if status, _, answer := n.call(http.MethodPost, "/v1/jobs", job); status != http.StatusCreated {
			t.Fatalf("%d %s", status, answer)
		}
	}
	finds(t, data, [3]string{"jobs", FoundOK, "a running duehook has them open"})
	must.OK(t, n.shutdown())
	finds(t, data, [3]string{"jobs", FoundOK, "2 unfinished, 0 dead letters"}, [3]string{"master key", FoundOK, "in "})
	deep := Doctor(t.Context(), load(t, append(data, "--addr=127.0.0.1:0")...), job.SystemClock(), true)
	if !slices.ContainsFunc(deep, func(f Finding) bool { return f.Check == "jobs" && strings.Contains(f.Message, "rows were read") }) {
		t.Errorf("deep: %v", deep)
	}
	finds(t, append(data, "--redis-url=redis://127.0.0.1:1"), [3]string{"jobs", FoundProblem, "export --all and import --all"}, [3]string{"jobs", FoundProblem, "--data-dir"})

	must.OK(t, os.WriteFile(filepath.Join(dir, masterKeyFile), []byte(documents.GenerateMasterKey()), 0o600))
	finds(t, append(data, "--signing=on"), [3]string{"signing secrets", FoundProblem, "cannot be read"})

	manifests, err := filepath.Glob(filepath.Join(dir, "jobs", "MANIFEST-*"))
	must.OK(t, err)
	for _, manifest := range manifests {
		text, err := os.ReadFile(manifest)
		must.OK(t, err)
		text[len(text)-2] ^= 1
		must.OK(t, os.WriteFile(manifest, text, 0o600))
	}
	finds(t, data, [3]string{"jobs", FoundProblem, "MANIFEST-"}, [3]string{"jobs", FoundProblem, "restore a backup"})
	if err := Run(t.Context(), Options{Config: embedded(t, dir), Logger: slog.New(slog.DiscardHandler)}); err == nil || !strings.Contains(err.Error(), "MANIFEST-") {
		t.Errorf("a start says %v", err)
	}
}

// A node on Redis does not leave the jobs of a data directory behind, and takes one whose jobs have ended.
func TestStrandedJobs(t *testing.T) {
	redis, dir := testenv.StartRedis(t), t.TempDir()
	on := load(t, "--addr=127.0.0.1:0", "--data-dir", dir, "--redis-url", redis.URL())
	n := start(t, embedded(t, dir))
	if status, _, answer := n.call(http.MethodPost, "/v1/jobs", `{"topic":"t","id":"a","url":"http://a.example/","delay":"1h"}`); status != http.StatusCreated {
		t.Fatalf("%d %s", status, answer)
	}
	must.OK(t, n.shutdown())
	err := Run(t.Context(), Options{Config: on, Logger: slog.New(slog.DiscardHandler)})
	for _, word := range []string{"1 unfinished job", "export --all and import --all", "another directory with --data-dir"} {
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("without %q: %v", word, err)
		}
	}
	n = start(t, embedded(t, dir))
	if status, _, answer := n.call(http.MethodDelete, "/v1/jobs/t/a", ""); status != http.StatusOK {
		t.Fatalf("%d %s", status, answer)
	}
	must.OK(t, n.shutdown())
	n = start(t, on)
	must.OK(t, n.shutdown())

	n = start(t, embedded(t, dir))
	if status, _, answer := n.call(http.MethodPut, "/v1/schedules/s", `{"cron":"0 0 1 1 *","job":{"topic":"t","pull":true}}`); status != http.StatusCreated {
		t.Fatalf("%d %s", status, answer)
	}
	must.OK(t, n.shutdown())
	if err := Run(t.Context(), Options{Config: on, Logger: slog.New(slog.DiscardHandler)}); err == nil || !strings.Contains(err.Error(), "has schedules, which a node on Redis would never see") {
		t.Errorf("with a schedule: %v", err)
	}
	n = start(t, embedded(t, dir))
	if status, _, answer := n.call(http.MethodDelete, "/v1/schedules/s", ""); status != http.StatusOK {
		t.Fatalf("%d %s", status, answer)
	}
	must.OK(t, n.shutdown())
	n = start(t, on)
	must.OK(t, n.shutdown())
}

func TestDoctorSaysWhichTimeZones(t *testing.T) {
	redis := testenv.StartRedis(t)
	file := zonesFile(t, "2099z")
	finds(t, []string{"--signing=off"}, [3]string{"time zones", FoundOK, "release " + schedule.TZData() + ", part of the program"})
	finds(t, []string{"--signing=off", "--tzdata", file}, [3]string{"time zones", FoundOK, "release 2099z, of " + file})
	finds(t, []string{"--signing=off", "--tzdata", "none.zip"}, [3]string{"time zones", FoundProblem, "none.zip"})

	// A node with the file looks after schedules, and the doctor tells one without it.
	on := []string{"--data-dir", t.TempDir(), "--redis-url", redis.URL(), "--signing=off"}
	t.Cleanup(func() { schedule.UseZones(nil) })
	s := start(t, load(t, append(on, "--addr=127.0.0.1:0", "--tzdata", file)...))
	if status, _, body := s.call("PUT", "/v1/schedules/s", `{"every":"1s","job":{"topic":"t","pull":true}}`); status != 201 || !strings.Contains(body, `"tzdata":"2099z"`) {
		t.Fatalf("%d %s", status, body)
	}
	for ran := false; !ran; {
		_, _, body := s.call("GET", "/v1/schedules/s", "")
		ran = !strings.Contains(body, `"last":null`)
	}
	if err := s.shutdown(); err != nil {
		t.Error(err)
	}
	schedule.UseZones(nil)
	finds(t, append(on, "--tzdata", file), [3]string{"time zones", FoundOK, "2099z"})
	finds(t, on, [3]string{"time zones", FoundProblem, "have had release 2099z"})
}

// zonesFile is a file for --tzdata.
func zonesFile(t *testing.T, release string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "zones.zip")
	f, err := os.Create(path)
	must.OK(t, err)
	w := zip.NewWriter(f)
	for name, content := range map[string]string{"z/tzdata.zi": "# version " + release + "\n", "z/UTC": "", "z/Europe/Berlin": ""} {
		entry, err := w.Create(name)
		must.OK(t, err)
		if content == "" {
			content = utcZone
		}
		_, err = entry.Write([]byte(content))
		must.OK(t, err)
	}
	must.OK(t, w.Close())
	must.OK(t, f.Close())
	return path
}

// utcZone is a compiled zone without rules.
var utcZone = "TZif2" + strings.Repeat("\x00", 15) + zoneCounts + "\x00\x00\x00\x00\x00\x00UTC\x00" +
	"TZif2" + strings.Repeat("\x00", 15) + zoneCounts + "\x00\x00\x00\x00\x00\x00UTC\x00\nUTC0\n"

const zoneCounts = "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x04"

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
	finds(t, on("--shards=3"), [3]string{"signing secrets", FoundProblem, "cannot be read"})
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
		d := &doctor{c: &config.Config{}}
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
