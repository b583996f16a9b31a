package job_test

import (
	"testing"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/testing/everyfield"
)

// notContent are the fields that a repeated registration may have other values of.
var notContent = map[string]bool{
	"[Traceparent]": true, "[Tracestate]": true, "[Callbacks Replays]": true, "[Callbacks Ended]": true,
}

// A field that is not compared would lose a change of it: the registration would count as
// a repetition of the old one.
func TestSameContentComparesEachField(t *testing.T) {
	base := everyfield.Filled[job.Spec]()
	for at, other := range everyfield.Changed[job.Spec]() {
		if got := base.SameContent(other); got != notContent[at] || other.SameContent(base) != got {
			t.Errorf("another %s: same content %t, want %t", at, got, notContent[at])
		}
	}
}
