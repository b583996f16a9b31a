package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/duehook/duehook/client"
	"github.com/duehook/duehook/internal/job"
)

// bulk is the flags of an operation.
type bulk struct {
	draft           client.OperationDraft
	in, at, to      string
	yes, dry, async bool
}

func (a *app) op() *cobra.Command {
	cmd := parent("op", "Change many jobs: count them first, then change them at a rate")
	for action, short := range map[string]string{
		"cancel": "Cancel all jobs of a search", "run": "Make all jobs of a search due now", "replay": "Send ended jobs of a search again",
		"reschedule": "Change when all jobs of a search are due", "discard": "Discard dead letters of a search",
	} {
		cmd.AddCommand(a.bulk(action, short))
	}
	limit := 20
	list := &cobra.Command{
		Use: "ls", Short: "List operations, newest first", Args: cobra.NoArgs,
		RunE: a.connected(func(ctx context.Context, _ []string) error {
			return table(a, a.client.Operations(ctx, client.Paging{}), limit, "ID ACTION STATE CHANGED SKIPPED FAILED OF STARTED", func(o client.Operation) []string {
				return []string{o.ID, o.Action, o.State, number(o.Changed), number(o.Skipped), number(o.Failed), estimate(&o), a.when(o.CreatedAt)}
			})
		}),
	}
	numberFlag(list, &limit, "limit", 1, "the most operations to list")
	cmd.AddCommand(list,
		a.named("get", "Show an operation", func(ctx context.Context, id string) error { return a.operation(a.client.Operation(ctx, id)) }),
		a.named("stop", "Stop an operation; it can be resumed", func(ctx context.Context, id string) error {
			return a.operation(a.client.StopOperation(ctx, id))
		}),
		a.named("resume", "Continue a stopped operation", func(ctx context.Context, id string) error {
			return a.operation(a.client.ResumeOperation(ctx, id))
		}),
	)
	return cmd
}

func (a *app) bulk(action, short string) *cobra.Command {
	b := &bulk{draft: client.OperationDraft{Action: action}}
	cmd := &cobra.Command{
		Use: action + " WORD …", Short: short, Long: short + ".\n\n" + searchHelp,
		RunE: a.connected(func(ctx context.Context, args []string) error { return a.change(ctx, b, args) }),
	}
	f := cmd.Flags()
	f.BoolVar(&b.draft.All, "all", false, "allow a search without words")
	numberFlag(cmd, &b.draft.Rate, "rate", 1, "most jobs per second (default 500)")
	f.BoolVar(&b.dry, "dry-run", false, "only count the jobs")
	f.BoolVarP(&b.yes, "yes", "y", false, "do not ask")
	f.BoolVar(&b.async, "async", false, "do not wait for the end")
	if action == "reschedule" {
		f.StringVar(&b.in, "in", "", "delay from the start of the operation, such as 30m")
		f.StringVar(&b.at, "at", "", "due time, such as 2026-01-31T09:00:00Z")
	}
	if action == "replay" {
		f.StringVar(&b.to, "to", "", "send the jobs to this URL from now on")
	}
	return cmd
}

func (a *app) change(ctx context.Context, b *bulk, words []string) error {
	if err := a.completeBulk(ctx, b, words); err != nil {
		return err
	}
	counted, err := a.client.CountOperation(ctx, b.draft)
	if err != nil || b.dry {
		return a.one(err, func() { a.printf("%s would change %s\n", b.draft.Action, counting(&counted)) })
	}
	if !b.yes {
		if err := a.confirm(fmt.Sprintf("%s %s?", b.draft.Action, counting(&counted))); err != nil {
			return err
		}
	}
	o, err := a.client.StartOperation(ctx, b.draft)
	if err != nil || b.async {
		return a.operation(o, err)
	}
	return a.watch(ctx, o)
}

func (a *app) completeBulk(ctx context.Context, b *bulk, words []string) (err error) {
	if len(words) == 0 && !b.draft.All {
		return usagef("name the jobs by words of a search, or all jobs with --all")
	}
	if b.draft.Filter, err = a.filterOf(ctx, words); err != nil {
		return err
	}
	if b.draft.Action == "reschedule" && (b.in == "") == (b.at == "") {
		return usagef("name the new time with --in or --at")
	}
	if err := duration("--in", b.in, &b.draft.Delay, nil); err != nil {
		return err
	}
	if err := dueTime(b.at, &b.draft.At); err != nil {
		return err
	}
	if b.to != "" {
		b.draft.Set = client.Patch{"url": b.to}
	}
	return nil
}

func counting(c *client.Counting) string {
	if !c.Complete {
		return fmt.Sprintf("at least %d jobs", c.Matched)
	}
	return fmt.Sprintf("%d jobs", c.Matched)
}

// confirm asks a person. Without one, a flag has to decide.
func (a *app) confirm(question string) error {
	if !a.Interactive {
		return usagef("%s Confirm with --yes, or count only with --dry-run", question)
	}
	if a.ask(question) {
		return nil
	}
	return errors.New("nothing was changed")
}

func (a *app) ask(question string) bool {
	_, _ = fmt.Fprintf(a.Err, "%s [y/N] ", question)
	line, _ := bufio.NewReader(a.In).ReadString('\n')
	return strings.EqualFold(strings.TrimSpace(line), "y")
}

// watch shows the progress of an operation until it ends. Interrupted, it asks whether to stop the
// operation, which otherwise goes on.
func (a *app) watch(ctx context.Context, o client.Operation) error {
	bar := a.newBar("jobs")
	defer bar.end()
	for o.State == "running" {
		if o.Estimate != nil {
			bar.total = *o.Estimate
		}
		bar.show(o.Changed + o.Skipped + o.Failed)
		if job.Sleep(ctx, a.Clock, 500*time.Millisecond) != nil {
			return a.interrupted(context.WithoutCancel(ctx), &o)
		}
		next, err := a.client.Operation(ctx, o.ID)
		switch {
		case ctx.Err() != nil:
			return a.interrupted(context.WithoutCancel(ctx), &o)
		case err != nil:
			return err
		}
		o = next
	}
	bar.end()
	if err := a.operation(o, nil); err != nil {
		return err
	}
	if o.State != "done" || o.Failed > 0 {
		return fmt.Errorf("operation %s: %s, %d jobs failed", o.ID, o.State, o.Failed)
	}
	return nil
}

func (a *app) interrupted(ctx context.Context, o *client.Operation) error {
	if a.Interactive && a.ask("\nStop the operation, too?") {
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		if _, err := a.client.StopOperation(ctx, o.ID); err != nil {
			return err
		}
		return errors.New("stopped; continue with duehook op resume " + o.ID)
	}
	return errors.New("the operation continues; look at it with duehook op get " + o.ID)
}

func (a *app) operation(o client.Operation, err error) error {
	return a.one(err, func() {
		a.printf("%s  %s %s: %d changed, %d skipped, %d failed of %s\n", o.ID, o.Action, o.State, o.Changed, o.Skipped, o.Failed, estimate(&o))
		for _, e := range o.Errors {
			a.printf("  %s/%s: %s\n", e.Topic, e.ID, e.Message)
		}
	})
}

func estimate(o *client.Operation) string {
	if o.Estimate == nil {
		return "an unknown number"
	}
	return number(*o.Estimate)
}

func number(n int64) string { return strconv.FormatInt(n, 10) }
