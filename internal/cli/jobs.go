package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/duehook/duehook/client"
)

// jobCommand is a command on one job.
func (a *app) jobCommand(use, short string, run func(ctx context.Context, topic, id string) error) *cobra.Command {
	return &cobra.Command{
		Use: use + " TOPIC/ID", Short: short, Args: cobra.ExactArgs(1),
		RunE: a.connected(func(ctx context.Context, args []string) error {
			topic, id, err := address(args[0])
			if err != nil {
				return err
			}
			return run(ctx, topic, id)
		}),
	}
}

func (a *app) get() *cobra.Command {
	return a.jobCommand("get", "Show a job", func(ctx context.Context, topic, id string) error {
		j, err := a.client.Job(ctx, topic, id)
		return a.one(err, func() { a.details(&j) })
	})
}

// request is what an attempt of a job is.
func request(pull bool, method, url string) string {
	if pull {
		return "none: consumers fetch the job"
	}
	return firstOf(method, "POST") + " " + url
}

func (a *app) details(j *client.JobDetails) {
	a.printf("%s\n", a.jobLine(&j.Job))
	a.printf("  uid        %s, version %d\n", j.UID, j.Version)
	a.printf("  request    %s\n", request(j.Pull, j.Method, j.URL))
	a.printf("  attempts   %d of %d\n", j.Attempts, j.MaxAttempts)
	a.printf("  registered %s (%s)\n", a.when(j.CreatedAt), stamp(j.CreatedAt))
	a.printf("  due        %s (%s)\n", a.when(j.DueAt), stamp(j.DueAt))
	for _, field := range [][2]string{
		{"biz key", j.BizKey}, {"order key", j.OrderKey}, {"group", j.GroupID}, {"timeout", shown(j.Timeout)}, {"ttl", shown(j.TTL)},
	} {
		if field[1] != "" {
			a.printf("  %-10s %s\n", field[0], field[1])
		}
	}
	if j.Count != nil {
		a.printf("  count      %d of %d\n", j.Count.Count, j.Count.Target)
	}
	if l := j.LastAttempt; l != nil {
		a.printf("  last       #%d %s: %s\n", l.Number, a.when(l.StartedAt), answer(l))
	}
}

// shown is a duration; empty for none.
func shown(d client.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
}

// answer says what became of an attempt.
func answer(t *client.Attempt) string {
	text := fmt.Sprintf("%d ms", t.DurationMS)
	if t.Status != 0 {
		text = fmt.Sprintf("%d in %s", t.Status, text)
	}
	if t.Error != "" {
		text = t.Error + ", " + text
	}
	return text
}

func (a *app) list() *cobra.Command {
	q, limit := client.JobQuery{}, 50
	cmd := &cobra.Command{
		Use: "ls [WORD …]", Short: "List jobs by search", Long: "List jobs by search.\n\n" + searchHelp,
		Example: "  duehook ls topic:order-timeout state:dead\n  duehook ls https://shop.example labels:region:eu",
		RunE: a.connected(func(ctx context.Context, args []string) error {
			var err error
			if q.JobFilter, err = a.filterOf(ctx, args); err != nil {
				return err
			}
			q.Limit = min(limit+1, 1000)
			return table(a, a.client.Jobs(ctx, q), limit, "JOB STATE NEXT ATTEMPTS URL", func(j client.Job) []string {
				next := a.when(j.NextAt)
				if j.State.Final() {
					next = a.when(j.EndedAt)
				}
				return []string{j.Topic + "/" + j.ID, string(j.State), next, fmt.Sprintf("%d/%d", j.Attempts, j.MaxAttempts), firstOf(j.URL, "(pull)")}
			})
		}),
	}
	cmd.Flags().StringVar(&q.Order, "order", "", "due or -due of waiting or retrying jobs, -ended of ended ones: the last one first")
	numberFlag(cmd, &limit, "limit", 1, "the most jobs to list")
	return cmd
}

func (a *app) attempts() *cobra.Command {
	return a.jobCommand("attempts", "List the attempts of a job", func(ctx context.Context, topic, id string) error {
		return table(a, a.client.Attempts(ctx, topic, id), 1000, "NO STARTED RESULT NEXT BECAUSE", func(t client.Attempt) []string {
			return []string{strconv.Itoa(t.Number), stamp(t.StartedAt), answer(&t), a.when(t.NextAt), dash(t.Reason)}
		})
	})
}

func (a *app) explain() *cobra.Command {
	return a.jobCommand("explain", "Explain why a job has not run yet, or why it ended", func(ctx context.Context, topic, id string) error {
		e, err := a.client.Explain(ctx, topic, id)
		return a.one(err, func() {
			a.printf("%s\n", a.jobLine(&e.Job.Job))
			for _, r := range e.Reasons {
				a.printf("  %s\n", r.Detail)
			}
			for _, n := range e.Notes {
				a.printf("  %s\n", n.Detail)
			}
		})
	})
}

