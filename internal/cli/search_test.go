package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/duehook/duehook/client"
	"github.com/duehook/duehook/duehooktest"
	"github.com/duehook/duehook/internal/job"
)

// Durations in searches and pauses count from the time of the server, whose clock may be turned.
func TestTimesByTheClockOfTheServer(t *testing.T) {
	s := duehooktest.Start(t)
	run := func(args ...string) string {
		t.Helper()
		var out strings.Builder
		root := &cobra.Command{Use: "duehook", SilenceErrors: true, SilenceUsage: true}
		root.AddGroup(&cobra.Group{ID: "client"}, &cobra.Group{ID: "tools"})
		root.AddCommand(New(Options{Clock: job.SystemClock(), Out: &out, Err: &out, Environ: []string{"DUEHOOK_URL=" + s.URL}, ConfigDir: t.TempDir()})...)
		root.SetArgs(args)
		if err := root.ExecuteContext(t.Context()); err != nil {
			t.Fatalf("%v: %v", args, err)
		}
		return out.String()
	}
	s.Advance(26 * time.Hour)
	if _, err := s.Client.Register(t.Context(), client.Registration{Topic: "orders", ID: "a", URL: s.Sink("x").URL("/"), Delay: client.Duration(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	for search, found := range map[string]bool{
		"due_from:now due_to:2h": true, "due_to:30m": false, "created_from:-1h": true, "created_to:-1h": false,
	} {
		if out := run(append([]string{"ls"}, strings.Fields(search)...)...); strings.Contains(out, "orders/a") != found {
			t.Errorf("ls %s prints\n%s", search, out)
		}
	}
	run("topic", "pause", "orders", "--until", "2h")
	s.Advance(90 * time.Minute)
	if topic, err := s.Client.Topic(t.Context(), "orders"); err != nil || topic.State != "paused" {
		t.Errorf("%v, %v", topic.State, err)
	}
	s.Advance(time.Hour)
	if topic, err := s.Client.Topic(t.Context(), "orders"); err != nil || topic.State == "paused" {
		t.Errorf("%v, %v", topic.State, err)
	}
}
