package node

import (
	"io"
	"log/slog"
	"os"

	"github.com/mattn/go-isatty"

	"github.com/duehook/duehook/internal/node/config"
	"github.com/duehook/duehook/internal/services/access"
)

// NewLogger writes text or JSON lines to w, as the settings say. They show no
// secrets, and durations with their unit.
func NewLogger(c *config.Config, w io.Writer) *slog.Logger {
	options := &slog.HandlerOptions{Level: c.LogLevel, ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
		if a.Value.Kind() == slog.KindDuration { // which JSON would have as a number of nanoseconds
			return slog.String(a.Key, a.Value.Duration().String())
		}
		return access.RedactAttr(groups, a)
	}}
	if TextLogs(c, w) {
		return slog.New(slog.NewTextHandler(w, options))
	}
	return slog.New(slog.NewJSONHandler(w, options))
}

// TextLogs reports whether logs to w are text for people rather than JSON.
func TextLogs(c *config.Config, w io.Writer) bool {
	switch c.LogFormat {
	case "text":
		return true
	case "json":
		return false
	}
	return IsTerminal(w)
}

// IsTerminal reports whether the output is a terminal.
func IsTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}
