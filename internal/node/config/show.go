package config

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"unicode/utf8"
)

// Print writes each setting with its value and origin, as a table or an object a line, and masks
// secrets.
func (c *Config) Print(w io.Writer, asJSON bool) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if !asJSON {
		_, _ = fmt.Fprintln(tw, "SETTING\tVALUE\tORIGIN") // Flush returns the error
	}
	for i := range settings {
		s := &settings[i]
		value, origin := s.show(c), cmp.Or(c.origins[s.name], originDefault)
		if !asJSON {
			_, _ = fmt.Fprintf(tw, "%s\t%s\t%s\n", s.name, cmp.Or(value, "-"), origin)
			continue
		}
		line := struct {
			Setting string `json:"setting"`
			Value   string `json:"value"`
			Origin  string `json:"origin"`
		}{s.name, value, origin}
		if err := json.NewEncoder(w).Encode(line); err != nil {
			return err
		}
	}
	return tw.Flush()
}

// Redact masks the password of a URL.
func Redact(url string) string {
	scheme, rest, ok := strings.Cut(url, "://")
	if !ok {
		return url
	}
	// The last @: an unescaped @ in a password hides too much, not too little.
	at := strings.LastIndexByte(rest, '@')
	if at < 0 {
		return url
	}
	colon := strings.IndexByte(rest[:at], ':')
	if colon < 0 {
		return url
	}
	masked := scheme + "://" + rest[:colon] + ":***"
	// In redis-sentinel://user:password@master@host, the name of the master follows
	// the password.
	if master := strings.LastIndexByte(rest[:at], '@'); scheme == "redis-sentinel" && master > colon {
		return masked + rest[master:]
	}
	return masked + rest[at:]
}

// Usage returns the help text of the flags, by group.
func Usage() string {
	var b strings.Builder
	for _, group := range groups {
		fmt.Fprintf(&b, "%s:\n", group)
		for i := range settings {
			if s := &settings[i]; s.group == group {
				fmt.Fprintf(&b, "  --%s  (default: %s)\n%s", s.usage(), s.defaultText(), wrap(s.help, "        "))
			}
		}
		b.WriteString("\n")
	}
	b.WriteString(`Each flag has an environment variable (--data-dir: DUEHOOK_DATA_DIR) and a name
in the YAML file (data_dir) that --config or DUEHOOK_CONFIG names. Flags win
over the environment, the environment over the file, the file over the defaults.
Durations: 90s, 1d12h, PT30M, or a number of seconds. Sizes: 262144, 256KiB.
`)
	return b.String()
}

func (s *setting) usage() string {
	if s.yesNo {
		return s.name
	}
	return s.name + " <" + s.hint + ">"
}

func (s *setting) defaultText() string {
	if s.def != "" {
		return s.def
	}
	return s.shown
}

// wrap breaks text into indented lines of 80 columns.
func wrap(text, indent string) string {
	const columns = 80
	var b strings.Builder
	width := 0
	for i, word := range strings.Fields(text) {
		n := 1 + utf8.RuneCountInString(word)
		switch {
		case i == 0:
			b.WriteString(indent)
			width = len(indent) + n
		case width+n > columns:
			b.WriteString("\n" + indent)
			width = len(indent) + n
		default:
			b.WriteString(" ")
			width += n
		}
		b.WriteString(word)
	}
	return b.String() + "\n"
}
