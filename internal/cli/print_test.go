package cli

import (
	"io"
	"testing"
	"time"

	"github.com/duehook/duehook/client"
	"github.com/duehook/duehook/duehooktest"
	"github.com/duehook/duehook/internal/job"
)

// A clock of duehook dev that was turned makes jobs old, whatever the clock of this machine says.
func TestAgesCountByTheClockOfTheServer(t *testing.T) {
	s := duehooktest.Start(t)
	a := &app{Options: Options{Clock: job.SystemClock(), Out: io.Discard, Err: io.Discard}, environ: map[string]string{"DUEHOOK_URL": s.URL}}
	if err := a.connect(); err != nil {
		t.Fatal(err)
	}
	defer a.client.Close()
	j, err := s.Client.Register(t.Context(), client.Registration{Topic: "orders", URL: s.Sink("x").URL("/"), Delay: client.Duration(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	s.Advance(26*time.Hour + 30*time.Minute)
	if _, err := a.client.Job(t.Context(), "orders", j.ID); err != nil {
		t.Fatal(err)
	}
	if got := a.when(j.CreatedAt); got != "1d2h ago" {
		t.Errorf("the job was created %s", got)
	}
}
