package config

import (
	"fmt"
	"strings"
)

// markdown returns docs/settings.md.
func markdown() string {
	var b strings.Builder
	b.WriteString(`# Settings

<!-- Written by: go test ./internal/node/config -update -->

A setting has four sources. The first one that sets it wins:

1. a flag: ` + "`duehook serve --data-dir /var/lib/duehook`" + `;
2. an environment variable: ` + "`DUEHOOK_DATA_DIR=/var/lib/duehook`" + ` (an empty variable counts as not set);
3. a line of the YAML file that ` + "`--config` or `DUEHOOK_CONFIG`" + ` names: ` + "`data_dir: /var/lib/duehook`" + `;
4. its default.

` + "`duehook config`" + ` takes the same flags as ` + "`duehook serve`" + ` and prints each value with its origin
and masks passwords. Unknown flags, unknown variables that begin with ` + "`DUEHOOK_`" + `, unknown lines of
the file and invalid values are errors: duehook exits with code 2.

A setting that may contain a password can have its own file. The variable with ` + "`_FILE`" + `
added to its name holds the path (` + "`DUEHOOK_REDIS_URL_FILE=/run/secrets/redis`" + `).

Durations are written ` + "`90s`, `1d12h`, `PT30M`" + ` or as a number of seconds; sizes ` + "`262144`, `256KiB`, `1MiB`" + `.
Lists are separated by commas; their flags can be repeated, and the file can have YAML lists.
`)
	for _, group := range groups {
		fmt.Fprintf(&b, "\n## %s\n\n| flag | environment | file | default | range | what it does |\n|---|---|---|---|---|---|\n", group)
		for i := range settings {
			s := &settings[i]
			if s.group != group {
				continue
			}
			env := "`" + s.env() + "`"
			if s.secret {
				env += ", `…" + fileSuffix + "`"
			}
			def := s.shown
			if s.def != "" {
				def = "`" + s.def + "`"
			}
			within := ""
			if s.least != "" {
				within = "`" + s.least + "` to `" + s.most + "`"
			}
			fmt.Fprintf(&b, "| `--%s` | %s | `%s` | %s | %s | %s |\n", s.name, env, s.key(), markdownText(def), within, markdownText(s.help))
		}
	}
	return b.String()
}

// markdownText escapes <placeholders>, which are no HTML.
func markdownText(s string) string { return strings.ReplaceAll(s, "<", "&lt;") }
