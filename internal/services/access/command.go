package access

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/pflag"

	"github.com/duehook/duehook/job"
)

// CommandUsage is the help text of Command.
const CommandUsage = `Usage:
  duehook apikey new --scope read|write|admin [flags]

Makes an API key. It prints the token, which the client sends as
"Authorization: Bearer <token>" and which is kept nowhere, and the line that
stands for it in the servers' --api-keys.

Flags:
  --scope <scope>      read, write or admin; each includes those before it
  --name <name>        what people call the key
  --namespace <name>   of the servers that the key is for (default: default)
  --expires <time>     a time such as 2027-01-31T00:00:00Z, or a duration from
                       now such as 90d (default: never)
  --rate <rate>        most requests, such as 100/1s (default: the server's)
`

// A UsageError is a command line that cannot be followed.
type UsageError struct{ Message string }

func (e *UsageError) Error() string { return e.Message }

// Command is "duehook apikey" with its arguments: it makes a key and writes it
// to out, with one word in front of each line for scripts to go by. Its error
// is a *UsageError, or that of out.
func Command(args []string, clock job.Clock, out io.Writer) error {
	d := Draft{}
	namespace, expires := "", ""
	flags := pflag.NewFlagSet("apikey", pflag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&d.Scope, "scope", "", "")
	flags.StringVar(&d.Name, "name", "", "")
	flags.StringVar(&d.Rate, "rate", "", "")
	flags.StringVar(&namespace, "namespace", DefaultNamespace, "")
	flags.StringVar(&expires, "expires", "", "")
	err := flags.Parse(args)
	switch {
	case errors.Is(err, pflag.ErrHelp):
		_, err := io.WriteString(out, CommandUsage)
		return err
	case err != nil:
		return &UsageError{err.Error()}
	case flags.NArg() != 1 || flags.Arg(0) != "new":
		return &UsageError{"write duehook apikey new --scope read, write or admin"}
	}
	now := job.InstantOf(clock.Now())
	if d.ExpiresAt = expires; expires != "" {
		if after, err := job.ParseDuration(expires); err == nil {
			d.ExpiresAt = formatInstant(now.Add(after))
		}
	}
	if err := job.CheckName(namespace); err != nil {
		return &UsageError{"--namespace " + err.Error()}
	}
	token, key, wrong := d.make(namespace, now)
	if len(wrong) > 0 {
		return &UsageError{flagComplaints(wrong)}
	}
	_, err = fmt.Fprintf(out, "token %s\nline  %s\n", token.Reveal(), key.Line())
	return err
}

// flagComplaints speaks of flags where the API speaks of fields.
func flagComplaints(wrong []job.FieldError) string {
	lines := make([]string, len(wrong))
	for i, f := range wrong {
		flag := strings.TrimSuffix(string(f.Field), "_at")
		lines[i] = "--" + flag + " " + f.Message
	}
	return strings.Join(lines, "\n")
}
