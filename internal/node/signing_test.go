package node

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/duehook/duehook/internal/node/config"
	"github.com/duehook/duehook/internal/testing/testenv"
)

// delivery is what a receiver got.
type delivery struct {
	header http.Header
	body   []byte
}

// mailbox is a receiver that passes on what it is sent.
func mailbox(t *testing.T) (string, <-chan delivery) {
	t.Helper()
	got := make(chan delivery, 10)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		got <- delivery{r.Header, body}
	}))
	t.Cleanup(server.Close)
	return server.URL, got
}

// deliver has one job delivered by a duehook of its own.
func deliver(t *testing.T, c *config.Config, id string) delivery {
	t.Helper()
	url, got := mailbox(t)
	r := start(t, c)
	status, _, answer := r.call(http.MethodPost, "/v1/jobs", `{"topic":"t","id":"`+id+`","url":"`+url+`","body":{"n":1}}`)
	if status != http.StatusCreated {
		t.Fatalf("%d %s", status, answer)
	}
	var d delivery
	select {
	case d = <-got:
	case <-time.After(patience):
		t.Fatal("nothing was delivered")
	}
	if err := r.shutdown(); err != nil {
		t.Fatal(err)
	}
	return d
}

func (d delivery) verify(t *testing.T, secret string) {
	t.Helper()
	w, err := standardwebhooks.NewWebhook(strings.TrimSpace(secret))
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Verify(d.body, d.header); err != nil {
		t.Errorf("signature %q: %v", d.header.Get("webhook-signature"), err)
	}
	if err := w.Verify(append(d.body, ' '), d.header); err == nil {
		t.Error("the signature holds for another body")
	}
}

const givenSecret = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="

