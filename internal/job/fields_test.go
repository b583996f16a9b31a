package job_test

import (
	"slices"
	"testing"

	"github.com/duehook/duehook/internal/job"
)

func TestFields(t *testing.T) {
	for _, parts := range [][]string{nil, {"retry", "steps", "0"}, {"headers", "a.b"}, {"headers", `a\`, "b"}, {"headers", `\.`, ""}} {
		var f job.Field
		for _, p := range parts {
			f = f.In(p)
		}
		if got := f.Parts(); !slices.Equal(got, parts) {
			t.Errorf("%q is read as %q", f, got)
		}
		within := f.Within("set")
		if got := within.Parts(); !slices.Equal(got, append([]string{"set"}, parts...)) {
			t.Errorf("%q is read as %q", within, got)
		}
	}
	if f := job.Field("retry").In("limit"); f != "retry.limit" || f.Within("") != f {
		t.Errorf("the field is %q", f)
	}
}
