package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/duehook/duehook/client"
	"github.com/duehook/duehook/duehooktest"
	"github.com/duehook/duehook/internal/testing/testenv"
)

// page is a topModel without a server: what it would read is given.
type page struct {
	t *testing.T
	*topModel
}

func newPage(t *testing.T) *page {
	t.Helper()
	clock := testenv.NewClock(time.Unix(1_800_000_000, 0))
	return &page{t, &topModel{a: &app{Options: Options{Clock: clock}}, ctx: context.Background(), counts: &eventCounts{}, width: 80, height: 24}}
}

// press presses keys by their names, and returns the last command.
func (p *page) press(keys ...string) (cmd tea.Cmd) {
	p.t.Helper()
	named := map[string]tea.KeyPressMsg{
		"enter": {Code: tea.KeyEnter}, "esc": {Code: tea.KeyEscape}, "tab": {Code: tea.KeyTab}, "up": {Code: tea.KeyUp}, "down": {Code: tea.KeyDown},
	}
	for _, key := range keys {
		msg, ok := named[key]
		if !ok {
			msg = tea.KeyPressMsg{Code: rune(key[0]), Text: key}
		}
		_, cmd = p.Update(msg)
	}
	return cmd
}

// shows wants parts of what is on the screen, which always fits.
func (p *page) shows(want ...string) {
	p.t.Helper()
	screen := p.View().Content
	for _, part := range want {
		if !strings.Contains(screen, part) {
			p.t.Errorf("%q is missing on\n%s", part, screen)
		}
	}
	lines := strings.Split(screen, "\n")
	if len(lines) != p.height {
		p.t.Errorf("%d lines, want %d:\n%s", len(lines), p.height, screen)
	}
	for _, line := range lines {
		if len([]rune(line)) > p.width || strings.ContainsAny(line, "\x1b\t\r") {
			p.t.Errorf("too wide, or with control characters: %q", line)
		}
	}
}

func topicNamed(name, state string, waiting, dead int64) topTopic {
	return topTopic{Topic: client.Topic{Name: name, State: state, States: map[client.State]int64{client.StateWaiting: waiting, client.StateDead: dead}}, rate: -1}
}

func TestTopListsTopics(t *testing.T) {
	p := newPage(t)
	p.shows("0 topics", "none")
	long := topicNamed(strings.Repeat("n", 128), "draining", 12345678, 123456)
	long.due, long.late, long.rate = topDue, 59*time.Hour, 99999.9
	p.Update(topTopics{long, topicNamed("a", "active", 5, 0), topicNamed("b", "paused", 3, 2)})
	p.shows("3 topics  12345686 waiting  0 in flight  123458 dead", "100+", "2d11h", "99999.9", "> nnn", "  a   ")
	p.press("down")
	p.shows("> a ")
	p.Update(topTopics{topicNamed("b", "paused", 3, 2), topicNamed("a", "active", 2, 0)}) // the selection follows the name
	p.shows("> a ")
	p.press("down", "down", "up", "up", "up")
	p.shows("> b ")
	p.Update(topTopics{})
	p.shows("none")
	p.press("down", "enter", "p", "r")
	p.shows("0 topics")
	var many topTopics
	for i := range 100 {
		many = append(many, topicNamed(fmt.Sprintf("t%02d", i), "active", 1, 0))
	}
	p.Update(many)
	for range 120 {
		p.press("down")
	}
	p.shows("> t99 ", "  t82 ")
	p.Update(tea.WindowSizeMsg{Width: 40, Height: 10})
	p.shows("> t99 ", "q quit")
}

