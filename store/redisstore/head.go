package redisstore

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/duehook/duehook/internal/job"
)

// registeredHead is the head of a registration. Times are milliseconds, due and
// expires after created.
type registeredHead struct {
	created, due int64
	expires      int64  // or never
	timeout      int64  // 0: none of its own
	order        string // its order key
}

const never = math.MinInt64

func (h *registeredHead) append(b []byte) []byte {
	b = strconv.AppendInt(b, h.created, 10)
	b = strconv.AppendInt(append(b, ' '), h.due, 10)
	if h.expires == never && h.timeout == 0 && h.order == "" {
		return b
	}
	b = append(b, ' ')
	if h.expires != never {
		b = strconv.AppendInt(b, h.expires, 10)
	}
	b = append(b, ' ')
	if h.timeout != 0 {
		b = strconv.AppendInt(b, h.timeout, 10)
	}
	if h.order != "" {
		b = append(append(b, ' '), h.order...)
	}
	return b
}

func decodeRegisteredHead(text string) (h registeredHead, err error) {
	fields := strings.Split(text, " ")
	switch len(fields) {
	case 2, 4:
	case 5:
		fields, h.order = fields[:4], fields[4]
	default:
		return h, fmt.Errorf("%d fields in its head", len(fields))
	}
	h.expires = never
	for i, n := range []*int64{&h.created, &h.due, &h.expires, &h.timeout}[:len(fields)] {
		if i >= 2 && fields[i] == "" {
			continue
		}
		if *n, err = strconv.ParseInt(fields[i], 10, 64); err != nil {
			return h, err
		}
	}
	return h, nil
}

// The fields of the head of a progress, in their order; render in
// lua/lib/record.lua. All but the last three are numbers.
const (
	fieldState = iota
	fieldToken
	fieldVersion
	fieldCancel
	fieldAttempts
	fieldSnoozes
	fieldExpiredLeases
	fieldNext
	fieldEnded
	fieldExpires // for scripts
	fieldLogs
	fieldCount   // twice the count, and 1 if the job has fired
	fieldUpdated // 0: when it was registered
	fieldNonce
	fieldReason
	fieldMark
	progressFields
)

// progressHead is the head of a progress. A field with its usual value is encoded as empty:
// 1 for the version, 0 for the others.
type progressHead struct {
	n                   [fieldNonce]int64
	nonce, reason, mark string
	err                 error // it cannot be read
}

// fresh is the head of a job to which nothing has happened.
var fresh = progressHead{n: [fieldNonce]int64{fieldVersion: 1}}

func (h *progressHead) append(b []byte) []byte {
	for field, n := range h.n {
		if n != fresh.n[field] || field == fieldState {
			b = strconv.AppendInt(b, n, 10)
		}
		b = append(b, ' ')
	}
	b = append(append(b, h.nonce...), ' ')
	b = append(append(b, h.reason...), ' ')
	return append(b, h.mark...)
}

func decodeProgressHead(text string) progressHead {
	h := fresh
	fields := 0
	for more := true; more; fields++ {
		var field string
		field, text, more = strings.Cut(text, " ")
		switch fields {
		case fieldNonce:
			h.nonce = field
		case fieldReason:
			h.reason = field
		case fieldMark:
			h.mark = field
		case progressFields:
			h.err = errors.New("too many fields in the head of its progress")
			return h
		default:
			if field == "" {
				continue
			}
			if h.n[fields], h.err = strconv.ParseInt(field, 10, 64); h.err != nil {
				return h
			}
		}
	}
	if fields != progressFields {
		h.err = fmt.Errorf("%d fields in the head of its progress", fields)
	}
	return h
}

// instant is the time in a field.
func (h *progressHead) instant(field int) job.Instant { return job.Instant(h.n[field]) }
