package redisstore

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/duehook/duehook/job"
)

// The fields of a head, in their order. That of a progress has all of them, that
// of a registration those before fieldState, or the first two.
const (
	fieldCreated = iota
	fieldDue
	fieldExpires
	fieldTimeout
	fieldState
	fieldCancel
	fieldAttempts
	fieldSnoozes
	fieldLapses
	fieldToken
	fieldVersion
	fieldNext
	fieldEnded
	fieldLogs
	fieldNonce
	fieldReason
	fieldMark
	headFields
)

// absent is what a field means that is empty, where that is not 0. An empty
// fieldNext is as fieldDue.
var absent = [fieldNonce]int64{fieldExpires: none, fieldVersion: 1, fieldEnded: none}

// none is no time; in writing a sign, where empty means something else.
const (
	none     = math.MinInt64
	noneSign = "-"
)

// head is a head taken apart.
type head struct {
	n                   [fieldNonce]int64
	nonce, reason, mark string
}

// append appends the first so many fields in writing.
func (h *head) append(b []byte, fields int) []byte {
	for i := range fields {
		if i > 0 {
			b = append(b, ' ')
		}
		switch i {
		case fieldNonce:
			b = append(b, h.nonce...)
		case fieldReason:
			b = append(b, h.reason...)
		case fieldMark:
			b = append(b, h.mark...)
		default:
			b = h.appendNumber(b, i)
		}
	}
	return b
}

func (h *head) appendNumber(b []byte, field int) []byte {
	n, empty := h.n[field], absent[field]
	if field == fieldNext {
		empty = h.n[fieldDue]
	}
	switch {
	case n == empty && field > fieldDue:
		return b
	case n == none:
		return append(b, noneSign...)
	}
	return strconv.AppendInt(b, n, 10)
}

func decodeHead(text string) (h head, fields int, err error) {
	h.n = absent
	for more := true; more; fields++ {
		var field string
		field, text, more = strings.Cut(text, " ")
		switch {
		case fields == fieldNonce:
			h.nonce = field
		case fields == fieldReason:
			h.reason = field
		case fields == fieldMark:
			h.mark = field
		case fields >= headFields:
			return h, fields, errors.New("too many fields in its head")
		case field == "" && fields == fieldNext:
			h.n[fieldNext] = h.n[fieldDue]
		case field == noneSign && fields == fieldNext:
			h.n[fieldNext] = none
		case field != "" || fields <= fieldDue:
			v, err := strconv.ParseInt(field, 10, 64)
			if err != nil {
				return h, fields, err
			}
			h.n[fields] = v
		}
	}
	return h, fields, nil
}

// decodeRegistered reads the head of a registration.
func decodeRegistered(text string) (head, error) {
	h, fields, err := decodeHead(text)
	if err == nil && fields != fieldDue+1 && fields != fieldState {
		err = fmt.Errorf("%d fields in its head", fields)
	}
	h.n[fieldNext] = h.n[fieldDue]
	return h, err
}

// decodeProgressed reads the head of a progress.
func decodeProgressed(text string) (head, error) {
	h, fields, err := decodeHead(text)
	if err == nil && fields != headFields {
		err = fmt.Errorf("%d fields in the head of its progress", fields)
	}
	return h, err
}

// instant is the time in a field.
func (h *head) instant(field int) job.Instant {
	if h.n[field] == none {
		return 0
	}
	return job.Instant(h.n[fieldCreated] + h.n[field])
}
