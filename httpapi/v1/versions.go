package v1

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/duehook/duehook/httpapi"
	"github.com/duehook/duehook/httpapi/decode"
	"github.com/duehook/duehook/internal/documents"
	"github.com/duehook/duehook/internal/kit/jsonio"
)

const (
	headerETag        = "ETag"
	headerIfMatch     = "If-Match"
	headerIfNoneMatch = "If-None-Match"
)

// tagOf is a version as a strong entity tag.
func tagOf(version uint64) string { return `"` + strconv.FormatUint(version, 10) + `"` }

// tagIfAny is tagOf; without a version, there is nothing.
func tagIfAny(version uint64) string {
	if version == 0 {
		return ""
	}
	return tagOf(version)
}

func (r *request) setVersion(version uint64) { r.Header().Set(headerETag, tagOf(version)) }

// writeStamp writes when a document was made and changed, and its version.
func writeStamp(w *jsonio.Writer, s *documents.Stamp) {
	w.Instant("created_at", s.CreatedAt)
	w.Instant("updated_at", s.UpdatedAt)
	w.Number("version", int64(s.Version))
}

// allow allows a change only of the versions that the conditions of the request name.
func (r *request) allow() []documents.Allow {
	if r.conditions == (conditions{}) {
		return nil
	}
	return []documents.Allow{func(exists bool, version uint64) error {
		if !exists {
			return r.check("")
		}
		return r.check(tagOf(version))
	}}
}

// conditions are those of a request (RFC 9110, section 13.1), and the version that a PATCH
// was made for. Nil: anything goes.
type conditions struct {
	match, none *tags
	patched     *string
}

// tags are the versions of a condition.
type tags struct {
	any  bool     // that there is something
	tags []string // with their quotes
}

// readConditions reads the conditions of a request, and refuses them if the call does not
// obey any. A read ignores what it does not obey.
func (r *request) readConditions() (err error) {
	c := &r.conditions
	if r.reads() {
		if c.none, err = readTags(headerIfNoneMatch, r.Request.Header.Values(headerIfNoneMatch)); err != nil {
			c.none = nil
		}
		return nil
	}
	for name, into := range map[string]**tags{headerIfMatch: &c.match, headerIfNoneMatch: &c.none} {
		if *into, err = readTags(name, r.Request.Header.Values(name)); err != nil {
			return err
		}
		if *into != nil && !r.row.is(obeys) {
			return decode.Invalid(name, "is not obeyed by this call; leave it out")
		}
	}
	return nil
}

func (r *request) reads() bool {
	return r.Request.Method == http.MethodGet || r.Request.Method == http.MethodHead
}

// setWhole is setVersion for an answer in which nothing changes without its version. A read by a client that has
// the version answers 304.
func (r *request) setWhole(version uint64) {
	r.setVersion(version)
	r.unchanged = r.reads() && r.conditions.none != nil && r.conditions.none.matches(tagOf(version))
}

// readTags reads a header with versions. If-Match compares strongly, so weak ones are left out; a proxy that
// compresses answers makes them weak, and for If-None-Match they count (RFC 9110, 13.1).
func readTags(header string, values []string) (*tags, error) {
	if len(values) == 0 {
		return nil, nil
	}
	text := strings.Join(values, ",")
	if strings.Trim(text, " \t") == "*" {
		return &tags{any: true}, nil
	}
	t := &tags{}
	given := false
	for rest := text; ; {
		rest = strings.TrimLeft(rest, ", \t")
		if rest == "" {
			break
		}
		strong, weak := strings.CutPrefix(rest, "W/")
		tag, after, ok := cutTag(strong)
		after = strings.TrimLeft(after, " \t")
		if !ok || after != "" && after[0] != ',' {
			return nil, decode.Invalid(header, `must be * or a list of versions in quotes, each as an ETag gave it, such as "2"`)
		}
		if given = true; !weak || header == headerIfNoneMatch {
			t.tags = append(t.tags, tag)
		}
		rest = after
	}
	if !given {
		return nil, decode.Invalid(header, "must not be empty; leave it out to accept any version")
	}
	return t, nil
}

// cutTag cuts a quoted tag off the beginning of a text.
func cutTag(text string) (tag, rest string, ok bool) {
	if text == "" || text[0] != '"' {
		return "", "", false
	}
	end := strings.IndexByte(text[1:], '"') + 2
	if end < 2 || strings.ContainsFunc(text[1:end-1], func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return "", "", false
	}
	return text[:end], text[end:], true
}

// matches reports whether a version is one of the tags. Empty: there is nothing.
func (t *tags) matches(tag string) bool { return tag != "" && (t.any || slices.Contains(t.tags, tag)) }

// check refuses a change of a version that the conditions do not allow. An empty tag means
// that there is nothing.
func (c *conditions) check(tag string) error {
	switch {
	case c.match != nil && tag == "":
		return &httpapi.Error{Code: httpapi.CodeVersionChanged, Detail: "If-Match names a version, but nothing has this name yet. Leave If-Match out to create it."}
	case c.match != nil && !c.match.matches(tag):
		return &httpapi.Error{
			Code:   httpapi.CodeVersionChanged,
			Detail: "The current version is " + tag + ", not the one in If-Match. Nothing was changed. Look it up and decide again.",
		}
	case c.none != nil && c.none.matches(tag):
		return &httpapi.Error{
			Code:   httpapi.CodeVersionChanged,
			Detail: "If-None-Match excludes the current version, " + tag + ". Nothing was changed.",
		}
	case c.patched != nil && *c.patched != tag:
		return errPatched
	}
	return nil
}

// errPatched says that what a PATCH was applied to has changed since.
var errPatched = errors.New("the patched version has changed")
