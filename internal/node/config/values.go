package config

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"net/netip"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/services/access"
)

// size is a number of bytes.
type size int

var levelNames = map[string]slog.Level{
	"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError,
}

// parse sets the value that into points to. Each type of a setting has one text form.
func parse(into any, text string) (err error) {
	switch v := into.(type) {
	case *string:
		*v = text
	case *int:
		if *v, err = strconv.Atoi(text); err != nil {
			return errors.New("write a whole number")
		}
	case *float64:
		if *v, err = strconv.ParseFloat(text, 64); err != nil || math.IsNaN(*v) || math.IsInf(*v, 0) {
			return errors.New("write a number such as 0.1")
		}
	case *bool:
		if *v = text == "true"; !*v && text != "false" {
			return errors.New("write true or false")
		}
	case *size:
		n, err := humanize.ParseBytes(text)
		if err != nil || n > math.MaxInt32 {
			return errors.New("write a size such as 262144, 256KiB or 1MiB")
		}
		*v = size(n)
	case *slog.Level:
		level, known := levelNames[strings.ToLower(text)]
		if *v = level; !known {
			return errors.New("write debug, info, warn or error")
		}
	case *time.Duration:
		*v, err = parseDuration(text)
	case *[]time.Duration:
		*v, err = job.ParseLadder(text)
	case *[]string:
		*v = strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' })
	case *map[string]int:
		*v, err = parseLimits(text)
	case *[]Named:
		*v, err = parseNamed(text)
	case *[]netip.Prefix:
		*v, err = parseRanges(text)
	case *access.Rate:
		*v, err = access.ParseRate(text)
	case *[]access.Key:
		*v, err = access.ParseKeys(text)
		if err == nil && len(*v) == 0 { // an emptied file must not open the server to everybody
			err = errors.New("contains no key; leave it out to require none")
		}
	default:
		panic(fmt.Sprintf("config: no text form for %T", into))
	}
	return err
}

// format returns the text form of the value that of points to.
func format(of any) string {
	switch v := of.(type) {
	case *size: // exact
		switch n := int(*v); {
		case n > 0 && n%(1<<20) == 0:
			return strconv.Itoa(n>>20) + "MiB"
		case n > 0 && n%(1<<10) == 0:
			return strconv.Itoa(n>>10) + "KiB"
		}
	case *slog.Level:
		return strings.ToLower(v.String())
	case *time.Duration:
		return job.FormatDuration(*v)
	case *[]time.Duration:
		return strings.ReplaceAll(job.FormatLadder(*v), " ", ",")
	case *map[string]int:
		return list(slices.Sorted(maps.Keys(*v)), func(topic string) string { return topic + "=" + strconv.Itoa((*v)[topic]) })
	case *[]Named:
		return list(*v, func(n Named) string { return n.Name + "=" + Redact(n.Value) })
	case *[]netip.Prefix:
		return list(*v, netip.Prefix.String)
	case *[]string:
		return strings.Join(*v, ",")
	case *[]access.Key: // without their digests
		return list(*v, func(k access.Key) string {
			if k.Name != "" {
				return k.Name + " (" + k.ID + ")"
			}
			return k.ID
		})
	}
	return fmt.Sprint(reflect.ValueOf(of).Elem())
}

func list[T any](items []T, text func(T) string) string {
	texts := make([]string, len(items))
	for i, item := range items {
		texts[i] = text(item)
	}
	return strings.Join(texts, ",")
}

// parseLimits reads limits of topics, "topic=n,…".
func parseLimits(text string) (map[string]int, error) {
	limits := map[string]int{}
	for _, item := range splitList(text) {
		topic, number, ok := strings.Cut(item, "=")
		if !ok {
			return nil, fmt.Errorf("%q is not topic=n", item)
		}
		if err := job.CheckName(topic); err != nil {
			return nil, fmt.Errorf("%q: %w", item, err)
		}
		n, err := strconv.Atoi(number)
		if err != nil || n < 1 || n > maxConcurrency {
			return nil, fmt.Errorf("%q: the limit must be a number between 1 and %d", item, maxConcurrency)
		}
		if _, twice := limits[topic]; twice {
			return nil, fmt.Errorf("topic %q is listed twice", topic)
		}
		limits[topic] = n
	}
	return limits, nil
}

// namedForm is a name with its value.
var namedForm = regexp.MustCompile(`^([a-z][a-z0-9-]{0,31})=(.+)$`)

// parseNamed reads "name=value,…". A value may have commas: what has no name continues the one before.
func parseNamed(text string) (all []Named, err error) {
	for _, item := range splitList(text) {
		switch found := namedForm.FindStringSubmatch(item); {
		case found != nil:
			all = append(all, Named{found[1], found[2]})
		case len(all) > 0:
			all[len(all)-1].Value += "," + item
		default:
			return nil, errors.New("write name=value; a name has up to 32 lowercase letters, digits and -")
		}
	}
	return all, nil
}

// parseRanges reads address ranges.
func parseRanges(text string) (ranges []netip.Prefix, err error) {
	for _, item := range splitList(text) {
		p, err := netip.ParsePrefix(item)
		if err != nil {
			return nil, fmt.Errorf("%q is not an address range; write one such as 10.0.0.0/8, 192.0.2.7/32 or fd00::/8", item)
		}
		if p != p.Masked() {
			return nil, fmt.Errorf("%q has bits set beyond its length; write %s", item, p.Masked())
		}
		ranges = append(ranges, p)
	}
	return ranges, nil
}

// splitList splits a comma-separated list; an empty text is an empty list.
func splitList(text string) []string {
	if strings.TrimSpace(text) == "" {
		return nil
	}
	items := strings.Split(text, ",")
	for i := range items {
		items[i] = strings.TrimSpace(items[i])
	}
	return items
}

// parseDuration reads the forms of job.ParseDuration, and a number of seconds.
func parseDuration(text string) (time.Duration, error) {
	if seconds, err := strconv.ParseInt(text, 10, 32); err == nil && seconds >= 0 {
		return time.Duration(seconds) * time.Second, nil
	}
	d, err := job.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("the value %w", err)
	}
	return d, nil
}
