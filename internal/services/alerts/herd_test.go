package alerts

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/duehook/duehook/internal/services/herds"
)

func TestHerds(t *testing.T) {
	r := &reading{allHerds: true, herds: []herds.Herd{{Jobs: 150}, {Topic: "a", Jobs: 40}, {Topic: "a", Jobs: 30}, {Topic: "b", Jobs: 7}, {Topic: Topic, Jobs: 9}}}
	for name, tt := range map[string]struct {
		draft Draft
		want  values
	}{
		"of all":        {Draft{}, values{{}: 150}},
		"of a topic":    {Draft{Topic: "b"}, values{{Topic: "b"}: 7}},
		"of each topic": {Draft{By: "topic"}, values{{Topic: "a"}: 40, {Topic: "b"}: 7}},
	} {
		tt.draft.Metric = "herd"
		rule, err := tt.draft.rule("r")
		if err != nil {
			t.Fatal(err)
		}
		got, complete := r.of(&rule)
		if diff := cmp.Diff(tt.want, got); diff != "" || !complete || rule.Above != 0 {
			t.Errorf("%s: above %v, complete %v\n%s", name, rule.Above, complete, diff)
		}
	}
	if _, complete := (&reading{}).of(&Rule{Metric: LargestHerd, By: ByTotal}); complete {
		t.Error("without all herds, the value is complete")
	}
}
