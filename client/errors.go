package client

import (
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// ErrUnreachable is the error if no server answered, or if the connection broke before the whole
// answer.
var ErrUnreachable = errors.New("duehook cannot be reached")

// Code is the kind of a refusal, for programs. Each code is an error: errors.Is(err, code)
// reports whether the server refused a call with it.
type Code string //nolint:errname // it is compared with errors.Is, and named as in the API

func (c Code) Error() string { return "duehook: " + string(c) }

// Error is a refusal of the server: its problem document (RFC 9457).
type Error struct {
	Status int          `json:"status"` // the HTTP status
	Code   Code         `json:"code"`
	Title  string       `json:"title"`
	Detail string       `json:"detail"` // what is wrong and what to do, in English
	Errors []FieldError `json:"errors"`
	// State and UID are those of the job that is in the way, for example of ErrJobFinished.
	State State  `json:"state"`
	UID   string `json:"uid"`
	// Jobs and Failed are the jobs of a registration for a group that were registered and that
	// were not.
	Jobs   []RegisteredJob `json:"jobs"`
	Failed []FailedJob     `json:"failed"`

	RetryAfter time.Duration   `json:"-"` // zero if the server named none
	RequestID  string          `json:"-"` // names the call in the server's log
	Document   json.RawMessage `json:"-"` // the whole problem document
}

// FieldError is a wrong part of a request.
type FieldError struct {
	Pointer string `json:"pointer"` // a JSON pointer, /name of the path, ?name of the query, or a header
	Message string `json:"message"`
}

// FailedJob is a job of a group that was not registered.
type FailedJob struct {
	ID     string `json:"id"`
	Status int    `json:"status"`
	Code   Code   `json:"code"`
	Detail string `json:"detail"`
}

func (e *Error) Error() string {
	if len(e.Errors) == 0 {
		return cmp.Or(e.Detail, e.Title, "duehook refused the call")
	}
	parts := make([]string, len(e.Errors))
	for i, f := range e.Errors {
		parts[i] = f.Pointer + " " + f.Message
	}
	return e.Title + ": " + strings.Join(parts, "; ")
}

// Is reports whether target is the code of the error.
func (e *Error) Is(target error) bool {
	code, ok := target.(Code)
	return ok && code == e.Code
}

// retryAfter is the wait that a Retry-After names, in seconds or as a date by the clock of the server; zero: none.
func retryAfter(h http.Header) time.Duration {
	text := h.Get("Retry-After")
	if seconds, err := strconv.ParseUint(text, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	until, wrong := http.ParseTime(text)
	now, missing := http.ParseTime(h.Get("Date"))
	if wrong != nil || missing != nil {
		return 0
	}
	return max(0, until.Sub(now))
}

// maxProblem bounds a problem document: one with a thousand refused jobs of a group.
const maxProblem = 8 << 20

// refusal reads an answer that is not 2xx.
func refusal(resp *http.Response) error {
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxProblem))
	e := &Error{RequestID: resp.Header.Get("X-Request-Id")}
	e.RetryAfter = retryAfter(resp.Header)
	if err != nil || json.Unmarshal(data, e) != nil || e.Code == "" {
		e.Title = "The answer is not from duehook"
		e.Detail = "The server answered " + resp.Status + " without an error of duehook. Check the address, and any proxy in front."
		data = nil
	}
	e.Status, e.Document = resp.StatusCode, data
	return e
}
