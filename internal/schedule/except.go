package schedule

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"
	"time"
)

// Excepted says that nothing occurs on a local date.
const Excepted Reason = "excepted"

// Dates is a range of dates of the calendar, both ends included, in days since 1970-01-01.
type Dates struct{ First, Last int64 }

// ParseDates reads a date, or two with a slash between them.
func ParseDates(text string) (Dates, error) {
	first, last, isRange := strings.Cut(text, "/")
	if !isRange {
		last = first
	}
	from, err := time.Parse(time.DateOnly, first)
	to, wrong := time.Parse(time.DateOnly, last)
	if err != nil || wrong != nil {
		return Dates{}, errors.New("must be a date such as 2026-12-25, or two such as 2026-12-24/2027-01-02")
	}
	if to.Before(from) {
		return Dates{}, fmt.Errorf("must not end before it begins: write %s/%s", last, first)
	}
	return Dates{floorDiv(from.Unix(), daySeconds), floorDiv(to.Unix(), daySeconds)}, nil
}

// String is the form that ParseDates reads.
func (d Dates) String() string {
	if d.First == d.Last {
		return dateText(d.First)
	}
	return dateText(d.First) + "/" + dateText(d.Last)
}

func dateText(day int64) string { return time.Unix(day*daySeconds, 0).UTC().Format(time.DateOnly) }

// MarshalText and UnmarshalText use the form of ParseDates.
func (d Dates) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads the form of ParseDates.
func (d *Dates) UnmarshalText(text []byte) (err error) {
	*d, err = ParseDates(string(text))
	return err
}

// Except returns the timetable without the occurrences on dates of its zone.
func (t *Timetable) Except(all []Dates) *Timetable {
	next := *t
	next.except = nil
	all = slices.Clone(all)
	sort.SliceStable(all, func(i, j int) bool { return all[i].First < all[j].First })
	last := int64(math.MinInt64) // they overlap nowhere, so that one can be searched for
	for _, x := range all {
		if x.Last > last {
			x.First = max(x.First, last+1)
			next.except, last = append(next.except, x), x.Last
		}
	}
	return &next
}

// excepts reports whether nothing occurs on a day.
func (t *Timetable) excepts(day int64) bool {
	i, _ := slices.BinarySearchFunc(t.except, day, func(x Dates, day int64) int { return cmp.Compare(x.Last, day) })
	return i < len(t.except) && t.except[i].First <= day
}

// exceptedDay is the point that stands for all occurrences of a day.
func exceptedDay(day, at int64) point {
	return point{at: at, local: day * daySeconds, omitted: Excepted}
}
