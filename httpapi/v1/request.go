package v1

import (
	"bytes"
	"maps"
	"net/http"
	"net/url"
	"slices"

	"github.com/duehook/duehook/httpapi"
	"github.com/duehook/duehook/httpapi/decode"
	"github.com/duehook/duehook/internal/job"
)

// bodyKind is what a call takes as its body.
type bodyKind uint8

const (
	bodyRefused      bodyKind = iota // no body
	bodyJSON                         // a JSON object
	bodyEmptyJSON                    // nothing, or {}
	bodyOptionalJSON                 // nothing, or a JSON object
	bodyMergePatch                   // a merge patch (RFC 7396), which is a JSON object
)

// maxSmall bounds, in bytes, the body of a call that registers or changes no job.
const maxSmall = 64 << 10

// maxEmpty bounds, in bytes, a body that has to be {}.
const maxEmpty = 1 << 10

// request is a call with the parts that its row of the table names.
type request struct {
	*httpapi.Call
	row    *route
	query  params
	buffer *bytes.Buffer // holds the body
	status int           // of the answer; zero: 200
	given  []byte        // in the place of the body
	// unchanged: the client has what a read would show.
	unchanged bool
	conditions
}

// key is the key of the job that the path names.
func (r *request) key() job.Key { return job.Key{Topic: r.Param("topic"), ID: r.Param("id")} }

// checkNames checks the names in the path.
func (r *request) checkNames(names []string) error {
	for _, name := range names {
		if err := checkName("/"+name, r.Param(name)); err != nil {
			return err
		}
	}
	return nil
}

// body reads a JSON body of up to limit bytes and checks its syntax. A missing one
// is nil if the call needs none. The bytes are valid until the call is answered.
func (r *request) body(limit int64) (_ []byte, err error) {
	if r.given != nil {
		if int64(len(r.given)) > limit {
			return nil, &httpapi.Error{Code: httpapi.CodeBodyTooLarge, Detail: "What the patch would make is too large."}
		}
		return r.given, nil
	}
	read := r.ReadJSON
	switch {
	case r.row.body == bodyMergePatch:
		read = r.ReadMergePatch
	case r.row.body != bodyJSON && !r.HasBody():
		return nil, nil
	}
	if r.buffer, err = read(limit); err != nil {
		return nil, err
	}
	return r.buffer.Bytes(), nil
}

// read decodes the body. Without a body, the result is a zero T.
func read[T any](r *request, limit int64, fields decode.FieldSet[T]) (*T, *decode.Errors, error) {
	data, err := r.body(limit)
	if err != nil || data == nil {
		return new(T), new(decode.Errors), err
	}
	into, errs := decode.Decode(data, fields)
	return into, errs, nil
}

// readAll is read for calls without further validation.
func readAll[T any](r *request, limit int64, fields decode.FieldSet[T]) (*T, error) {
	into, errs, err := read(r, limit, fields)
	if err == nil {
		err = errs.Err()
	}
	return into, err
}

// release keeps the buffer of the body for its next use.
func (r *request) release() {
	if r.buffer != nil {
		httpapi.Release(r.buffer)
	}
}

// created makes the answer say whether the resource is new.
func (r *request) created(isNew bool) {
	if isNew {
		r.status = http.StatusCreated
	}
}

// readQuery reads the query. Unknown parameters are errors, and so are those given
// twice that may not be.
func (r *request) readQuery() error {
	r.query.Limit = defaultPage
	if r.Request.URL.RawQuery == "" {
		return nil
	}
	given, err := url.ParseQuery(r.Request.URL.RawQuery)
	if err != nil {
		return decode.Invalid("?", "the query string cannot be parsed; percent-encode all characters except letters, digits and -._~")
	}
	var errs decode.Errors
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if !slices.ContainsFunc(r.row.query, func(p parameter) bool { return p.name == name }) {
			errs.Unknown("?"+httpapi.Shorten(name), "is not a query parameter of this call", name, parameterNames(r.row.query), "?")
		}
	}
	for _, p := range r.row.query {
		switch values := p.values(given[p.name]); {
		case len(values) > 1 && !p.many:
			errs.Add("?"+p.name, "is given more than once")
		case len(values) > 0:
			p.read(&r.query, &errs, "?"+p.name, values)
		}
	}
	return errs.Err()
}

// singleHeader is the value of a header that may be given once.
func singleHeader(h http.Header, name string) (string, error) {
	values := h.Values(name)
	switch len(values) {
	case 0:
		return "", nil
	case 1:
		return values[0], nil
	}
	return "", decode.Invalid(name, "is given more than once")
}

// checkName refuses what is no name.
func checkName(pointer, value string) error {
	if err := job.CheckName(value); err != nil {
		return decode.Invalid(pointer, err.Error())
	}
	return nil
}