func TestTopShowsJobs(t *testing.T) {
	p := newPage(t)
	p.Update(topTopics{topicNamed("a", "active", 5, 1), topicNamed("b", "active", 5, 1)})
	if cmd := p.press("down", "enter"); cmd == nil {
		t.Error("opening a topic reads nothing")
	}
	now := p.a.Clock.Now()
	p.Update(topJobs{"b", client.StateWaiting, []client.Job{{Topic: "b", ID: "one", State: client.StateWaiting, NextAt: now.Add(time.Minute), MaxAttempts: 9}, {Topic: "b", ID: "two"}}})
	p.shows("b  [waiting] retrying", "> one", "in 1m", "0/9")
	p.Update(topJobs{"a", client.StateWaiting, []client.Job{{ID: "late answer"}}})
	p.shows("> one")
	p.press("tab", "tab", "tab", "tab")
	p.Update(topJobs{"b", client.StateWaiting, []client.Job{{ID: "late answer"}}})
	p.shows("[dead]", "none")
	ended := client.Job{Topic: "b", ID: "x", State: client.StateDead, Reason: "retry_limit", EndedAt: now.Add(-time.Hour), URL: "https://a.example/\x1b[2J"}
	p.Update(topJobs{"b", client.StateDead, []client.Job{ended}})
	p.shows("> x", "1h ago")
	p.press("c")
	p.shows("replayed with r")
	p.press("enter")
	p.shows("b/x", "reading")
	e := topJob{Job: client.JobDetails{Job: ended}, Reasons: []client.Reason{{Detail: strings.Repeat("word ", 40)}}}
	p.Update(e)
	p.shows("dead (retry_limit) 1h ago", "https://a.example/[2J", "r replay")
	p.press("r")
	p.shows("replay b/x? y/n")
	if cmd := p.press("n"); cmd != nil || p.ask != "" {
		t.Error("n is no yes")
	}
	p.press("esc")
	p.shows("[dead]", "> x")
	p.press("esc")
	p.shows("2 topics", "> b ")
}

func TestTopAsksBeforeItActs(t *testing.T) {
	p := newPage(t)
	p.Update(topTopics{topicNamed("a", "active", 5, 1), topicNamed("b", "paused", 5, 1)})
	p.press("p")
	p.shows("pause a? y/n")
	p.press("n", "down", "p")
	p.shows("resume b? y/n")
	called := 0
	p.yes = func() error { called++; return nil }
	if msg := p.press("y")(); called != 1 || msg != topDone("resumed b") {
		t.Errorf("y called %d times: %v", called, msg)
	}
	if _, cmd := p.Update(topDone("resumed b")); cmd == nil {
		t.Error("nothing is read after a change")
	}
	p.shows("resumed b")
	p.press("p")
	p.yes = func() error { return errors.New("it is\nrefused") }
	p.Update(p.press("y")())
	p.shows("it isrefused")
	p.press("r")
	p.shows("p pauses a topic")
	if cmd := p.press("q"); cmd == nil || cmd() != tea.Quit() {
		t.Error("q does not quit")
	}
}

func TestTopCountsEvents(t *testing.T) {
	c := &eventCounts{}
	c.add("a")
	c.add("a")
	if got := c.take(); got["a"] != 2 {
		t.Errorf("counted %v", got)
	}
	if got := c.take(); got == nil || len(got) != 0 {
		t.Errorf("counted %v after that", got)
	}
	c.failed = true
	if got := c.take(); got != nil {
		t.Errorf("without a stream: %v", got)
	}
}

// A clock of duehook dev that was turned makes jobs late, whatever the clock of this machine says.
func TestTopCountsByTheClockOfTheServer(t *testing.T) {
	s := duehooktest.Start(t)
	p := newPage(t)
	p.a.environ = map[string]string{"DUEHOOK_URL": s.URL}
	if err := p.a.connect(); err != nil {
		t.Fatal(err)
	}
	defer p.a.client.Close()
	if _, err := s.Client.PauseTopic(t.Context(), "orders", client.PauseOptions{}); err != nil {
		t.Fatal(err)
	}
	job, err := s.Client.Register(t.Context(), client.Registration{Topic: "orders", URL: s.Sink("x").URL("/"), Delay: client.Duration(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	s.Advance(26*time.Hour + 30*time.Minute)
	topics, err := p.readTopics(t.Context(), 0, 0, 20)
	if err != nil || len(topics) != 1 || topics[0].due != 1 || topics[0].late.Round(time.Minute) != 25*time.Hour+30*time.Minute {
		t.Errorf("%+v, %v", topics, err)
	}
	if got := p.a.when(job.CreatedAt); got != "1d2h ago" {
		t.Errorf("the job was created %s", got)
	}
}
