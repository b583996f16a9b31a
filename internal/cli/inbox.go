package cli

import (
	"github.com/spf13/cobra"

	"github.com/duehook/duehook/internal/inbox"
)

func (a *app) inbox() *cobra.Command {
	return parent("inbox", "Show inboxes, and retry or drop their failed rows", append(a.inboxes(), a.inboxSQL())...)
}

// inboxSQL prints what somebody who owns the database applies: duehook itself has no right to.
func (a *app) inboxSQL() *cobra.Command {
	d := inbox.DDL{}
	cmd := &cobra.Command{
		Use: "sql", Short: "Print the table of an inbox, and the rights to it, for a migration", Args: cobra.NoArgs,
		Long: `Print the table of an inbox, and the rights to it, for a migration. Applications insert jobs into the
table in their own transactions; duehook serve --inbox-url registers them. Calls no server.`,
		RunE: func(*cobra.Command, []string) error {
			statements, err := d.Statements()
			if err != nil {
				return usagef("%v", err)
			}
			a.printf("%s", statements)
			return nil
		},
	}
	cmd.Flags().StringVar(&d.Dialect, "dialect", "", "postgres or mysql (also for MariaDB); required")
	cmd.Flags().StringVar(&d.Application, "application", "app", "role of the application; in MySQL, user or user@host")
	cmd.Flags().StringVar(&d.Reader, "reader", "duehook", "role of duehook")
	cmd.Flags().BoolVar(&d.Notify, "notify", false, "add a trigger that wakes duehook (PostgreSQL); it makes commits of the application wait for each other")
	return cmd
}
