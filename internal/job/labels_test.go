package job_test

import (
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/duehook/duehook/internal/job"
)

func TestParseLabel(t *testing.T) {
	for text, want := range map[string]job.Label{
		"shop:7":         {Key: "shop", Value: "7"},
		"a:":             {Key: "a"},
		"a:b:c":          {Key: "a", Value: "b:c"},
		"env.x_1-:größe": {Key: "env.x_1-", Value: "größe"},
	} {
		if got, err := job.ParseLabel(text); err != nil || got != want {
			t.Errorf("%q: got %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "shop", ":7", "Shop:7", "a b:7", "a:\n"} {
		if got, err := job.ParseLabel(text); err == nil {
			t.Errorf("%q: got %v, want an error", text, got)
		}
	}
}

func TestParseLabels(t *testing.T) {
	got, err := job.ParseLabels("filter.label", map[string]string{"b": "2", "a": "1"})
	if diff := gocmp.Diff([]job.Label{{Key: "a", Value: "1"}, {Key: "b", Value: "2"}}, got); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
	_, err = job.ParseLabels("filter.label", map[string]string{"A": "1"})
	if got := complaints(t, err); got["filter.label.A"] == "" {
		t.Errorf("refused for %v", got)
	}
}

func TestHasLabels(t *testing.T) {
	s := job.Spec{Labels: []job.Label{{Key: "a", Value: "1"}, {Key: "b", Value: "2"}}}
	for _, tt := range []struct {
		labels []job.Label
		want   bool
	}{
		{nil, true},
		{s.Labels[1:], true},
		{s.Labels, true},
		{[]job.Label{{Key: "a", Value: "2"}}, false},
		{[]job.Label{{Key: "a", Value: "1"}, {Key: "c"}}, false},
	} {
		if got := s.HasLabels(tt.labels); got != tt.want {
			t.Errorf("%v: %v", tt.labels, got)
		}
	}
}
