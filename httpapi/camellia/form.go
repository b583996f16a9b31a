package camellia

import (
	"bytes"
	"fmt"
	"maps"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/duehook/duehook/httpapi"
	"github.com/duehook/duehook/internal/job"
)

// maxOthers bounds the parameters of a request beside the message, in bytes.
const maxOthers = 64 << 10

// form are the parameters of a call, in the query or in the body. It collects what is wrong.
type form struct {
	values url.Values
	wrong  string // the first parameter that is missing or of another type
}

// read reads the parameters of a call.
func (a *api) read(c *httpapi.Call) (*form, error) {
	f := &form{values: maps.Clone(c.Query())}
	if c.Request.Method == http.MethodGet {
		return f, nil
	}
	a.used.Store(int64(a.now()))
	const escaped = len("%00")
	body, err := c.ReadBody(int64(escaped*a.App.Bounds().MaxBody + maxOthers))
	if err != nil {
		return nil, err
	}
	defer httpapi.Release(body)
	f.add(c.Request.Header.Get("Content-Type"), body.Bytes())
	return f, nil
}

// add adds the parameters of a body. Like the original's server, it leaves out what it cannot read.
func (f *form) add(contentType string, body []byte) {
	media, params, _ := mime.ParseMediaType(contentType)
	var more url.Values
	switch media {
	case "application/x-www-form-urlencoded":
		more, _ = url.ParseQuery(string(body))
	case "multipart/form-data":
		parts, err := multipart.NewReader(bytes.NewReader(body), params["boundary"]).ReadForm(int64(len(body)))
		if err != nil {
			return
		}
		defer func() { _ = parts.RemoveAll() }() // none was large enough for a file
		more = parts.Value
	}
	for name, values := range more {
		f.values[name] = append(f.values[name], values...)
	}
}

// text is a required text. The values of a repeated one are joined.
func (f *form) text(name string) string {
	if len(f.values[name]) == 0 {
		f.fails(name)
	}
	return strings.Join(f.values[name], ",")
}

// number is an integer of so many bits; empty or absent: otherwise.
func (f *form) number(name string, bits int, otherwise int64) int64 {
	text := strings.TrimSpace(f.values.Get(name))
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseInt(text, 10, bits)
	if err != nil {
		f.fails(name)
	}
	return n
}

// instant is a time in milliseconds; nil if it is absent.
func (f *form) instant(name string) *job.Instant {
	if n := f.number(name, 64, 0); n != 0 {
		return new(job.Instant(n))
	}
	return nil
}

// required is an integer of 64 bits that must be given.
func (f *form) required(name string) int64 {
	if strings.TrimSpace(f.values.Get(name)) == "" {
		f.fails(name)
	}
	return f.number(name, 64, 0)
}

// boolean is a truth value, and whether it was given.
func (f *form) boolean(name string) (value, given bool) {
	switch strings.ToLower(strings.TrimSpace(f.values.Get(name))) {
	case "":
		return false, false
	case "true", "on", "yes", "1":
		return true, true
	case "false", "off", "no", "0":
		return false, true
	}
	f.fails(name)
	return false, true
}

func (f *form) fails(name string) {
	if f.wrong == "" {
		f.wrong = name
	}
}

// check returns an error if a parameter is wrong, if a required one is empty, or if the caller may not
// use the topic.
func (f *form) check(c *httpapi.Call, filled ...string) error {
	filled = append(filled, "topic")
	for _, name := range filled {
		f.text(name)
	}
	if f.wrong != "" {
		return &httpapi.Error{Code: httpapi.CodeMalformedJSON, Detail: fmt.Sprintf("The parameter %s is missing or of another type.", f.wrong)}
	}
	for _, name := range filled {
		if f.text(name) == "" {
			return &httpapi.Error{Code: httpapi.CodeInvalidRequest}
		}
	}
	for _, name := range []string{"topic", "msgId"} { // an answer could not repeat it
		if !utf8.ValidString(strings.Join(f.values[name], ",")) {
			return &httpapi.Error{Code: httpapi.CodeInvalidRequest, Detail: fmt.Sprintf("The parameter %s is not UTF-8.", name)}
		}
	}
	return c.Topics().Allow(job.NameOf(f.text("topic")))
}
