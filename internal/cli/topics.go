package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/duehook/duehook/client"
	"github.com/duehook/duehook/internal/kit/nearest"
)

func (a *app) topics() *cobra.Command {
	q, limit, busiest := client.TopicQuery{}, 100, false
	cmd := &cobra.Command{
		Use: "topics [PART]", Short: "List topics with their jobs by state", Args: cobra.MaximumNArgs(1),
		RunE: a.connected(func(ctx context.Context, args []string) error {
			q.Q = strings.Join(args, "")
			if busiest {
				q.Order = mostUnfinished
			}
			return table(a, a.client.Topics(ctx, q), limit, "TOPIC STATE WAITING READY RUNNING RETRYING DEAD", func(t client.Topic) []string {
				row := []string{t.Name, t.State}
				for _, s := range []client.State{client.StateWaiting, client.StateReady, client.StateRunning, client.StateRetrying, client.StateDead} {
					row = append(row, strconv.FormatInt(t.States[s], 10))
				}
				return row
			})
		}),
	}
	numberFlag(cmd, &limit, "limit", 1, "the most topics to list")
	cmd.Flags().BoolVar(&busiest, "busiest", false, "list up to 100 topics with unfinished jobs, the most jobs first")
	return cmd
}

// mostUnfinished is the order of topics by their unfinished jobs.
const mostUnfinished = "-unfinished"

// parent is a command that only has others.
func parent(use, short string, commands ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	cmd.AddCommand(commands...)
	return cmd
}

// named is a command on a resource with a name.
func (a *app) named(use, short string, run func(ctx context.Context, name string) error) *cobra.Command {
	return &cobra.Command{
		Use: use + " NAME", Short: short, Args: cobra.ExactArgs(1),
		RunE: a.connected(func(ctx context.Context, args []string) error { return run(ctx, args[0]) }),
	}
}

// deletion is a command that deletes a resource with a name.
func (a *app) deletion(short string, call func(*client.Client, context.Context, string, ...client.CallOption) (client.Deleted, error)) *cobra.Command {
	return a.named("rm", short, func(ctx context.Context, name string) error {
		d, err := call(a.client, ctx, name)
		return a.one(err, func() { a.printf("%s\n", d.Result) })
	})
}

func (a *app) topic() *cobra.Command {
	isNew := false
	set := &cobra.Command{
		Use: "set NAME FIELD=VALUE …", Short: "Change settings of a topic; an empty value removes one", Args: cobra.MinimumNArgs(2),
		Example: "  duehook topic set order-timeout rate=50 concurrency=20 retry.steps=15s,1m\n  duehook topic set order-timeout rate=",
		RunE: a.connected(func(ctx context.Context, args []string) error {
			patch, err := patchOf(args[1:])
			if err != nil {
				return err
			}
			if err := a.topicExists(ctx, args[0], isNew); err != nil {
				return err
			}
			return a.topicLine(a.client.PatchTopic(ctx, args[0], patch))
		}),
	}
	var until, note string
	pause := a.named("pause", "Stop the deliveries of a topic", func(ctx context.Context, name string) error {
		o, err := a.pauseOptions(ctx, until, note)
		if err != nil {
			return err
		}
		if err := a.topicExists(ctx, name, isNew); err != nil {
			return err
		}
		return a.topicLine(a.client.PauseTopic(ctx, name, o))
	})
	pauseFlags(pause, &until, &note)
	drain := a.named("drain", "Refuse new jobs and deliver the others", func(ctx context.Context, name string) error {
		if err := a.topicExists(ctx, name, isNew); err != nil {
			return err
		}
		return a.topicLine(a.client.DrainTopic(ctx, name, client.DrainOptions{Note: note}))
	})
	noteFlag(drain, &note)
	for _, cmd := range []*cobra.Command{set, pause, drain} {
		cmd.Flags().BoolVar(&isNew, "new", false, "also if the topic has no jobs and no settings yet")
	}
	return parent("topic", "Show, change, limit, pause, drain and resume a topic",
		a.named("get", "Show a topic", func(ctx context.Context, name string) error {
			t, err := a.client.Topic(ctx, name)
			return a.one(err, func() { a.topicDetails(&t) })
		}),
		set, a.topicLimits(), pause, drain,
		a.named("resume", "End a pause or a drain", func(ctx context.Context, name string) error {
			if err := a.topicExists(ctx, name, false); err != nil {
				return err
			}
			return a.topicLine(a.client.ResumeTopic(ctx, name))
		}),
		a.deletion("Delete the settings of a topic; its jobs stay", (*client.Client).DeleteTopic),
	)
}

