package access

import (
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/duehook/duehook/job"
)

// runCommand runs the command and reads the token and the key that it prints.
func runCommand(t *testing.T, args ...string) (string, Key) {
	t.Helper()
	var out strings.Builder
	if err := Command(args, newTestClock(), &out); err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`^token (\S+)\nline  (.+)\n$`).FindStringSubmatch(out.String())
	if found == nil {
		t.Fatalf("printed %q", out.String())
	}
	keys, err := ParseKeys(found[2])
	if err != nil || len(keys) != 1 {
		t.Fatalf("the line gives %v, %v", keys, err)
	}
	if strings.Contains(found[2], secretOf(found[1])[:8]) {
		t.Error("the line shows the secret")
	}
	return found[1], keys[0]
}

func TestCommandMakesKeys(t *testing.T) {
	clock := newTestClock()
	for _, c := range []struct {
		args string
		want Key
	}{
		{"new --scope write", Key{Scope: Write, Namespace: "default"}},
		{
			"--scope=admin new --name ops --namespace shop --rate 10/s --expires 2027-01-31T00:00:00Z",
			Key{Scope: Admin, Name: "ops", Namespace: "shop", Rate: Rate{10, time.Second}, ExpiresAt: job.InstantOf(time.Date(2027, 1, 31, 0, 0, 0, 0, time.UTC))},
		},
		{"new --scope write --topics orders-*,payments", Key{Scope: Write, Namespace: "default", Topics: job.TopicSet{"orders-*", "payments"}}},
		{"new --scope read --expires 90d", Key{Scope: Read, Namespace: "default", ExpiresAt: job.InstantOf(clock.Now().Add(90 * 24 * time.Hour))}},
	} {
		token, got := runCommand(t, strings.Fields(c.args)...)
		parsed, err := parseToken(token)
		if err != nil {
			t.Fatal(err)
		}
		c.want.ID, c.want.Digest = parsed.id(), parsed.digest()
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", c.args, diff)
		}
		k := newKeyring(t, Options{Keys: []Key{got}, Namespace: got.Namespace, Clock: clock})
		if p := mustAuthenticate(t, k, token); p.Allows(got.Scope) != nil {
			t.Errorf("%s: the key does not work", c.args)
		}
	}
}

func TestCommandRefusesBadUse(t *testing.T) {
	for args, want := range map[string]string{
		"":                                  "duehook apikey new",
		"list":                              "duehook apikey new",
		"new new --scope read":              "duehook apikey new",
		"new":                               "--scope must be read, write, admin or consume",
		"new --scope root --rate x":         "--scope must be read, write, admin or consume\n--rate must be",
		"new --scope read --colour red":     "unknown flag: --colour",
		"new --scope read --expires never":  "--expires must be a time",
		"new --scope read --expires 0":      "--expires must be in the future",
		"new --scope read --namespace a/b":  "--namespace may contain",
		"new --scope read --name x,scope=y": "--name may contain",
	} {
		var out strings.Builder
		err := Command(strings.Fields(args), newTestClock(), &out)
		var usage *UsageError
		if !errors.As(err, &usage) || !strings.Contains(err.Error(), want) || out.Len() > 0 {
			t.Errorf("%q: %v, printed %q; want %q", args, err, out.String(), want)
		}
	}
}

func TestCommandHelp(t *testing.T) {
	var out strings.Builder
	if err := Command([]string{"new", "--help"}, newTestClock(), &out); err != nil || out.String() != CommandUsage {
		t.Errorf("got %v, %q", err, out.String())
	}
}

func TestCommandTellsWhenNobodyCanReadTheToken(t *testing.T) {
	r, w := io.Pipe()
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	for _, args := range []string{"new --scope read", "--help"} {
		var usage *UsageError
		if err := Command(strings.Fields(args), newTestClock(), w); err == nil || errors.As(err, &usage) {
			t.Errorf("%s: %v", args, err)
		}
	}
}