// The secret made on the first run is left in a file for the owner alone, and
// goes on signing after a restart.
func TestEmbeddedMakesItsSecret(t *testing.T) {
	dir := t.TempDir()
	first := deliver(t, embedded(t, dir), "a")
	path := filepath.Join(dir, signingSecretFile)
	secret, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	first.verify(t, string(secret))
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	deliver(t, embedded(t, dir), "b").verify(t, string(secret))
	if _, err := os.Stat(path); err == nil {
		t.Error("the secret was handed out again")
	}
	for name, mode := range map[string]os.FileMode{masterKeyFile: 0o600, "jobs": 0o700 | os.ModeDir} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.Mode() != mode {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	jobs, err := filepath.Glob(filepath.Join(dir, "jobs", "*.log"))
	if err != nil || len(jobs) == 0 {
		t.Fatal(jobs, err)
	}
	for _, name := range jobs {
		content, err := os.ReadFile(name)
		if err != nil || strings.Contains(string(content), strings.TrimSpace(string(secret))[len("whsec_"):]) {
			t.Errorf("%s has the secret in the clear, or: %v", name, err)
		}
	}
}

func TestAnotherMasterKeyIsRefused(t *testing.T) {
	dir := t.TempDir()
	deliver(t, embedded(t, dir), "a")
	if err := os.WriteFile(filepath.Join(dir, masterKeyFile), []byte(givenSecret[len("whsec_"):]), 0o600); err != nil {
		t.Fatal(err)
	}
	refusesToStart(t, embedded(t, dir), "sealed with another master key")
}

// refusesToStart starts a node that must end before it says that it serves.
func refusesToStart(t *testing.T, c *config.Config, because string) {
	t.Helper()
	r := launch(t, c)
	select {
	case err := <-r.done:
		if err == nil || !strings.Contains(err.Error(), because) {
			t.Errorf("it ended with %v, want %q", err, because)
		}
	case <-time.After(patience):
		t.Error("it went on")
	}
	select {
	case <-r.ready:
		t.Error("it said that it serves")
	default:
	}
}

func namesIn(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// A secret of a topic is reason enough not to make a master key.
func TestMasterKeyOfTopicsIsNotReplaced(t *testing.T) {
	t.Parallel()
	redis, dir := testenv.StartRedis(t), t.TempDir()
	r := start(t, onRedis(t, redis, "--signing-secret="+givenSecret, "--master-key="+givenSecret[len("whsec_"):]))
	if status, _, answer := r.call(http.MethodPut, "/v1/topics/t/signing", "{}"); status != http.StatusCreated {
		t.Fatal(status, answer)
	}
	if err := r.shutdown(); err != nil {
		t.Fatal(err)
	}
	refusesToStart(t, inDir(t, redis, dir), "copy master.key")
	if names := namesIn(t, dir); len(names) > 0 {
		t.Errorf("it wrote %q", names)
	}
}

// A secret that cannot be given to receivers must not sign.
func TestSecretThatCannotBeWritten(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, signingSecretFile)
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	refusesToStart(t, embedded(t, dir), "is not a regular file")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	deliver(t, embedded(t, dir), "a").verify(t, readFile(t, path))
}

// inDir is a node on Redis with its data in dir.
func inDir(t *testing.T, redis *testenv.Redis, dir string, args ...string) *config.Config {
	t.Helper()
	return load(t, append(args, "--addr=127.0.0.1:0", "--allow-cidrs=127.0.0.0/8", "--workers=8",
		"--data-dir="+dir, "--redis-url="+redis.URL())...)
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// On Redis, too, the first run makes a secret. Nodes on one machine share the
// master key in their data directory; others need a copy.
func TestRedisMakesItsSecret(t *testing.T) {
	t.Parallel()
	redis, dir := testenv.StartRedis(t), filepath.Join(t.TempDir(), "data")
	first := deliver(t, inDir(t, redis, dir), "a")
	secret := readFile(t, filepath.Join(dir, signingSecretFile))
	first.verify(t, secret)
	if info, err := os.Stat(filepath.Join(dir, masterKeyFile)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the master key: %v, %v", info, err)
	}
	deliver(t, inDir(t, redis, dir), "b").verify(t, secret)

	elsewhere := t.TempDir()
	refusesToStart(t, inDir(t, redis, elsewhere), "copy master.key")
	if names := namesIn(t, elsewhere); len(names) > 0 {
		t.Errorf("it wrote %q", names)
	}
	if err := os.WriteFile(filepath.Join(elsewhere, masterKeyFile), []byte(readFile(t, filepath.Join(dir, masterKeyFile))), 0o600); err != nil {
		t.Fatal(err)
	}
	deliver(t, inDir(t, redis, elsewhere), "c").verify(t, secret)
	// Without the key, but with the secret: as the message says.
	deliver(t, inDir(t, redis, t.TempDir(), "--signing-secret="+strings.TrimSpace(secret)), "d").verify(t, secret)
}

// Nodes that start at the same time in one data directory share what the first
// of them makes.
func TestNodesOfOneMachineStartTogether(t *testing.T) {
	t.Parallel()
	redis, dir, s := testenv.StartRedis(t), filepath.Join(t.TempDir(), "data"), newSender(t)
	nodes := make([]*running, 4)
	for i := range nodes {
		nodes[i] = launch(t, inDir(t, redis, dir))
	}
	for _, r := range nodes {
		select {
		case r.base = <-r.ready:
		case err := <-r.done:
			t.Fatalf("a node ended: %v", err)
		}
	}
	for _, r := range nodes {
		d := s.send(r, "t")
		d.verify(t, readFile(t, filepath.Join(dir, signingSecretFile)))
	}
	for _, r := range nodes {
		if err := r.shutdown(); err != nil {
			t.Error(err)
		}
	}
}

// Of nodes that start at the same time with a data directory each, one makes the
// secret. The others end and say what they lack.
func TestNodesOfSeveralMachinesStartTogether(t *testing.T) {
	t.Parallel()
	redis, s := testenv.StartRedis(t), newSender(t)
	const nodes = 4
	type ended struct {
		node int
		err  error
	}
	var all [nodes]*running
	var dirs [nodes]string
	ends := make(chan ended, nodes)
	for i := range all {
		dirs[i] = t.TempDir()
		all[i] = launch(t, inDir(t, redis, dirs[i]))
		go func() { ends <- ended{i, <-all[i].done} }()
	}
	serving := map[int]bool{0: true, 1: true, 2: true, 3: true}
	for range nodes - 1 {
		select {
		case e := <-ends:
			delete(serving, e.node)
			if e.err == nil || !strings.Contains(e.err.Error(), "copy master.key") {
				t.Errorf("node %d ended with %v", e.node, e.err)
			}
		case <-time.After(patience):
			t.Fatalf("%d nodes go on, with a master key each", len(serving))
		}
	}
	for i := range dirs {
		if names := namesIn(t, dirs[i]); !serving[i] && slices.Contains(names, signingSecretFile) {
			t.Errorf("node %d has the file of a secret that does not sign", i)
		}
	}
	for i := range serving {
		all[i].base = <-all[i].ready
		s.send(all[i], "t").verify(t, readFile(t, filepath.Join(dirs[i], signingSecretFile)))
		all[i].stop()
	}
	if e := <-ends; e.err != nil {
		t.Error(e.err)
	}
}

// A Redis that lost its data gets the secret back from a node that runs.
func TestEmptiedRedisKeepsTheSecret(t *testing.T) {
	t.Parallel()
	server, dir, s := testenv.StartRedis(t), t.TempDir(), newSender(t)
	r := start(t, inDir(t, server, dir))
	s.send(r, "t")
	secret := readFile(t, filepath.Join(dir, signingSecretFile))
	own := r.manage(http.StatusCreated, http.MethodPut, "/v1/topics/u/signing", "{}").Secret
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer func() { _ = client.Close() }()
	if err := client.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, patience, func() bool {
		s.send(r, "t").verify(t, secret)
		s.send(r, "u").verify(t, own)
		_, _, answer := r.call(http.MethodGet, "/v1/topics/u/signing", "")
		return strings.Contains(answer, `"source":"topic"`)
	}, "the secrets are in Redis again")
	if err := r.shutdown(); err != nil {
		t.Error(err)
	}
	deliver(t, inDir(t, server, dir), "restarted").verify(t, secret)
	// With no node running, the next one makes the same secret again.
	if err := client.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	deliver(t, inDir(t, server, dir), "again").verify(t, secret)
}

// Unsigned deliveries have to be asked for.
func TestSigningOff(t *testing.T) {
	t.Parallel()
	redis := testenv.StartRedis(t)
	for name, c := range map[string]*config.Config{
		"redis":    onRedis(t, redis, "--signing=off"),
		"embedded": load(t, "--addr=127.0.0.1:0", "--allow-cidrs=127.0.0.0/8", "--data-dir="+t.TempDir(), "--signing=off"),
	} {
		if d := deliver(t, c, "unsigned"); d.header.Get("webhook-signature") != "" {
			t.Errorf("%s: signed with %q", name, d.header.Get("webhook-signature"))
		}
		if _, err := os.Stat(filepath.Join(c.DataDir, masterKeyFile)); err == nil {
			t.Errorf("%s: a master key was made", name)
		}
	}
}