func (a *app) topicLimits() *cobra.Command {
	var l client.TopicLimits
	remove := false
	cmd := a.named("limits", "Show, replace or remove the limits that operators set for a topic", func(ctx context.Context, name string) (err error) {
		var stored client.StoredTopicLimits
		set := l != client.TopicLimits{}
		switch {
		case set && remove:
			return usagef("--remove and a limit were given")
		case remove:
			d, err := a.client.DeleteTopicLimits(ctx, name)
			return a.one(err, func() { a.printf("%s\n", d.Result) })
		case set:
			stored, err = a.client.PutTopicLimits(ctx, name, l)
		default:
			stored, err = a.client.TopicLimits(ctx, name)
		}
		return a.one(err, func() {
			text, _ := json.Marshal(stored.TopicLimits)
			a.printf("%s\n", text)
		})
	})
	cmd.Long = "Show the limits that operators set for a topic, or replace all of them. They hold beside those of its settings, and the smaller value counts. " +
		"Changes need an admin key of all topics."
	cmd.Flags().Int64Var(&l.Capacity, "capacity", 0, "most unfinished jobs")
	cmd.Flags().Float64Var(&l.Rate, "rate", 0, "most deliveries per second")
	cmd.Flags().IntVar(&l.Concurrency, "concurrency", 0, "most deliveries in flight")
	cmd.Flags().IntVar(&l.Weight, "weight", 0, "the largest share of the topic, from 1 to 100")
	cmd.Flags().BoolVar(&remove, "remove", false, "remove the limits")
	return cmd
}

func pauseFlags(cmd *cobra.Command, until, note *string) {
	cmd.Flags().StringVar(until, "until", "", "resume at this time, or after this duration")
	noteFlag(cmd, note)
}

func noteFlag(cmd *cobra.Command, note *string) {
	cmd.Flags().StringVar(note, "note", "", "why, for others to read")
}

// maxSuggested is how many topics are compared with a misspelt name.
const maxSuggested = 10_000

// topicExists refuses a name that no topic has: the API would make a topic of a misspelt one.
func (a *app) topicExists(ctx context.Context, name string, isNew bool) error {
	if isNew {
		return nil
	}
	_, err := a.client.Topic(ctx, name)
	if !errors.Is(err, client.ErrTopicNotFound) {
		return err
	}
	var names []string
	for t, failed := range a.client.Topics(ctx, client.TopicQuery{Paging: client.Paging{Limit: 1000}}) {
		if failed != nil || len(names) == maxSuggested {
			break // a suggestion is worth no second error
		}
		names = append(names, t.Name)
	}
	if near := nearest.Name(name, names); near != "" {
		return &missingError{fmt.Sprintf("there is no topic %q; did you mean %s?", name, near), err}
	}
	return &missingError{fmt.Sprintf("there is no topic %q; --new is for a topic that has no jobs and no settings yet", name), err}
}

func (a *app) pauseOptions(ctx context.Context, until, note string) (o client.PauseOptions, err error) {
	o.Note = note
	if until != "" {
		o.Until, err = a.moment(ctx, until)
	}
	return o, err
}

func (a *app) topicLine(t client.Topic, err error) error {
	return a.one(err, func() { a.printf("%s  %s%s\n", t.Name, t.State, pauseText(cmp.Or(t.Paused, t.Draining))) })
}

func pauseText(p *client.Pause) string {
	if p == nil {
		return ""
	}
	text := " since " + stamp(p.Since)
	if !p.Until.IsZero() {
		text += " until " + stamp(p.Until)
	}
	if p.By != "" {
		text += " by " + p.By
	}
	if p.Note != "" {
		text += ": " + p.Note
	}
	return text
}

func (a *app) topicDetails(t *client.Topic) {
	a.printf("%s  %s%s\n", t.Name, t.State, pauseText(cmp.Or(t.Paused, t.Draining)))
	for _, s := range []client.State{
		client.StateWaiting, client.StateReady, client.StateRunning, client.StateRetrying,
		client.StateDelivered, client.StateDead, client.StateCancelled, client.StateExpired,
	} {
		a.printf("  %-10s %d\n", s, t.States[s])
	}
	if t.Settings != nil {
		settings, _ := json.Marshal(t.Settings)
		a.printf("  settings   %s\n", settings)
	}
	if t.Limits != nil {
		limits, _ := json.Marshal(t.Limits)
		a.printf("  limits     %s\n", limits)
	}
}

// patchOf reads FIELD=VALUE: a dot leads into an object, a value that is JSON is taken as such, an
// empty one removes the field. Steps of a ladder may be separated by commas.
func patchOf(args []string) (client.Patch, error) {
	patch := client.Patch{}
	for _, arg := range args {
		name, text, ok := strings.Cut(arg, "=")
		if !ok || name == "" {
			return nil, usagef("%q: write FIELD=VALUE", arg)
		}
		var value any
		if text != "" && json.Unmarshal([]byte(text), &value) != nil {
			value = text
		}
		at := map[string]any(patch)
		path := strings.Split(name, ".")
		if last := path[len(path)-1]; last == "steps" && text != "" && !strings.HasPrefix(text, "[") {
			value = ladder(text)
		}
		for _, part := range path[:len(path)-1] {
			inner, ok := at[part].(map[string]any)
			if !ok {
				inner = map[string]any{}
				at[part] = inner
			}
			at = inner
		}
		at[path[len(path)-1]] = value
	}
	return patch, nil
}

