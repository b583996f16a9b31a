package cli

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// manual writes the man pages of all commands. Their date is SOURCE_DATE_EPOCH, if it is set.
func (a *app) manual() *cobra.Command {
	return &cobra.Command{
		Use: "man DIR", Short: "Write the man pages to a directory", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o750); err != nil {
				return usagef("%v", err)
			}
			header := &doc.GenManHeader{Section: "1", Source: "duehook " + a.Version, Manual: "duehook"}
			root := cmd.Root()
			root.InitDefaultHelpCmd()
			root.InitDefaultCompletionCmd()
			root.DisableAutoGenTag = true
			if err := doc.GenManTree(root, header, args[0]); err != nil {
				return fmt.Errorf("write the man pages: %w", err)
			}
			return nil
		},
	}
}
