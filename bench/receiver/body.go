package receiver

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// prefix is how every body begins: with the job's number and its due time in
// milliseconds, at fixed places.
const (
	prefix     = `{"n":"%010d","due":"%013d","text":"`
	numberAt   = len(`{"n":"`)
	dueAt      = numberAt + 10 + len(`","due":"`)
	prefixSize = dueAt + 13 + len(`","text":"`)
)

// filler is what bodies are filled up with, from one of its first letters on.
var filler = strings.Repeat("abcdefghijklmnopqrstuvwxyz", 64)

// Body is the body of job n, of so many bytes: prefixSize at least, and hardly
// more than the filler at most.
func Body(n int, due time.Time, size int) []byte {
	b := fmt.Appendf(make([]byte, 0, size), prefix, n, due.UnixMilli())
	b = append(b, filler[n%26:][:size-2-len(b)]...)
	return append(b, `"}`...)
}

// parse reads what Body wrote.
func parse(body []byte) (n int, due time.Time, err error) {
	if len(body) < prefixSize {
		return 0, due, fmt.Errorf("a body of %d bytes is too short", len(body))
	}
	if n, err = strconv.Atoi(string(body[numberAt : numberAt+10])); err != nil {
		return 0, due, err
	}
	ms, err := strconv.ParseInt(string(body[dueAt:dueAt+13]), 10, 64)
	return n, time.UnixMilli(ms), err
}
