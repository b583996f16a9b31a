package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/duehook/duehook/client"
)

// exportPage is how many jobs an export reads at a time, exportCalls how many of them at once.
const (
	exportPage  = 200
	exportCalls = 8
)

// export prints jobs as an import takes them.
func (a *app) export() *cobra.Command {
	cursor := ""
	cmd := &cobra.Command{
		Use: "export [WORD …]", Short: "Print jobs for import, one per line",
		Long: `Print unfinished jobs as import takes them, one a line. They need the scope write, since bodies may
be secret. When the export breaks off, it says with which --cursor it continues.

With --all, it opens the store of a stopped server instead, and writes all that it has; see duehook export --all --help.

A job keeps its uid, its next time and the end of its ttl. Attempts, counts, dead letters, settings and
pauses of topics, schedules, groups and alert rules stay behind: the export says how many. Where
deliveries of a topic are paused, import refuses its jobs unless they are paused there, too.

` + searchHelp,
		RunE: a.connected(func(ctx context.Context, args []string) error {
			f, err := a.filterOf(ctx, args)
			if err != nil {
				return err
			}
			if len(f.State) == 0 {
				f.State = []client.State{client.StateWaiting, client.StateRetrying}
			}
			return a.exportTo(ctx, f, cursor)
		}),
	}
	cmd.Flags().StringVar(&cursor, "cursor", "", "continue an export that broke off here")
	return cmd
}

// exportTo prints page after page, each of them whole, so that its cursor is where to continue.
func (a *app) exportTo(ctx context.Context, f client.JobFilter, cursor string) error {
	bar := a.newBar("jobs")
	if a.Interactive && !a.json {
		counted, err := a.client.CountOperation(ctx, client.OperationDraft{Action: "cancel", Filter: f, All: true})
		if err == nil && counted.Complete && cursor == "" {
			bar.total = counted.Matched
		}
	}
	n, out := int64(0), newLeft()
	for {
		page, err := a.client.JobPage(ctx, client.JobQuery{JobFilter: f, Paging: client.Paging{Limit: exportPage, Cursor: cursor}})
		var lines []string
		if err == nil {
			lines, err = a.registrations(ctx, page.Data, out)
		}
		if err == nil {
			_, err = io.WriteString(a.Out, strings.Join(lines, ""))
		}
		if err != nil {
			bar.end()
			if cursor != "" {
				err = &brokenOffError{cause: err, flags: "--cursor " + cursor}
			}
			return err
		}
		n += int64(len(lines))
		bar.show(n)
		if page.NextCursor == "" {
			break
		}
		cursor = page.NextCursor
	}
	bar.end()
	a.hint("%d jobs\n", n)
	return a.leave(ctx, out)
}

// registrations are the lines of jobs. Those that ended meanwhile have none.
func (a *app) registrations(ctx context.Context, jobs []client.Job, out *left) ([]string, error) {
	lines := make([]string, len(jobs))
	for i := range jobs {
		if jobs[i].Attempts > 0 {
			out.add(leftAttempts, 1)
		}
		if c := jobs[i].Count; c != nil && c.Count > 0 {
			out.add(leftCounts, 1)
		}
		if err := out.look(ctx, a.client, jobs[i].Topic); err != nil {
			return nil, err
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(exportCalls)
	for i := range jobs {
		group.Go(func() error {
			j := &jobs[i]
			r, err := a.client.JobRegistration(ctx, j.Topic, j.ID)
			if errors.Is(err, client.ErrJobNotFound) {
				return nil
			}
			if err != nil {
				return err
			}
			kept := exported{r, out.note(j)}
			kept.Topic, kept.ID, kept.UID, kept.At, kept.Delay = j.Topic, j.ID, j.UID, j.NextAt, 0
			if r.TTL > 0 {
				e, err := a.client.Explain(ctx, j.Topic, j.ID)
				if errors.Is(err, client.ErrJobNotFound) {
					return nil
				}
				if err != nil {
					return err
				}
				if kept.Export == nil {
					kept.Export = &exportNote{}
				}
				kept.Export.ExpiresAt = e.Ladder.ExpiresAt
			}
			data, err := json.Marshal(&kept)
			if err != nil {
				return fmt.Errorf("encode %s/%s: %w", j.Topic, j.ID, err)
			}
			lines[i] = string(data) + "\n"
			return nil
		})
	}
	err := group.Wait()
	return slices.DeleteFunc(lines, func(line string) bool { return line == "" }), err
}
