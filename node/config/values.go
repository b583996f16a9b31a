package config

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/duehook/duehook/internal/services/access"
	"github.com/duehook/duehook/job"
)

// The types below give each kind of setting its text form, as pflag.Value.

type stringValue string

func (v *stringValue) Set(s string) error { *v = stringValue(s); return nil }
func (v *stringValue) String() string     { return string(*v) }
func (v *stringValue) Type() string       { return "string" }

// hiddenValue is text that is never shown.
type hiddenValue string

func (v *hiddenValue) Set(s string) error { *v = hiddenValue(strings.TrimSpace(s)); return nil }
func (v *hiddenValue) String() string {
	if *v == "" {
		return ""
	}
	return "***"
}
func (v *hiddenValue) Type() string { return "string" }

type intValue int

func (v *intValue) Set(s string) error {
	n, err := strconv.Atoi(s)
	if err != nil {
		return errors.New("write a whole number")
	}
	*v = intValue(n)
	return nil
}
func (v *intValue) String() string { return strconv.Itoa(int(*v)) }
func (v *intValue) Type() string   { return "int" }

type floatValue float64

func (v *floatValue) Set(s string) error {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
		return errors.New("write a number such as 0.1")
	}
	*v = floatValue(f)
	return nil
}
func (v *floatValue) String() string { return strconv.FormatFloat(float64(*v), 'g', -1, 64) }
func (v *floatValue) Type() string   { return "float" }

type boolValue bool

func (v *boolValue) Set(s string) error {
	switch s {
	case "true", "false":
		*v = s == "true"
		return nil
	}
	return errors.New("write true or false")
}
func (v *boolValue) String() string { return strconv.FormatBool(bool(*v)) }
func (v *boolValue) Type() string   { return "bool" }

type bytesValue int

func (v *bytesValue) Set(s string) error {
	n, err := humanize.ParseBytes(s)
	if err != nil || n > math.MaxInt32 {
		return errors.New("write a size such as 262144, 256KiB or 1MiB")
	}
	*v = bytesValue(n)
	return nil
}

// String gives a whole number of KiB or MiB as such, so that it is exact.
func (v *bytesValue) String() string {
	n := int(*v)
	switch {
	case n > 0 && n%(1<<20) == 0:
		return strconv.Itoa(n>>20) + "MiB"
	case n > 0 && n%(1<<10) == 0:
		return strconv.Itoa(n>>10) + "KiB"
	}
	return strconv.Itoa(n)
}
func (v *bytesValue) Type() string { return "bytes" }

type durationValue time.Duration

func (v *durationValue) Set(s string) error {
	d, err := parseDuration(s)
	if err != nil {
		return err
	}
	*v = durationValue(d)
	return nil
}
func (v *durationValue) String() string { return job.FormatDuration(time.Duration(*v)) }
func (v *durationValue) Type() string   { return "duration" }

type ladderValue []time.Duration

func (v *ladderValue) Set(s string) error {
	steps, err := job.ParseLadder(s)
	if err != nil {
		return err
	}
	*v = steps
	return nil
}

// String separates the steps as every list here is separated.
func (v *ladderValue) String() string { return strings.ReplaceAll(job.FormatLadder(*v), " ", ",") }
func (v *ladderValue) Type() string   { return "ladder" }

// limitsValue is a limit for each of some topics, "topic=n,…".
type limitsValue map[string]int

func (v *limitsValue) Set(s string) error {
	limits := limitsValue{}
	for _, item := range splitList(s) {
		topic, text, ok := strings.Cut(item, "=")
		if !ok {
			return fmt.Errorf("%q is not topic=n", item)
		}
		if err := job.CheckName(topic); err != nil {
			return fmt.Errorf("%q: %w", item, err)
		}
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > maxConcurrency {
			return fmt.Errorf("%q: the limit must be a number between 1 and %d", item, maxConcurrency)
		}
		if _, twice := limits[topic]; twice {
			return fmt.Errorf("topic %q stands there twice", topic)
		}
		limits[topic] = n
	}
	*v = limits
	return nil
}