func (a *app) endpoints() *cobra.Command {
	q, limit := client.EndpointQuery{}, 100
	list := &cobra.Command{
		Use: "endpoints [URL]", Short: "List endpoints and their circuits", Args: cobra.MaximumNArgs(1),
		RunE: a.connected(func(ctx context.Context, args []string) error {
			q.Endpoint = strings.Join(args, "")
			return table(a, a.client.Endpoints(ctx, q), limit, "ENDPOINT CIRCUIT WAITING READY INFLIGHT FAILURES LAST", func(e client.Endpoint) []string {
				circuit := e.State
				if !e.ReopensAt.IsZero() {
					circuit += ", half-opens " + a.when(e.ReopensAt)
				}
				return []string{
					e.Endpoint, circuit, strconv.FormatInt(e.Waiting, 10), strconv.FormatInt(e.Ready, 10),
					strconv.FormatInt(e.InFlight, 10), strconv.FormatInt(e.Failures, 10), dash(e.LastError),
				}
			})
		}),
	}
	list.Flags().StringSliceVar(&q.State, "state", nil, "closed, open or half_open")
	numberFlag(list, &limit, "limit", 1, "the most endpoints to list")
	list.AddCommand(
		&cobra.Command{
			Use: "try URL", Short: "Half-open a circuit now", Args: cobra.ExactArgs(1),
			RunE: a.connected(func(ctx context.Context, args []string) error {
				for _, err := range a.client.Endpoints(ctx, client.EndpointQuery{Endpoint: args[0]}) {
					if err != nil {
						return err
					}
					e, err := a.client.TryEndpoint(ctx, args[0])
					return a.one(err, func() { a.printf("%s  %s\n", e.Endpoint, e.State) })
				}
				return &missingError{message: fmt.Sprintf("no job is for the endpoint %s; duehook endpoints lists them", args[0])}
			}),
		},
		a.testEndpoint(),
	)
	return list
}

func (a *app) testEndpoint() *cobra.Command {
	t := client.Test{}
	cmd := &cobra.Command{
		Use: "test URL", Short: "Send a test request now, without a job", Args: cobra.ExactArgs(1),
		RunE: a.connected(func(ctx context.Context, args []string) error {
			t.URL = args[0]
			r, err := a.client.TestEndpoint(ctx, t)
			if err := a.one(err, func() { a.printf("%s\n", answer(&r.Attempt)) }); err != nil || r.Delivered {
				return err
			}
			return &outcomeError{"the test was not delivered"}
		}),
	}
	cmd.Flags().StringVar(&t.Topic, "topic", "", "sign with the secret of this topic")
	return cmd
}

func (a *app) events() *cobra.Command {
	var types []string
	cmd := &cobra.Command{
		Use: "events [WORD …]", Short: "Print events as they happen, until interrupted",
		Long: "Print events as they happen, until interrupted. There are no states and due times to search by.\n\n" + searchHelp,
		RunE: a.connected(func(ctx context.Context, args []string) error {
			f, err := a.filterOf(ctx, args)
			if err != nil {
				return err
			}
			if len(f.State) > 0 || !f.DueFrom.IsZero() || !f.DueTo.IsZero() {
				return usagef("events have types instead of states, and are not due: leave out state, due_from and due_to")
			}
			q := client.EventQuery{
				Type: types, Topic: f.Topic, ID: f.ID, UID: f.UID, OrderKey: f.OrderKey, BizKey: f.BizKey, Endpoint: f.Endpoint, GroupID: f.GroupID,
				Schedule: f.Schedule, Labels: f.Labels, Priority: f.Priority, Dialect: f.Dialect, Reason: f.Reason, CreatedFrom: f.CreatedFrom, CreatedTo: f.CreatedTo,
			}
			for e, err := range a.client.Events(ctx, q) {
				if err != nil {
					return err
				}
				if err := a.event(&e); err != nil {
					return err
				}
			}
			return nil
		}),
	}
	cmd.Flags().StringSliceVar(&types, "type", nil, "only events of these types")
	return cmd
}

func (a *app) event(e *client.Event) error {
	if a.json {
		return a.object(e.Document)
	}
	subject := firstOf(e.Schedule, e.Endpoint)
	if e.ID != "" {
		subject = e.Topic + "/" + e.ID
	}
	more := firstOf(e.Error, e.Reason)
	if !e.NextAt.IsZero() {
		more += " next " + a.when(e.NextAt)
	}
	a.printf("%s  %-18s %s  %s\n", e.At.Local().Format(time.TimeOnly), e.Type, firstOf(subject, e.Topic), more)
	return nil
}
