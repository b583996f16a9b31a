package cli

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/duehook/duehook/client"
)

// inboxes are the commands for the inboxes of a server.
func (a *app) inboxes() []*cobra.Command {
	limit := 100
	state := "failed"
	list := &cobra.Command{
		Use: "ls [inbox]", Short: "List inboxes, or the rows of one that failed or wait", Args: cobra.MaximumNArgs(1),
		RunE: a.connected(func(ctx context.Context, args []string) error {
			if len(args) == 0 {
				return table(a, a.client.Inboxes(ctx, client.Paging{}), limit, "INBOX DATABASE FRESH WAITING FAILED ERROR", func(i client.Inbox) []string {
					return []string{i.Name, i.Database, strconv.Itoa(i.Fresh), strconv.Itoa(i.Waiting), strconv.Itoa(i.Failed), dash(i.Error)}
				})
			}
			return table(a, a.client.SetAside(ctx, args[0], client.SetAsideQuery{State: state}), limit, "ROW CREATED REASON", func(r client.SetAsideRow) []string {
				return []string{strconv.FormatInt(r.ID, 10), a.when(r.CreatedAt), firstOf(r.Error, r.WaitsFor)}
			})
		}),
	}
	numberFlag(list, &limit, "limit", 1, "the most entries to list")
	list.Flags().StringVar(&state, "state", state, "rows that are failed or waiting")
	return []*cobra.Command{
		list,
		a.changeRows("retry", "Read failed rows of an inbox again", (*client.Client).RetryRows),
		a.changeRows("drop", "Delete failed rows of an inbox", (*client.Client).DropRows),
	}
}

// changeRows is a command for failed rows: some or all.
func (a *app) changeRows(name, short string, change func(*client.Client, context.Context, string, client.SetAsideRows) (client.ChangedRows, error)) *cobra.Command {
	every := false
	cmd := &cobra.Command{
		Use: name + " inbox [row]...", Short: short, Args: cobra.MinimumNArgs(1),
		RunE: a.connected(func(ctx context.Context, args []string) error {
			rows := client.SetAsideRows{All: every}
			for _, text := range args[1:] {
				id, err := strconv.ParseInt(text, 10, 64)
				if err != nil {
					return usagef("%q is not the number of a row", text)
				}
				rows.IDs = append(rows.IDs, id)
			}
			if every == (len(rows.IDs) > 0) {
				return usagef("name either rows or --all")
			}
			changed, err := change(a.client, ctx, args[0], rows)
			return a.one(err, func() { a.printf("%d rows\n", changed.Rows) })
		}),
	}
	cmd.Flags().BoolVar(&every, "all", false, "all failed rows")
	return cmd
}