func (v *limitsValue) String() string {
	items := make([]string, 0, len(*v))
	for _, topic := range slices.Sorted(maps.Keys(*v)) {
		items = append(items, topic+"="+strconv.Itoa((*v)[topic]))
	}
	return strings.Join(items, ",")
}
func (v *limitsValue) Type() string { return "limits" }

type cidrsValue []netip.Prefix

func (v *cidrsValue) Set(s string) error {
	var all cidrsValue
	for _, part := range splitList(s) {
		p, err := netip.ParsePrefix(part)
		if err != nil {
			return fmt.Errorf("%q is no address range; write one such as 10.0.0.0/8, 192.0.2.7/32 or fd00::/8", part)
		}
		if p != p.Masked() {
			return fmt.Errorf("%q has bits set beyond its length; write %s", part, p.Masked())
		}
		all = append(all, p)
	}
	*v = all
	return nil
}

func (v *cidrsValue) String() string {
	parts := make([]string, len(*v))
	for i, p := range *v {
		parts[i] = p.String()
	}
	return strings.Join(parts, ",")
}
func (v *cidrsValue) Type() string { return "cidrs" }

type keysValue []access.Key

func (v *keysValue) Set(s string) error {
	keys, err := access.ParseKeys(s)
	switch {
	case err != nil:
		return err
	case len(keys) == 0: // an emptied file must not open the server to everybody
		return errors.New("there is no key in it; leave it out to ask nobody for one")
	}
	*v = keys
	return nil
}

// String names the keys and leaves out what they are checked by.
func (v *keysValue) String() string {
	names := make([]string, len(*v))
	for i, k := range *v {
		names[i] = k.ID
		if k.Name != "" {
			names[i] = k.Name + " (" + k.ID + ")"
		}
	}
	return strings.Join(names, ", ")
}
func (v *keysValue) Type() string { return "keys" }

type rateValue access.Rate

func (v *rateValue) Set(s string) error {
	r, err := access.ParseRate(s)
	if err != nil {
		return err
	}
	*v = rateValue(r)
	return nil
}
func (v *rateValue) String() string { return access.Rate(*v).String() }
func (v *rateValue) Type() string   { return "rate" }

type levelValue slog.Level

var levelNames = map[string]slog.Level{
	"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError,
}

func (v *levelValue) Set(s string) error {
	l, ok := levelNames[strings.ToLower(s)]
	if !ok {
		return errors.New("write debug, info, warn or error")
	}
	*v = levelValue(l)
	return nil
}
func (v *levelValue) String() string { return strings.ToLower(slog.Level(*v).String()) }
func (v *levelValue) Type() string   { return "level" }

type choiceValue struct {
	p       *string
	choices []string
}

func (v *choiceValue) Set(s string) error {
	if !slices.Contains(v.choices, s) {
		return fmt.Errorf("write one of %s", strings.Join(v.choices, ", "))
	}
	*v.p = s
	return nil
}
func (v *choiceValue) String() string { return *v.p }
func (v *choiceValue) Type() string   { return "choice" }

// splitList cuts a comma-separated list; an empty text is an empty list.
func splitList(s string) []string {
	if strings.TrimSpace(s) == "" {
		return nil
	}
	parts := strings.Split(s, ",")
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	return parts
}

// parseDuration takes what the API takes for a delay: the forms of
// job.ParseDuration, and a number of whole seconds.
func parseDuration(s string) (time.Duration, error) {
	if seconds, err := strconv.ParseInt(s, 10, 32); err == nil && seconds >= 0 {
		return time.Duration(seconds) * time.Second, nil
	}
	d, err := job.ParseDuration(s)
	if err != nil {
		return 0, fmt.Errorf("the value %w", err)
	}
	return d, nil
}
