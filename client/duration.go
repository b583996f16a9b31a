package client

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Duration is a span of time with a resolution of one millisecond. In JSON it is a string such as
// "1d12h" or "1s500ms".
type Duration time.Duration

// String is the duration as the server writes it, truncated to whole milliseconds, such as 1d12h. ParseDuration
// reads it back, unless it is negative.
func (d Duration) String() string {
	rest := time.Duration(d).Truncate(time.Millisecond)
	if rest == 0 {
		return "0s"
	}
	var text []byte
	if rest < 0 {
		text = append(text, '-')
	}
	for _, unit := range []string{"d", "h", "m", "s", "ms"} {
		// Negate the quotient: the smallest Duration has no negative.
		if n := int64(rest / units[unit]); n != 0 {
			text = append(strconv.AppendInt(text, max(n, -n), 10), unit...)
			rest %= units[unit]
		}
	}
	return string(text)
}

// MarshalJSON writes the duration as String does.
func (d Duration) MarshalJSON() ([]byte, error) { return strconv.AppendQuote(nil, d.String()), nil }

// UnmarshalJSON reads what the server writes: numbers with the units w, d, h, m, s and ms, or a
// number of seconds.
func (d *Duration) UnmarshalJSON(data []byte) error {
	var seconds float64
	if json.Unmarshal(data, &seconds) == nil {
		*d = Duration(seconds * float64(time.Second))
		return nil
	}
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return fmt.Errorf("a duration: %w", err)
	}
	parsed, err := ParseDuration(text)
	*d = parsed
	return err
}

var units = map[string]time.Duration{
	"w": 7 * 24 * time.Hour, "d": 24 * time.Hour, "h": time.Hour, "m": time.Minute, "s": time.Second, "ms": time.Millisecond,
}

// ParseDuration reads a duration such as "1d12h" or "1500ms".
func ParseDuration(text string) (Duration, error) {
	var sum time.Duration
	for rest := text; rest != ""; {
		digits := len(rest) - len(strings.TrimLeft(rest, "0123456789."))
		number, err := strconv.ParseFloat(rest[:digits], 64)
		rest = rest[digits:]
		letters := len(rest) - len(strings.TrimLeft(rest, "dhmsw"))
		unit, known := units[rest[:letters]]
		if err != nil || !known {
			return 0, fmt.Errorf("%q is not a duration: write numbers with the units w, d, h, m, s or ms, such as 1d12h", text)
		}
		sum += time.Duration(number * float64(unit))
		rest = rest[letters:]
	}
	if text == "" {
		return 0, fmt.Errorf("a duration must not be empty: write one such as 30m")
	}
	return Duration(sum), nil
}
