package node

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/duehook/duehook/internal/node/config"
	"github.com/duehook/duehook/internal/testing/testenv"
)

// secrets is what the API answers about the secrets of a topic.
type secrets struct{ Secret string }

// manage calls the API for signing secrets.
func (r *running) manage(want int, method, path, body string) secrets {
	r.t.Helper()
	status, _, answer := r.call(method, path, body)
	if status != want {
		r.t.Fatalf("%s %s: %d %s, want %d", method, path, status, answer, want)
	}
	var s secrets
	if err := json.Unmarshal([]byte(answer), &s); err != nil {
		r.t.Fatalf("%s %s: %v: %s", method, path, err, answer)
	}
	return s
}

// sender has jobs delivered to an inbox, one after the other.
type sender struct {
	t    *testing.T
	url  string
	got  <-chan delivery
	sent int
}

func newSender(t *testing.T) *sender {
	t.Helper()
	url, got := mailbox(t)
	return &sender{t: t, url: url, got: got}
}

// send has one job of a topic delivered by r.
func (s *sender) send(r *running, topic string) delivery {
	s.t.Helper()
	s.sent++
	job := `{"topic":"` + topic + `","id":"` + strconv.Itoa(s.sent) + `","url":"` + s.url + `","body":{"n":` + strconv.Itoa(s.sent) + `}}`
	if status, _, answer := r.call(http.MethodPost, "/v1/jobs", job); status != http.StatusCreated {
		s.t.Fatalf("%d %s", status, answer)
	}
	select {
	case d := <-s.got:
		if got := d.header.Get("Duehook-Job-Id"); got != strconv.Itoa(s.sent) {
			s.t.Fatalf("job %s arrived, want %d", got, s.sent)
		}
		return d
	case <-time.After(patience):
		s.t.Fatal("nothing was delivered")
		return delivery{}
	}
}

// signedBy reports whether a receiver that knows one secret accepts it.
func (d delivery) signedBy(t *testing.T, secret string) bool {
	t.Helper()
	w, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	return w.Verify(d.body, d.header) == nil
}

const givenMasterKey = "--master-key=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="

func onRedis(t *testing.T, redis *testenv.Redis, args ...string) *config.Config {
	t.Helper()
	return inDir(t, redis, t.TempDir(), args...)
}

// Without signing, secrets sign nothing. Without a master key, no other node can open them.
func TestSecretsThatCannotBeKept(t *testing.T) {
	t.Parallel()
	redis := testenv.StartRedis(t)
	for arg, want := range map[string]string{"--signing=off": "signing_off", "--signing-secret=" + givenSecret: "master_key_missing"} {
		r := start(t, onRedis(t, redis, arg))
		if status, _, answer := r.call(http.MethodPut, "/v1/topics/t/signing", "{}"); status != http.StatusConflict || !strings.Contains(answer, want) {
			t.Errorf("%s: %d %s, want %s", arg, status, answer, want)
		}
		if err := r.shutdown(); err != nil {
			t.Error(err)
		}
	}
}

// The settings' secret cannot be changed over the API, not even by who comes
// before the node is quite there.
func TestSecretOfTheSettingsIsFixedFromTheStart(t *testing.T) {
	c := load(t, "--addr=127.0.0.1:0", "--data-dir="+t.TempDir(), "--signing-secret="+givenSecret)
	n, err := newNode(Options{Config: c, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if n.store, err = n.openStore(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := n.store.Close(); err != nil {
			t.Error(err)
		}
	}()
	secrets, err := n.newSecrets()
	if err != nil {
		t.Fatal(err)
	}
	info, err := secrets.Info(t.Context(), "")
	if err != nil || info.Source != "settings" {
		t.Errorf("%+v, %v", info, err)
	}
}

// A master key is replaced by starting once with both.
func TestMasterKeyIsReplaced(t *testing.T) {
	t.Parallel()
	const next = "--master-key=BBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBA="
	redis, s := testenv.StartRedis(t), newSender(t)
	first := start(t, onRedis(t, redis, givenMasterKey))
	secret := first.manage(http.StatusCreated, http.MethodPut, "/v1/topics/t/signing", "{}").Secret
	if err := first.shutdown(); err != nil {
		t.Fatal(err)
	}
	for _, keys := range []string{next + "," + strings.TrimPrefix(givenMasterKey, "--master-key="), next} {
		r := start(t, onRedis(t, redis, keys))
		if d := s.send(r, "t"); !d.signedBy(t, secret) {
			t.Errorf("with %s it is signed with %q", keys, d.header.Get("webhook-signature"))
		}
		if err := r.shutdown(); err != nil {
			t.Error(err)
		}
	}
}
