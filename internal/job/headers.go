package job

import (
	"errors"
	"fmt"
	"maps"
	"net/textproto"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// refusedHeaders has the reason why clients may not set a header, by canonical
// name. Names that end in "-" are prefixes.
var refusedHeaders = map[string]string{
	"Connection":        hopByHop,
	"Keep-Alive":        hopByHop,
	"Proxy-":            hopByHop,
	"Http2-Settings":    hopByHop,
	"Te":                hopByHop,
	"Trailer":           hopByHop,
	"Transfer-Encoding": hopByHop,
	"Upgrade":           hopByHop,
	"Expect":            "is refused: it controls the connection, not the receiver",
	"Host":              "is refused: it is taken from the URL",
	"Content-Length":    "is refused: it is computed from the body",
	"Content-Type":      "is refused: use content_type",
	"User-Agent":        ownHeader,
	"Traceparent":       "is refused: it is taken from the registration's own traceparent header",
	"Tracestate":        "is refused: it is taken from the registration's own tracestate header",
	"Webhook-":          ownHeader,
	"Duehook-":          ownHeader,
}

const (
	hopByHop  = "is refused: it concerns one connection only"
	ownHeader = "is refused: duehook sets it"
)

// headers reads the headers of a draft, in canonical form and sorted by name,
// so that equal content is encoded equally.
func (f *Findings) headers(given map[string]string) []Header {
	if len(given) > MaxHeaders {
		f.Add("headers", fmt.Sprintf("must have at most %d entries", MaxHeaders))
		return nil
	}
	var list []Header
	total, seen := 0, map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		value, canonical := given[name], textproto.CanonicalMIMEHeaderKey(name)
		total += len(name) + len(value)
		err := checkHeader(canonical, value)
		if err == nil && seen[canonical] {
			err = errors.New("is given twice; names do not depend on case")
		}
		if err != nil {
			f.Add(member("headers", name, MaxHeaderName), err.Error())
		}
		seen[canonical] = true
		list = append(list, Header{Name: canonical, Value: value})
	}
	if total > MaxHeaderBytes {
		f.Add("headers", errHeaderBytes.Error())
	}
	slices.SortFunc(list, func(a, b Header) int { return strings.Compare(a.Name, b.Name) })
	return list
}

var errHeaderBytes = fmt.Errorf("must have at most %d bytes of names and values", MaxHeaderBytes)

// CheckHeaders checks the number and the size of headers from several sources, of which
// each is valid by itself.
func CheckHeaders(headers []Header) error {
	total := 0
	for _, h := range headers {
		total += len(h.Name) + len(h.Value)
	}
	switch {
	case len(headers) > MaxHeaders:
		return fmt.Errorf("must have at most %d entries", MaxHeaders)
	case total > MaxHeaderBytes:
		return errHeaderBytes
	}
	return nil
}

// member is the field of a member with a name of the client's. It cuts long names,
// so that an error is no larger than its request.
func member(object Field, name string, longest int) Field {
	return object.In(strings.ToValidUTF8(name[:min(len(name), longest)], "\uFFFD"))
}

func checkHeader(name, value string) error {
	switch {
	case !isToken(name):
		return errors.New("must have a name of the characters that HTTP allows in one")
	case len(name) > MaxHeaderName:
		return fmt.Errorf("must have a name of at most %d characters", MaxHeaderName)
	case len(value) > MaxHeaderValue:
		return fmt.Errorf("must have a value of at most %d bytes", MaxHeaderValue)
	}
	if why := refusal(name); why != "" {
		return errors.New(why)
	}
	return checkHeaderValue(value)
}

// refusal is why clients may not set a header. Receivers behind CGI, WSGI or PHP cannot tell _ and other signs from -.
func refusal(canonical string) string {
	canonical = textproto.CanonicalMIMEHeaderKey(strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return r
		}
		return '-'
	}, canonical))
	if why, ok := refusedHeaders[canonical]; ok {
		return why
	}
	prefix, _, dashed := strings.Cut(canonical, "-")
	if !dashed {
		return ""
	}
	return refusedHeaders[prefix+"-"]
}

// checkHeaderValue refuses values that would not arrive unchanged: senders trim
// spaces, and control characters would end the header.
func checkHeaderValue(value string) error {
	switch {
	case !utf8.ValidString(value):
		return errors.New("must be valid UTF-8")
	case strings.ContainsFunc(value, func(r rune) bool { return unicode.IsControl(r) && r != '\t' }):
		return errors.New("must not contain control characters")
	case strings.Trim(value, " \t") != value:
		return errors.New("must not begin or end with a space or tab")
	}
	return nil
}

// isToken reports whether s is a token of RFC 9110.
func isToken(s string) bool {
	const chars = "!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool { return !strings.ContainsRune(chars, r) })
}
