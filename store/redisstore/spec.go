package redisstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store/encoding"
)

// A spec is stored as "<flags><url>[<at>][<rest>]<body>": at is When.At as a varint, the
// others but the flags have their length first. The fields that most jobs have are in flags
// or in the head of the record; rest is a job.Spec with the others, in MessagePack.
const (
	formMask  = 0x07 // the job.BodyForm
	usualType = 0x08 // the content type is the form's default
	headDelay = 0x10 // When.Delay is up to the due time in the head
	headTTL   = 0x20 // TTL ends with the time in the head
	hasRest   = 0x40
	hasAt     = 0x80 // When.At follows
)

// encodeBody is the part of a record that scripts do not read: uid and spec. due and
// expires are the times of the head, below zero if they are not known yet.
func encodeBody(uid string, s *job.Spec, due, expires int64) ([]byte, error) {
	id, err := ulid.ParseStrict(uid)
	if err != nil {
		return nil, fmt.Errorf("%w %q: %w", errUID, uid, err)
	}
	rest, flags := *s, byte(s.BodyForm)&formMask
	rest.Destination, rest.Body, rest.BodyForm = "", nil, s.BodyForm&^formMask
	if s.ContentType == s.BodyForm.ContentType() {
		flags |= usualType
		rest.ContentType = ""
	}
	if s.When.At == 0 && due >= 0 && s.When.Delay == time.Duration(due)*time.Millisecond {
		flags |= headDelay
		rest.When.Delay = 0
	}
	if s.When.At > 0 && s.When.Delay == 0 {
		flags |= hasAt
		rest.When.At = 0
	}
	if s.TTL != 0 && expires >= 0 && s.TTL == time.Duration(expires)*time.Millisecond {
		flags |= headTTL
		rest.TTL = 0
	}
	if s.Timeout%time.Millisecond == 0 {
		rest.Timeout = 0 // it is in the head
	}
	rest.OrderKey = "" // so is this
	var others []byte
	if !reflect.ValueOf(&rest).Elem().IsZero() {
		flags |= hasRest
		others = encoding.AppendSpec(nil, &rest)
	}
	b := make([]byte, 0, uidLen+1+3*binary.MaxVarintLen32+binary.MaxVarintLen64+len(s.Destination)+len(others)+len(s.Body))
	b = append(b, id[:]...)
	b = append(b, flags)
	b = append(binary.AppendUvarint(b, uint64(len(s.Destination))), s.Destination...)
	if flags&hasAt != 0 {
		b = binary.AppendUvarint(b, uint64(s.When.At))
	}
	if flags&hasRest != 0 {
		b = append(binary.AppendUvarint(b, uint64(len(others))), others...)
	}
	return append(binary.AppendUvarint(b, uint64(len(s.Body))), s.Body...), nil
}

var (
	errUID  = errors.New("redisstore: unusable uid")
	errSpec = errors.New("unreadable spec")
)

// decodeSpec is the reverse; h is the head of the registration.
func decodeSpec(text string, h *registeredHead, s *job.Spec) error {
	if text == "" {
		return errSpec
	}
	flags := text[0]
	url, text, ok := cutSized(text[1:])
	if !ok {
		return errSpec
	}
	var at uint64
	if flags&hasAt != 0 {
		if at, text, ok = cutUvarint(text); !ok {
			return errSpec
		}
	}
	if flags&hasRest != 0 {
		var rest string
		if rest, text, ok = cutSized(text); !ok {
			return errSpec
		}
		if err := encoding.DecodeSpec([]byte(rest), s); err != nil {
			return err
		}
	}
	body, text, ok := cutSized(text)
	if !ok || text != "" {
		return errSpec
	}
	s.Destination = job.Destination(url)
	s.BodyForm |= job.BodyForm(flags & formMask)
	if body != "" {
		s.Body = []byte(body)
	}
	if flags&usualType != 0 {
		s.ContentType = s.BodyForm.ContentType()
	}
	if flags&hasAt != 0 {
		s.When.At = job.Instant(at)
	}
	if flags&headDelay != 0 {
		s.When.Delay = time.Duration(h.due) * time.Millisecond
	}
	if flags&headTTL != 0 {
		s.TTL = time.Duration(h.expires) * time.Millisecond
	}
	if s.Timeout == 0 {
		s.Timeout = time.Duration(h.timeout) * time.Millisecond
	}
	s.OrderKey = h.order
	return nil
}

// cutSized cuts a part off that its length precedes.
func cutSized(text string) (part, rest string, ok bool) {
	n, text, ok := cutUvarint(text)
	if !ok || n > uint64(len(text)) {
		return "", "", false
	}
	return text[:n], text[n:], true
}

// cutUvarint cuts a number off.
func cutUvarint(text string) (n uint64, rest string, ok bool) {
	shift := 0
	for i := range min(len(text), binary.MaxVarintLen64) {
		n |= uint64(text[i]&0x7f) << shift
		if shift += 7; text[i] < 0x80 {
			return n, text[i+1:], true
		}
	}
	return 0, "", false
}
