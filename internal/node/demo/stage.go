package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/duehook/duehook/client"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/node"
	"github.com/duehook/duehook/internal/node/dev"
)

// answer is what the receiver answers to a delivery.
type answer struct {
	Status int    `json:"status"`
	Body   string `json:"body"`
}

func (a answer) String() string { return fmt.Sprintf("%d %q", a.Status, a.Body) }

// delivery is one that the receiver got.
type delivery struct {
	id, webhookID, body string
	attempt             int
	due, at             time.Time // at: by the clock of duehook
	answer              answer
}

// stage is what the stories play on: a duehook, its clock, and a receiver.
type stage struct {
	*timeline
	*checks
	dev      *dev.Dev
	api      *client.Client
	receiver string // its URL
	start    time.Time
	close    func() error

	mu      sync.Mutex
	answers map[string][]answer // by the id of a job: before its last answer, which is left
	got     []delivery
	told    int // of got
}

// openStage starts duehook and the receiver.
func openStage(ctx context.Context, o *Options, t *timeline, dir string, log *slog.Logger) (*stage, error) {
	config, err := dev.Settings([]string{"--addr=127.0.0.1:0"})
	if err != nil {
		return nil, err
	}
	config.DataDir = dir // on disk, as a server
	s := &stage{timeline: t, dev: dev.New(true), answers: map[string][]answer{}}
	var listen net.ListenConfig
	ln, err := listen.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("demo: the receiver cannot listen: %w", err)
	}
	s.receiver = "http://" + ln.Addr().String()
	receiver := &http.Server{Handler: s, ReadHeaderTimeout: limit}
	received := make(chan error, 1)
	go func() { received <- receiver.Serve(ln) }()
	closeReceiver := func() error {
		err := receiver.Close()
		if served := <-received; !errors.Is(served, http.ErrServerClosed) {
			err = errors.Join(err, served)
		}
		return err
	}
	base, stop, err := node.Start(ctx, node.Options{Config: config, Logger: log, Version: o.Version, Dev: s.dev})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("demo: duehook did not start: %w", err), closeReceiver())
	}
	if s.api, err = client.New(base); err != nil {
		return nil, errors.Join(err, stop(), closeReceiver())
	}
	s.close = func() error {
		s.api.Close()
		return errors.Join(stop(), closeReceiver())
	}
	return s, nil
}

// ServeHTTP is the receiver.
func (s *stage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d := delivery{id: r.Header.Get("Duehook-Job-Id"), webhookID: r.Header.Get("Webhook-Id"), at: s.dev.Clock.Now()}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the connection broke
	}
	d.body = string(body)
	// What cannot be read stays zero, and fails the checks.
	d.attempt, _ = strconv.Atoi(r.Header.Get("Duehook-Attempt"))
	d.due, _ = time.Parse(time.RFC3339, r.Header.Get("Duehook-Due-At"))
	s.mu.Lock()
	d.answer = answer{http.StatusNotFound, "no such job"}
	if left := s.answers[d.id]; len(left) > 0 {
		d.answer = left[0]
		if len(left) > 1 {
			s.answers[d.id] = left[1:]
		}
	}
	s.got = append(s.got, d)
	s.mu.Unlock()
	w.WriteHeader(d.answer.Status)
	_, _ = io.WriteString(w, d.answer.Body) // a broken connection shows as a failed attempt
}

// deliveries are those of a job, in the order of their arrival.
func (s *stage) deliveries(id string) []delivery {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.got), func(d delivery) bool { return d.id != id })
}

// action is what somebody does in a story.
type action struct {
	at time.Duration
	do func(ctx context.Context) error
}

// act does the actions at their times, and has the clock run to the end. tell shows the deliveries.
func (s *stage) act(ctx context.Context, end time.Duration, actions []action, tell func(context.Context, *delivery) error) error {
	actions = append(actions, action{end, func(context.Context) error { return nil }})
	sort.SliceStable(actions, func(i, j int) bool { return actions[i].at < actions[j].at })
	for _, a := range actions {
		for done := false; !done; {
			next, err := s.dev.Next(ctx)
			if err != nil {
				return err
			}
			at := job.InstantOf(s.start.Add(a.at))
			if done = next == 0 || next >= at; done {
				next = at
			}
			if err := s.advance(ctx, next, tell); err != nil {
				return err
			}
		}
		if err := a.do(ctx); err != nil {
			return err
		}
		if err := s.advance(ctx, 0, tell); err != nil { // what is due at once
			return err
		}
	}
	return nil
}

// advance moves the clock to a time, unless that is past, and shows the deliveries until then.
func (s *stage) advance(ctx context.Context, to job.Instant, tell func(context.Context, *delivery) error) error {
	if _, err := s.dev.Advance(ctx, to.Time()); err != nil {
		return err
	}
	s.mu.Lock()
	fresh := slices.Clone(s.got[s.told:])
	s.told = len(s.got)
	s.mu.Unlock()
	for i := range fresh {
		if err := tell(ctx, &fresh[i]); err != nil {
			return err
		}
	}
	return nil
}

// tell prints a line of the story at its present.
func (s *stage) tell(who string, st style, format string, args ...any) {
	s.at(s.dev.Clock.Now().Sub(s.start), who, st, format, args...)
}

// register registers a job whose receiver gives answers.
func (s *stage) register(ctx context.Context, r client.Registration, answers []answer) (client.RegisteredJob, error) {
	s.mu.Lock()
	s.answers[r.ID] = answers
	s.mu.Unlock()
	r.URL = strings.ReplaceAll(r.URL, "{receiver}", s.receiver)
	return s.api.Register(ctx, r)
}

// checkCounts expects the API to count the topic's jobs by state as want does.
func (s *stage) checkCounts(ctx context.Context, topic string, want map[client.State]int64) error {
	t, err := s.api.Topic(ctx, topic)
	if err != nil {
		return err
	}
	same := s.expect("the API counts the same")
	for state, n := range t.States {
		same(n == want[state], "%d %s, not %d", n, state, want[state])
	}
	return nil
}
