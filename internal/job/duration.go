package job

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Errors of durations; they are shown to clients.
var (
	errDuration  = errors.New(`is not a duration such as "90s", "1d12h" or "PT30M"`)
	errNegative  = errors.New("must not be negative")
	errFraction  = errors.New(`must be a whole number of seconds; write parts of a second as a string, such as "1500ms"`)
	errPrecision = errors.New("must not be finer than a millisecond")
	errTooLong   = errors.New("is longer than any duration that duehook supports")
	errCalendar  = errors.New("must not count years or months, whose lengths differ; use days")
)

type unit struct {
	name  string
	size  time.Duration
	words []string // other names
}

// Each list runs from the largest unit to the smallest, the order in which
// they must be written.
var (
	compactUnits = []unit{
		{"w", 7 * day, []string{"week", "weeks"}},
		{"d", day, []string{"day", "days"}},
		{"h", time.Hour, []string{"hr", "hrs", "hour", "hours"}},
		{"m", time.Minute, []string{"min", "mins", "minute", "minutes"}},
		{"s", time.Second, []string{"sec", "secs", "second", "seconds"}},
		{"ms", time.Millisecond, []string{"millisecond", "milliseconds"}},
	}
	isoDateUnits = []unit{{name: "W", size: 7 * day}, {name: "D", size: day}}
	isoTimeUnits = []unit{{name: "H", size: time.Hour}, {name: "M", size: time.Minute}, {name: "S", size: time.Second}}
)

// Seconds is the duration of a number of whole seconds that is not negative.
func Seconds(n float64) (time.Duration, error) {
	switch {
	case n < 0:
		return 0, errNegative
	case n > float64(math.MaxInt64/int64(time.Second)):
		return 0, errTooLong
	case n != math.Trunc(n):
		return 0, errFraction
	}
	return time.Duration(n) * time.Second, nil
}

// ParseDuration reads a duration of whole milliseconds in one of two forms:
// compact, with the units w, d, h, m, s and ms or their names ("1d12h", "1500ms",
// "1h 30m", "30 minutes"), or ISO 8601 without years and months ("P1DT12H"). Units
// go from the largest to the smallest, each at most once, and may have decimals
// ("0.5h", "PT1.5S"). Of bare numbers only "0" is valid.
func ParseDuration(s string) (time.Duration, error) {
	switch {
	case s == "":
		return 0, errDuration
	case s == "0":
		return 0, nil
	case s[0] == '-':
		return 0, errNegative
	case s[0] == 'P':
		return parseISO(s[1:])
	}
	return parseUnits(s, compactUnits, " ")
}

func parseISO(s string) (time.Duration, error) {
	date, clock, hasClock := strings.Cut(s, "T")
	if s == "" || hasClock && clock == "" {
		return 0, errDuration
	}
	if strings.ContainsAny(date, "YM") {
		return 0, errCalendar
	}
	if strings.Contains(s, "-") {
		return 0, errNegative
	}
	days, err := parseUnits(date, isoDateUnits, "")
	if err != nil {
		return 0, err
	}
	rest, err := parseUnits(clock, isoTimeUnits, "")
	if err != nil {
		return 0, err
	}
	return addDurations(days, rest)
}

// parseUnits adds up pairs of a number and a unit, between which may be any of
// space; an empty s is zero.
func parseUnits(s string, units []unit, space string) (time.Duration, error) {
	var total time.Duration
	for s != "" {
		number, rest := span(s, "0123456789.")
		name, rest := span(strings.TrimLeft(rest, space), "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
		i := indexUnit(units, name)
		if i < 0 {
			return 0, errDuration
		}
		d, err := parseAmount(number, units[i].size)
		if err != nil {
			return 0, err
		}
		if total, err = addDurations(total, d); err != nil {
			return 0, err
		}
		if units, s = units[i+1:], strings.TrimLeft(rest, space); s == "" && rest != "" {
			return 0, errDuration
		}
	}
	return total, nil
}

// span cuts s after the leading bytes that are in set.
func span(s, set string) (head, rest string) {
	n := len(s) - len(strings.TrimLeft(s, set))
	return s[:n], s[n:]
}

func indexUnit(units []unit, name string) int {
	for i, u := range units {
		if u.name == name || slices.Contains(u.words, name) {
			return i
		}
	}
	return -1
}

// maxDecimals is the most decimals of a duration of whole milliseconds: a week has
// 2^10 milliseconds times an odd number.
const maxDecimals = 10

func parseAmount(number string, size time.Duration) (time.Duration, error) {
	whole, decimals, hasDecimals := strings.Cut(number, ".")
	if hasDecimals && (whole == "" || decimals == "" || strings.Contains(decimals, ".")) {
		return 0, errDuration
	}
	n, err := strconv.ParseInt(whole, 10, 64)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return 0, errTooLong
	case err != nil:
		return 0, errDuration
	case n > int64(math.MaxInt64/size):
		return 0, errTooLong
	}
	part, err := parseDecimals(strings.TrimRight(decimals, "0"), size)
	if err != nil {
		return 0, err
	}
	return addDurations(time.Duration(n)*size, part)
}

// parseDecimals is the fraction of a size that decimals express. It counts in
// milliseconds, so that nothing overflows.
func parseDecimals(decimals string, size time.Duration) (time.Duration, error) {
	if len(decimals) > maxDecimals {
		return 0, errPrecision
	}
	n, scale := size.Milliseconds(), int64(1)
	var part int64
	for _, digit := range []byte(decimals) {
		part, scale = 10*part+int64(digit-'0'), 10*scale
	}
	if part*n%scale != 0 {
		return 0, errPrecision
	}
	return time.Duration(part*n/scale) * time.Millisecond, nil
}

// addDurations adds two durations that are not negative.
func addDurations(a, b time.Duration) (time.Duration, error) {
	if a > math.MaxInt64-b {
		return 0, errTooLong
	}
	return a + b, nil
}

// FormatDuration writes d, truncated to whole milliseconds, in the compact form with
// units from days down, such as "1d12h", "15s" or "1s500ms". ParseDuration
// reads it back.
func FormatDuration(d time.Duration) string {
	d = d.Truncate(time.Millisecond)
	if d == 0 {
		return "0s"
	}
	var b strings.Builder
	if d < 0 {
		b.WriteByte('-')
	}
	for _, u := range compactUnits[1:] {
		// Negate the quotient: the smallest Duration has no negative.
		if n := int64(d / u.size); n != 0 {
			b.WriteString(strconv.FormatInt(max(n, -n), 10))
			b.WriteString(u.name)
			d %= u.size
		}
	}
	return b.String()
}

// ParseLadder reads the delays of a retry ladder, separated by spaces or
// commas, and checks them as the API does.
func ParseLadder(s string) ([]time.Duration, error) {
	words := strings.FieldsFunc(s, func(r rune) bool { return r == ' ' || r == ',' })
	steps := make([]time.Duration, len(words))
	for i, w := range words {
		d, err := ParseDuration(w)
		if err == nil {
			err = checkStep(time.Millisecond, d)
		}
		if err != nil {
			return nil, fmt.Errorf("step %d, %.40q, %w", i+1, w, err)
		}
		steps[i] = d
	}
	if err := checkStepCount(len(steps)); err != nil {
		return nil, err
	}
	return steps, nil
}

// FormatLadder writes a ladder as ParseLadder reads it.
func FormatLadder(steps []time.Duration) string {
	words := make([]string, len(steps))
	for i, d := range steps {
		words[i] = FormatDuration(d)
	}
	return strings.Join(words, " ")
}
