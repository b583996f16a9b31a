package job

import (
	"errors"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Unix times in seconds have 10 digits, those in milliseconds 13. Both reach from 2001 to 2286.
const (
	minUnix, maxUnix           = 1e9, 1e10
	minUnixMilli, maxUnixMilli = 1e12, 1e13
)

// ParseUnix reads Unix time: a number of 10 digits for seconds, or of 13 for milliseconds. Numbers
// count by value, as in JSON Schema: 1700000000, 1700000000.0 and 1.7e9 are the same.
func ParseUnix(s string) (Instant, error) {
	n, err := strconv.ParseFloat(s, 64)
	switch {
	case err != nil || strings.Trim(s, "+-.0123456789eE") != "" || n != math.Trunc(n):
	case n >= minUnix && n < maxUnix:
		return Instant(1000 * n), nil
	case n >= minUnixMilli && n < maxUnixMilli:
		return Instant(n), nil
	}
	return 0, errors.New("is not a Unix time: as a number it must have 10 digits, for seconds, or 13, for milliseconds")
}

// rfc3339 matches the exact form: time.Parse also accepts a comma, an hour of one
// digit and an offset of 24 hours.
var rfc3339 = regexp.MustCompile(`^[0-9-]{10}T[0-9]{2}:[0-9:]{5}([.][0-9]+)?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$`)

var upperCase = strings.NewReplacer("t", "T", "z", "Z")

// ParseMoment reads a time with an offset (RFC 3339), with all its digits.
func ParseMoment(s string) (time.Time, error) {
	s = upperCase.Replace(s) // the RFC allows both
	at, err := time.Parse(time.RFC3339, s)
	if err != nil || !rfc3339.MatchString(s) {
		return time.Time{}, errors.New(`must be a time with an offset such as "2026-01-31T09:30:00Z" (RFC 3339)`)
	}
	return at, nil
}

// ParseTime is ParseMoment as an instant.
func ParseTime(s string) (Instant, error) {
	at, err := ParseMoment(s)
	if err != nil {
		return 0, err
	}
	return NonZero(at), nil
}

// NonZero is the instant of a time that was given. Zero would mean "none"; of a time that early it
// only matters that it has passed.
func NonZero(at time.Time) Instant { return max(InstantOf(at), 1) }

// ParseWritten reads a time where numbers cannot be told from texts, such as in a query or a
// header: Unix time or RFC 3339.
func ParseWritten(s string) (time.Time, error) {
	if unix, err := ParseUnix(s); err == nil {
		return unix.Time(), nil
	}
	at, err := ParseMoment(s)
	if err != nil {
		return at, errors.New("must be a time with an offset such as 2026-01-31T09:30:00Z (RFC 3339), " +
			"or Unix time of 10 digits, for seconds, or 13, for milliseconds")
	}
	return at, nil
}
