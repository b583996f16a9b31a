package cli

import (
	"strings"
	"testing"

	"github.com/duehook/duehook/client"
	"github.com/duehook/duehook/internal/importer"
)

// The error of an import whose server went away says what to do about it, and then how to continue.
func TestServerWentAway(t *testing.T) {
	err := &brokenOffError{cause: &importer.Error{Reason: client.ErrUnreachable, Message: "duehook cannot be reached"}, done: 500}
	const detail = "duehook cannot be reached; name the server with --url, DUEHOOK_URL or a context, or start one with duehook serve"
	const again = "500 jobs are done; run the command again to continue: nothing is registered twice"
	for want, jsonOutput := range map[string]bool{
		"duehook: " + detail + "\n" + again + "\n":                               false,
		`{"code":"unreachable","detail":"` + detail + `\n` + again + `"}` + "\n": true,
	} {
		var out strings.Builder
		if code := ExitCode(err, jsonOutput, &out); code != ExitUnavailable || out.String() != want {
			t.Errorf("exit code %d, %q, want %q", code, out.String(), want)
		}
	}
}
