package schedules

import (
	"testing"
	"time"

	"github.com/duehook/duehook/internal/job"
)

func TestPartsOfTimetables(t *testing.T) {
	year := func(n int) *time.Time { return new(time.Date(n, 1, 1, 0, 0, 0, 0, time.UTC)) }
	for _, c := range []struct {
		part Part
		want string
	}{
		{Part{}, ""},
		{Part{From: year(1970), Limit: new(1)}, ""},
		{Part{From: year(9999), Limit: new(MaxOccurrences)}, ""},
		{Part{From: year(1969), Limit: new(0)}, "from: must be in the years 1970 to 9999; limit: must be a whole number from 1 to 1000"},
		{Part{From: year(10_000), Limit: new(MaxOccurrences + 1)}, "from: must be in the years 1970 to 9999; limit: must be a whole number from 1 to 1000"},
	} {
		var f job.Findings
		c.part.check(&f)
		if err := f.Err(); (err == nil) != (c.want == "") || err != nil && err.Error() != c.want {
			t.Errorf("%+v: %v, want %q", c.part, err, c.want)
		}
	}
}
