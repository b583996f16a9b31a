package app

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/duehook/duehook/internal/config"
	"github.com/duehook/duehook/internal/testenv"
)

// delivery is what a receiver got.
type delivery struct {
	header http.Header
	body   []byte
}

// inbox is a receiver that passes on what it is sent.
func inbox(t *testing.T) (string, <-chan delivery) {
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
	url, got := inbox(t)
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
	for _, name := range []string{masterKeyFile, "duehook.db"} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	journal, err := os.ReadFile(filepath.Join(dir, "duehook.db"))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(journal), strings.TrimSpace(string(secret))[len("whsec_"):]) {
		t.Error("the journal holds the secret in the clear")
	}
}

func TestAnotherMasterKeyIsRefused(t *testing.T) {
	dir := t.TempDir()
	deliver(t, embedded(t, dir), "a")
	if err := os.WriteFile(filepath.Join(dir, masterKeyFile), []byte(givenSecret[len("whsec_"):]), 0o600); err != nil {
		t.Fatal(err)
	}
	r := start(t, embedded(t, dir))
	select {
	case err := <-r.done:
		if err == nil || !strings.Contains(err.Error(), "sealed with another master key") {
			t.Errorf("it ended with %v", err)
		}
	case <-time.After(patience):
		t.Error("it went on with secrets that it cannot open")
	}
}

func TestSigningOnRedis(t *testing.T) {
	redis := testenv.StartRedis(t)
	if d := deliver(t, onRedis(t, redis), "unsigned"); d.header.Get("webhook-signature") != "" {
		t.Errorf("signed with %q", d.header.Get("webhook-signature"))
	}
	deliver(t, onRedis(t, redis, "--signing-secret="+givenSecret), "given").verify(t, givenSecret)

	one := onRedis(t, redis, givenMasterKey)
	first := deliver(t, one, "made")
	secret, err := os.ReadFile(filepath.Join(one.DataDir, signingSecretFile))
	if err != nil {
		t.Fatal(err)
	}
	first.verify(t, string(secret))
	deliver(t, onRedis(t, redis, givenMasterKey), "shared").verify(t, string(secret))
}
