package access

import (
	"log/slog"
	"regexp"
	"strings"
)

const hidden = "***"

var (
	tokenForm  = regexp.MustCompile(`(` + tokenPrefix + `[a-z2-7]{8}_)[A-Za-z0-9_-]+`)
	secretForm = regexp.MustCompile(`whsec_[A-Za-z0-9+/=_-]+`)
	headerForm = regexp.MustCompile(`\b([Bb]earer|[Bb]asic) +[A-Za-z0-9._~+/=-]{12,}`)
	urlForm    = regexp.MustCompile(`[A-Za-z][A-Za-z0-9+.-]*://[^\s"'<>]+`)
)

// Redact masks secrets in a text for the log: those of API tokens and signatures,
// credentials of Authorization headers, and user names, passwords, queries and fragments
// of URLs.
func Redact(text string) string {
	if strings.Contains(text, "://") {
		text = urlForm.ReplaceAllStringFunc(text, redactURL)
	}
	if strings.Contains(text, tokenPrefix) {
		text = tokenForm.ReplaceAllString(text, "${1}"+hidden)
	}
	if strings.Contains(text, "whsec_") {
		text = secretForm.ReplaceAllString(text, "whsec_"+hidden)
	}
	if strings.Contains(text, "earer ") || strings.Contains(text, "asic ") {
		text = headerForm.ReplaceAllString(text, "$1 "+hidden)
	}
	return text
}

// redactURL needs no parser, because the URL may be invalid.
func redactURL(url string) string {
	scheme, rest, _ := strings.Cut(url, "://")
	path, query := rest, ""
	if i := strings.IndexAny(rest, "?#"); i >= 0 {
		path, query = rest[:i], rest[i:i+1]+hidden
		if strings.Contains(rest[i:], "@") {
			// A query with an @, or a password with a question mark: mask both.
			return scheme + "://" + hidden
		}
	}
	if i := strings.LastIndexByte(path, '@'); i >= 0 {
		path = hidden + path[i:]
	}
	return scheme + "://" + path + query
}

// RedactAttr is a slog.HandlerOptions.ReplaceAttr that redacts all texts and errors.
func RedactAttr(_ []string, a slog.Attr) slog.Attr {
	switch a.Value.Kind() {
	case slog.KindString:
		a.Value = slog.StringValue(Redact(a.Value.String()))
	case slog.KindAny:
		if err, ok := a.Value.Any().(error); ok {
			a.Value = slog.StringValue(Redact(err.Error()))
		}
	}
	return a
}