func (a *app) cancel() *cobra.Command {
	return a.jobCommand("cancel", "Cancel a job", func(ctx context.Context, topic, id string) error {
		j, err := a.client.Job(ctx, topic, id)
		if err != nil {
			return err
		}
		if j.State == client.StateDead {
			return fmt.Errorf("%s/%s is a dead letter: duehook discard %s/%s discards it, duehook replay %s/%s sends it again", topic, id, topic, id, topic, id)
		}
		return a.end(a.client.CancelJob(ctx, topic, id, client.IfVersion(j.Version)))
	})
}

func (a *app) discard() *cobra.Command {
	return a.jobCommand("discard", "Discard a dead letter", func(ctx context.Context, topic, id string) error {
		j, err := a.client.Job(ctx, topic, id)
		if err != nil {
			return err
		}
		if j.State != client.StateDead && !(j.State == client.StateCancelled && j.Reason == "discarded") {
			return fmt.Errorf("%s/%s is %s, not a dead letter; duehook cancel %s/%s cancels a job", topic, id, j.State, topic, id)
		}
		return a.end(a.client.CancelJob(ctx, topic, id, client.IfVersion(j.Version)))
	})
}

func (a *app) end(done client.Cancellation, err error) error {
	return a.one(err, func() {
		if done.Result == "in_flight" {
			a.printf("in flight: attempt %d may still arrive; no other follows\n", done.Attempt)
			return
		}
		a.printf("%s\n", done.Result)
	})
}

// changed prints the job that a call returned.
func (a *app) changed(j client.JobDetails, err error) error {
	return a.one(err, func() { a.printf("%s\n", a.jobLine(&j.Job)) })
}

func (a *app) run() *cobra.Command {
	return a.jobCommand("run", "Make a job due now", func(ctx context.Context, topic, id string) error {
		return a.changed(a.client.RunJob(ctx, topic, id))
	})
}

func (a *app) replay() *cobra.Command {
	var in, to string
	cmd := a.jobCommand("replay", "Send an ended job again", func(ctx context.Context, topic, id string) error {
		patch := client.Patch{}
		if err := duration("--in", in, new(client.Duration), nil); err != nil {
			return err
		}
		if in != "" {
			patch["delay"] = in
		}
		if to != "" {
			patch["url"] = to
		}
		return a.changed(a.client.ReplayJob(ctx, topic, id, patch))
	})
	cmd.Flags().StringVar(&in, "in", "", "delay, such as 30m (default: now)")
	cmd.Flags().StringVar(&to, "to", "", "send it to this URL from now on")
	return cmd
}

func (a *app) reschedule() *cobra.Command {
	var in, at string
	cmd := a.jobCommand("reschedule", "Change when a job is due", func(ctx context.Context, topic, id string) error {
		if (in == "") == (at == "") {
			return usagef("name the new time with --in or --at")
		}
		if err := errors.Join(duration("--in", in, new(client.Duration), nil), dueTime(at, new(time.Time))); err != nil {
			return err
		}
		patch := client.Patch{"delay": in}
		if at != "" {
			patch = client.Patch{"at": at}
		}
		return a.changed(a.client.ChangeJob(ctx, topic, id, patch))
	})
	cmd.Flags().StringVar(&in, "in", "", "delay from now, such as 30m")
	cmd.Flags().StringVar(&at, "at", "", "due time, such as 2026-01-31T09:00:00Z")
	return cmd
}

func (a *app) count() *cobra.Command {
	n, key := int64(1), ""
	cmd := a.jobCommand("count", "Add to the count of a job", func(ctx context.Context, topic, id string) error {
		c, err := a.client.CountJob(ctx, topic, id, n, key)
		return a.one(err, func() {
			a.printf("%d of %d", c.Count, c.Target)
			switch {
			case c.Late:
				a.printf(", nothing added: the job has ended")
			case c.Fired:
				a.printf(", fired")
			}
			a.printf("\n")
		})
	})
	cmd.Flags().Int64Var(&n, "add", n, "how much to add")
	cmd.Flags().StringVar(&key, "key", "", "counts once, however often the call is repeated (default: a random key)")
	return cmd
}

func (a *app) dead() *cobra.Command {
	q, limit := client.DeadQuery{}, 50
	cmd := &cobra.Command{
		Use: "dead", Short: "Count dead letters by topic, endpoint and reason", Args: cobra.NoArgs,
		RunE: a.connected(func(ctx context.Context, _ []string) error {
			return table(a, a.client.DeadGroups(ctx, q), limit, "COUNT TOPIC ENDPOINT REASON OLDEST NEWEST", func(g client.DeadGroup) []string {
				return []string{strconv.FormatInt(g.Count, 10), g.Topic, g.Endpoint, g.Reason, a.when(g.OldestAt), a.when(g.NewestAt)}
			})
		}),
	}
	cmd.Flags().StringVar(&q.Topic, "topic", "", "only of this topic")
	numberFlag(cmd, &limit, "limit", 1, "the most groups to list")
	return cmd
}
