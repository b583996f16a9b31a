package receiver

import (
	"bytes"
	"fmt"
	"strconv"
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

// Body is the body of job n, of so many bytes.
func Body(n int, due time.Time, size int) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, prefix, n, due.UnixMilli())
	for b.Len() < size-2 {
		b.WriteByte('a' + byte((n+b.Len())%26))
	}
	b.WriteString(`"}`)
	return b.Bytes()
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
