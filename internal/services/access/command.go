package access

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/pflag"

	"github.com/duehook/duehook/job"
)

// CommandUsage is the help text of Command.
const CommandUsage = `Usage:
  duehook apikey new --scope read|write|admin|consume [flags]

Creates an API key and stores it nowhere. It prints the token, which the client
sends as "Authorization: Bearer <token>", and the line of the key for --api-keys
of the nodes.

Flags:
  --scope <scope>      read, write or admin, each of which includes the ones
                       before it; or consume, to fetch jobs from pull queues
  --name <name>        a label for the key
  --namespace <name>   namespace of the nodes that accept the key (default: default)
  --expires <time>     a time such as 2027-01-31T00:00:00Z, or a duration from
                       now such as 90d (default: never)
  --topics <topics>    topics to which the key is restricted, separated by commas; a
                       final * stands for the rest of a name: orders-* (default: all)
  --rate <rate>        rate limit, such as 100/1s (default: that of the node)
  --json               print token and line as one object
`

// A UsageError reports an invalid command line.
type UsageError struct{ Message string }

func (e *UsageError) Error() string { return e.Message }

// Command is "duehook apikey" with its arguments. It creates a key and writes it to out;
// each line begins with a word for scripts. Its error is a *UsageError, or that of out.
func Command(args []string, clock job.Clock, out io.Writer) error {
	d := Draft{}
	namespace, expires, asJSON := "", "", false
	flags := pflag.NewFlagSet("apikey", pflag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&d.Scope, "scope", "", "")
	flags.StringVar(&d.Name, "name", "", "")
	flags.StringVar(&d.Rate, "rate", "", "")
	flags.StringSliceVar(&d.Topics, "topics", nil, "")
	flags.StringVar(&namespace, "namespace", DefaultNamespace, "")
	flags.StringVar(&expires, "expires", "", "")
	flags.BoolVar(&asJSON, "json", false, "")
	err := flags.Parse(args)
	switch {
	case errors.Is(err, pflag.ErrHelp):
		_, err := io.WriteString(out, CommandUsage)
		return err
	case err != nil:
		return &UsageError{err.Error()}
	case flags.NArg() != 1 || flags.Arg(0) != "new":
		return &UsageError{"the command is duehook apikey new --scope read|write|admin|consume"}
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
	token, key, err := d.make(namespace, now)
	if wrong, ok := errors.AsType[*job.ValidationError](err); ok {
		return &UsageError{flagComplaints(wrong.Fields)}
	}
	if asJSON {
		return json.NewEncoder(out).Encode(struct {
			Token string `json:"token"`
			Line  string `json:"line"`
		}{token.Reveal(), key.Line()})
	}
	_, err = fmt.Fprintf(out, "token %s\nline  %s\n", token.Reveal(), key.Line())
	return err
}

// flagComplaints names flags where the API names fields.
func flagComplaints(wrong []job.FieldError) string {
	lines := make([]string, len(wrong))
	for i, f := range wrong {
		flag := strings.TrimSuffix(string(f.Field), "_at")
		lines[i] = "--" + flag + " " + f.Message
	}
	return strings.Join(lines, "\n")
}
