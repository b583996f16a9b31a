package schedule

import (
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

// maxExpression bounds an expression, in bytes.
const maxExpression = 512

// expression is a parsed cron expression: the local times that match.
type expression struct {
	seconds, minutes, hours []int
	month, day, weekday     uint64 // bits
	lastDay                 bool   // L
	lastWeekday             uint64 // bits of FRIL
	nth                     [7]uint64
	either                  bool // both day fields are restricted
	everyHour, open         bool // for the defaults of daylight saving time
}

// field describes one field.
type field struct {
	name     string
	min, max int
	names    []string // of the values from nameMin on
	nameMin  int
	any      bool // takes ?
}

var fields = [...]field{
	{name: "second", max: 59},
	{name: "minute", max: 59},
	{name: "hour", max: 23},
	{name: "day of month", min: 1, max: 31, any: true},
	{name: "month", min: 1, max: 12, nameMin: 1, names: []string{"JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"}},
	{name: "day of week", max: 6, any: true, names: []string{"SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"}},
}

const (
	second = iota
	minute
	hour
	dayOfMonth
	month
	dayOfWeek
)

var descriptors = map[string]string{
	"@hourly": "0 * * * *", "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@weekly": "0 0 * * 0",
	"@monthly": "0 0 1 * *", "@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *",
}

// parser turns checked fields into bits. It accepts more than we do, so it never
// sees text that was not checked.
var parser = cron.NewParser(cron.Second | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow)

// parseExpression reads a cron expression. Its errors say what to write instead.
func parseExpression(text string) (*expression, error) {
	if len(text) > maxExpression {
		return nil, fmt.Errorf("is longer than %d characters", maxExpression)
	}
	if strings.HasPrefix(text, "@") {
		standard, ok := descriptors[text]
		if !ok {
			return nil, fmt.Errorf("%q is not offered: write @hourly, @daily, @weekly, @monthly, @yearly or fields", text)
		}
		text = standard
	}
	if strings.HasPrefix(text, "TZ=") || strings.HasPrefix(text, "CRON_TZ=") {
		return nil, fmt.Errorf("must not name a time zone: write it in timezone")
	}
	parts := strings.FieldsFunc(text, func(r rune) bool { return r == ' ' || r == '\t' })
	switch len(parts) {
	case len(fields) - 1:
		parts = slices.Insert(parts, 0, "0")
	case len(fields):
	default:
		return nil, fmt.Errorf("has %d fields: write minute, hour, day of month, month and day of week, or a second before them", len(parts))
	}
	e := &expression{}
	plain := make([]string, len(fields))
	for i, part := range parts {
		var err error
		if plain[i], err = e.field(i, part); err != nil {
			return nil, fmt.Errorf("%s field %q: %w", fields[i].name, part, err)
		}
	}
	parsed, err := parser.Parse(strings.Join(plain, " "))
	if err != nil {
		return nil, fmt.Errorf("cannot be read: %w", err)
	}
	e.take(parsed.(*cron.SpecSchedule), parts)
	if !e.possible() {
		return nil, fmt.Errorf("matches no date of the calendar: change the day or the month")
	}
	return e, nil
}

// take copies the bits of the parser and classifies the expression.
func (e *expression) take(s *cron.SpecSchedule, parts []string) {
	e.seconds, e.minutes, e.hours = values(s.Second), values(s.Minute), values(s.Hour)
	e.month = s.Month
	if hasPlain(parts[dayOfMonth]) {
		e.day = s.Dom
	}
	if hasPlain(parts[dayOfWeek]) {
		e.weekday = s.Dow
	}
	e.either = restricted(parts[dayOfMonth]) && restricted(parts[dayOfWeek])
	e.everyHour = len(e.hours) == fields[hour].max+1
	e.open = isOpen(parts[second]) || isOpen(parts[minute])
}

// values lists the bits that are set, without the parser's star bit.
func values(set uint64) []int {
	var list []int
	for set &= 1<<60 - 1; set != 0; set &= set - 1 {
		list = append(list, bits.TrailingZeros64(set))
	}
	return list
}

// restricted reports whether a day field takes part in the rule that either of
// two restricted day fields suffices, as Vixie cron has it.
func restricted(part string) bool { return !strings.ContainsAny(part, "*?") }

// isOpen reports whether a field follows the clock instead of naming times.
func isOpen(part string) bool {
	return slices.ContainsFunc(strings.Split(part, ","), func(item string) bool {
		from, _, stepped := strings.Cut(item, "/")
		return strings.Contains(item, "*") || stepped && !strings.Contains(from, "-")
	})
}

// hasPlain reports whether a day field has an item that the parser read.
func hasPlain(part string) bool {
	return slices.ContainsFunc(strings.Split(part, ","), func(item string) bool { return !special(item) })
}

// special reports whether an item of a day field is L, FRIL or FRI#2.
func special(item string) bool {
	return strings.Contains(item, "#") || strings.HasSuffix(strings.ToUpper(item), "L") && !strings.EqualFold(item, "JUL")
}

// field checks one field and returns it as the parser reads it.
func (e *expression) field(i int, part string) (string, error) {
	f := &fields[i]
	if part == "?" {
		if !f.any {
			return "", fmt.Errorf("? stands in a day field only: write *")
		}
		return "*", nil
	}
	var plain []string
	for item := range strings.SplitSeq(part, ",") {
		if f.any && special(item) {
			if err := e.special(i, item); err != nil {
				return "", err
			}
			continue
		}
		list, err := f.item(item)
		if err != nil {
			return "", err
		}
		plain = append(plain, list)
	}
	if len(plain) == 0 {
		return "*", nil // only special items: the parser's bits are not used
	}
	return strings.Join(plain, ","), nil
}

// special reads L, FRIL and FRI#2.
func (e *expression) special(i int, item string) error {
	if i == dayOfMonth {
		if item != "L" && item != "l" {
			return fmt.Errorf("%q is not offered: write a day, or L for the last day of the month", item)
		}
		e.lastDay = true
		return nil
	}
	f := &fields[dayOfWeek]
	name, number, nth := strings.Cut(item, "#")
	if !nth {
		name = item[:len(item)-1]
	}
	day, err := f.value(name)
	if err != nil {
		return err
	}
	if !nth {
		e.lastWeekday |= 1 << (day % 7)
		return nil
	}
	if len(number) != 1 || number < "1" || number > "5" {
		return fmt.Errorf("%q: write # and a number from 1 to 5", item)
	}
	e.nth[day%7] |= 1 << (number[0] - '0')
	return nil
}

// item checks a value, a range or a step and returns it as the parser reads it.
func (f *field) item(item string) (string, error) {
	span, stepText, stepped := strings.Cut(item, "/")
	low, high, err := f.span(span, stepped)
	if err != nil {
		return "", err
	}
	step := 1
	if stepped {
		if step, err = number(stepText); err != nil {
			return "", fmt.Errorf("step %q: %w", stepText, err)
		}
		if step == 0 || step > 1 && step > high-low {
			return "", fmt.Errorf("step %d does not fit into %d to %d: list the values, or use every", step, low, high)
		}
	}
	if f == &fields[dayOfWeek] && high > f.max { // Sunday as 7
		var days []string
		for day := low; day <= high; day += step {
			days = append(days, strconv.Itoa(day%7))
		}
		return strings.Join(days, ","), nil
	}
	return fmt.Sprintf("%d-%d/%d", low, high, step), nil
}

// span reads *, a, a-b, or with a step a to the end.
func (f *field) span(span string, stepped bool) (low, high int, err error) {
	if span == "*" {
		return f.min, f.max, nil
	}
	from, to, isRange := strings.Cut(span, "-")
	if low, err = f.value(from); err != nil {
		return 0, 0, err
	}
	switch {
	case !isRange && stepped:
		return low, max(low, f.max), nil
	case !isRange:
		return low, low, nil
	}
	if high, err = f.value(to); err != nil {
		return 0, 0, err
	}
	if f == &fields[dayOfWeek] && high == 0 && low > 0 { // a week ends in Sunday, too
		high = 7
	}
	if low > high {
		return 0, 0, fmt.Errorf("%q runs backwards: write two ranges", span)
	}
	return low, high, nil
}

// value reads a number or a name.
func (f *field) value(text string) (int, error) {
	if i := slices.IndexFunc(f.names, func(name string) bool { return strings.EqualFold(name, text) }); i >= 0 {
		return i + f.nameMin, nil
	}
	highest := f.max
	if f == &fields[dayOfWeek] {
		highest = 7
	}
	v, err := number(text)
	if err != nil || v < f.min || v > highest {
		kind := "a number"
		if f.names != nil {
			kind = "a number or a name of three letters"
		}
		return 0, fmt.Errorf("%q is not %s from %d to %d", text, kind, f.min, highest)
	}
	return v, nil
}

// number reads one or two ASCII digits.
func number(text string) (int, error) {
	if len(text) == 0 || len(text) > 2 || strings.Trim(text, "0123456789") != "" {
		return 0, fmt.Errorf("write one or two digits")
	}
	return strconv.Atoi(text)
}

// date is a day of the calendar.
type date struct {
	year, day int
	month     time.Month
	weekday   int
	last      int // day of the month
}

func dateOf(days int64) date {
	t := time.Unix(days*daySeconds, 0).UTC()
	year, m, day := t.Date()
	last := time.Date(year, m+1, 0, 0, 0, 0, 0, time.UTC).Day()
	return date{year: year, month: m, day: day, weekday: int(t.Weekday()), last: last}
}

// matches reports whether a date matches.
func (e *expression) matches(d date) bool {
	if e.month&(1<<d.month) == 0 {
		return false
	}
	byDay := e.day&(1<<d.day) != 0 || e.lastDay && d.day == d.last
	byWeekday := e.weekday&(1<<d.weekday) != 0 ||
		e.lastWeekday&(1<<d.weekday) != 0 && d.day > d.last-7 ||
		e.nth[d.weekday]&(1<<((d.day+6)/7)) != 0
	if e.either {
		return byDay || byWeekday
	}
	return byDay && byWeekday
}

// possible reports whether any date matches. The calendar repeats after 400 years,
// weekdays included.
func (e *expression) possible() bool {
	for days := range int64(400*365 + 97) {
		if e.matches(dateOf(days)) {
			return true
		}
	}
	return false
}
