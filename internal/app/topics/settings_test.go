package topics

import (
	"testing"

	"github.com/duehook/duehook/internal/testing/everyfield"
)

// Settings without a value are deleted, so a forgotten field would be lost.
func TestSettingsWithAnyFieldAreKept(t *testing.T) {
	for at, settings := range everyfield.Alone[Settings]() {
		if settings.Empty() {
			t.Errorf("settings with %s count as none", at)
		}
	}
	if none := new(Settings); !none.Empty() {
		t.Error("settings without a value count as some")
	}
}

// The smaller of the limits of operator and tenant is in force.
func TestTheSmallerLimitCounts(t *testing.T) {
	for _, tc := range []struct {
		name                      string
		operator, tenant, inForce Limits
	}{
		{"none", Limits{}, Limits{}, Limits{}},
		{"the operator's alone", Limits{Capacity: 5, Rate: 0.5, Concurrency: 2, Weight: 50}, Limits{}, Limits{Capacity: 5, Rate: 0.5, Concurrency: 2, Weight: 50}},
		{"the tenant's alone", Limits{}, Limits{Capacity: 5, Rate: 0.5, Concurrency: 2, Weight: 50}, Limits{Capacity: 5, Rate: 0.5, Concurrency: 2, Weight: 50}},
		{"a larger one of the tenant", Limits{Capacity: 5, Rate: 0.5, Concurrency: 2, Weight: 5}, Limits{Capacity: 6, Rate: 0.6, Concurrency: 3, Weight: 100}, Limits{Capacity: 5, Rate: 0.5, Concurrency: 2, Weight: 5}},
		{"a smaller one of the tenant", Limits{Capacity: 5, Rate: 0.5, Concurrency: 2, Weight: 5}, Limits{Capacity: 4, Rate: 0.4, Concurrency: 1, Weight: 1}, Limits{Capacity: 4, Rate: 0.4, Concurrency: 1, Weight: 1}},
		{"different ones", Limits{Capacity: 5, Rate: 9}, Limits{Concurrency: 4, Rate: 10}, Limits{Capacity: 5, Rate: 9, Concurrency: 4}},
	} {
		topic := Topic{Limits: tc.operator, Settings: Settings{Limits: tc.tenant}}
		if got := topic.InForce(); got != tc.inForce {
			t.Errorf("%s: %+v hold, want %+v", tc.name, got, tc.inForce)
		}
	}
	for at, limits := range everyfield.Alone[Limits]() {
		topic := Topic{Limits: *limits, State: Active}
		if topic.InForce() != *limits || topic.Plain() {
			t.Errorf("a topic with the limit %s alone has %+v, and is plain: %v", at, topic.InForce(), topic.Plain())
		}
	}
}
