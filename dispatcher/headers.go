package dispatcher

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/job/contract"
)

// headerLimit is how much of an answer's headers the attempt log keeps: names, values, and
// four characters for each pair.
const headerLimit = 1 << 10

// mask replaces secrets in headers.
const mask = "***"

// headerExcerpt returns the headers of an answer without secrets, by name. If they exceed
// the limit, it keeps the shortest ones and cuts the next, so that one long header does
// not displace the others.
func headerExcerpt(h http.Header) []job.Header {
	if len(h) == 0 {
		return nil
	}
	list := make([]job.Header, 0, len(h))
	for name, values := range h {
		list = append(list, job.Header{Name: contract.Excerpt([]byte(name)), Value: headerValue(name, values)})
	}
	slices.SortFunc(list, func(a, b job.Header) int {
		return cmp.Or(cmp.Compare(headerSize(a), headerSize(b)), cmp.Compare(a.Name, b.Name))
	})
	left := headerLimit
	for i := range list {
		if left -= headerSize(list[i]); left >= 0 {
			continue
		}
		list = list[:i+1]
		last := &list[i]
		if room := len(last.Value) + left; room > 0 {
			last.Value = string(contract.CutRunes([]byte(last.Value), room))
		} else {
			list = list[:i]
		}
		break
	}
	slices.SortFunc(list, func(a, b job.Header) int { return cmp.Compare(a.Name, b.Name) })
	return slices.Clip(list)
}

func headerSize(h job.Header) int { return len(h.Name) + len(h.Value) + len(": \r\n") }

// headerValue returns the values of a header without secrets. It shares no memory with the
// answer.
func headerValue(name string, values []string) string {
	if keep := maskOf(name); keep != nil {
		masked := make([]string, len(values))
		for i, v := range values {
			masked[i] = keep(v)
		}
		values = masked
	}
	return contract.Excerpt([]byte(strings.Join(values, ", ")))
}

// maskOf returns what to keep of the values of a header; nil for all of it.
func maskOf(name string) func(string) string {
	name = strings.ToLower(name)
	holds := func(part string) bool { return strings.Contains(name, part) }
	switch {
	case name == "set-cookie":
		return maskCookie
	case strings.HasSuffix(name, "authorization"), strings.HasSuffix(name, "-authenticate"):
		return maskCredentials
	case slices.ContainsFunc([]string{"cookie", "token", "secret", "password", "api-key", "apikey", "authentication-info"}, holds):
		return func(string) string { return mask }
	}
	return nil
}

// maskCookie keeps a cookie's name and attributes.
func maskCookie(value string) string {
	pair, attributes, more := strings.Cut(value, ";")
	name, _, named := strings.Cut(pair, "=")
	if !named {
		return mask
	}
	if more {
		attributes = ";" + attributes
	}
	return name + "=" + mask + attributes
}

// maskCredentials keeps the scheme.
func maskCredentials(value string) string {
	scheme, _, more := strings.Cut(strings.TrimSpace(value), " ")
	if !more {
		return mask
	}
	return scheme + " " + mask
}
