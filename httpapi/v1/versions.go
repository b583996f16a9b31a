package v1

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/duehook/duehook/httpapi"
	"github.com/duehook/duehook/job"
)

const (
	headerETag    = "ETag"
	headerIfMatch = "If-Match"
)

// jobTag is the version of a job, as a strong entity tag.
func jobTag(j *job.Job) string { return versionTag(j.UID, j.Version) }

// versionTag is the version of a job or schedule; without a uid, there is none. One that is
// made anew counts from the beginning, so the uid is a part of it. Counters and notes of a
// schedule are no part.
func versionTag(uid string, version uint64) string {
	if uid == "" {
		return ""
	}
	return `"` + uid + "-" + strconv.FormatUint(version, 10) + `"`
}

// contentTag is the version of a topic or rule, which is the same as long as the
// content is.
func contentTag(name string, content any) string {
	text, err := json.Marshal(content)
	if err != nil { // which its store would refuse, too
		text = nil
	}
	sum := sha256.Sum256(append([]byte(name+"\n"), text...))
	return `"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`
}

func (r *request) setETag(tag string) { r.Header().Set(headerETag, tag) }

// allowing allows a change only of a version that If-Match asks for, if there is one. tag
// returns the version of what is to be changed; empty: there is none.
func allowing[Allow ~func(T) error, T any](r *request, tag func(T) string) ([]Allow, error) {
	wanted, err := r.ifMatch()
	if err != nil || wanted == nil {
		return nil, err
	}
	return []Allow{func(is T) error { return wanted.check(tag(is)) }}, nil
}

// precondition is what If-Match asks for; nil: nothing.
type precondition struct {
	any  bool     // that there is something
	tags []string // that it has one of these versions; strong ones, with their quotes
}

// ifMatch reads the If-Match of a request (RFC 9110, section 13.1.1). Its tags are
// compared strongly, so weak ones are left out.
func (r *request) ifMatch() (*precondition, error) {
	values := r.Request.Header.Values(headerIfMatch)
	if len(values) == 0 {
		return nil, nil
	}
	text := strings.Join(values, ",")
	if strings.Trim(text, " \t") == "*" {
		return &precondition{any: true}, nil
	}
	p := &precondition{}
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
			return nil, invalid(headerIfMatch, `must be * or a list of versions in quotes, each as an ETag gave it, such as "01KDWCJ2M00000000000000001-2"`)
		}
		if given = true; !weak {
			p.tags = append(p.tags, tag)
		}
		rest = after
	}
	if !given {
		return nil, invalid(headerIfMatch, "must not be empty; leave it out to accept any version")
	}
	return p, nil
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

// check refuses a change if the entry's version is not among the requested ones.
// An empty tag means that there is no entry.
func (p *precondition) check(tag string) error {
	switch {
	case p == nil, p.any && tag != "", slices.Contains(p.tags, tag):
		return nil
	case tag == "":
		return &httpapi.Error{Code: httpapi.CodeVersionChanged, Detail: "If-Match names a version, but nothing has this name yet. Leave If-Match out to create it."}
	}
	return &httpapi.Error{
		Code:   httpapi.CodeVersionChanged,
		Detail: "The current version is " + tag + ", not the one in If-Match. Nothing was changed. Look it up and decide again.",
	}
}
