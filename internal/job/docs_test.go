package job_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/testing/must"
)

// docs/lifecycle.md shows the lifecycle to people. It must be the one that the
// code keeps to.
func TestLifecycleDocument(t *testing.T) {
	content, err := os.ReadFile("../../docs/lifecycle.md")
	must.OK(t, err)
	doc := string(content)
	for name, got := range map[string][]arrow{
		"table":   documentedTable(t, doc),
		"diagram": documentedDiagram(t, doc),
	} {
		must.Same(t, fmt.Sprintf("job.Lifecycle (-) and the %s in docs/lifecycle.md (+) differ", name), sortArrows(got), tableArrows(), gocmp.AllowUnexported(arrow{}))
	}

	var states, named []string
	for _, s := range job.States {
		states = append(states, s.String())
	}
	for _, row := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\|.*\\| (yes|no) \\|$").FindAllStringSubmatch(doc, -1) {
		named = append(named, row[1])
		if s, ok := job.ParseState(row[1]); !ok || s.Final() != (row[2] == "no") {
			t.Errorf("the document says of %s: unfinished %s", row[1], row[2])
		}
	}
	must.Same(t, "job.States (-) and the document's states (+) differ", named, states)
	for _, e := range events {
		if !strings.Contains(doc, "\n| `"+e.String()+"` | ") {
			t.Errorf("the document does not explain the event %v", e)
		}
	}
}

func documentedTable(t *testing.T, doc string) []arrow {
	var all []arrow
	for _, row := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\| `(\\w+)` \\| ([`\\w, ]+) \\|$").FindAllStringSubmatch(doc, -1) {
		for to := range strings.SplitSeq(row[3], ", ") {
			all = append(all, parseArrow(t, row[1], row[2], strings.Trim(to, "`")))
		}
	}
	return all
}

func documentedDiagram(t *testing.T, doc string) []arrow {
	var all []arrow
	for _, line := range regexp.MustCompile(`(?m)^    (\w+) --> (\w+): (\w+)$`).FindAllStringSubmatch(doc, -1) {
		all = append(all, parseArrow(t, line[1], line[3], line[2]))
	}
	return all
}

func parseArrow(t *testing.T, from, on, to string) arrow {
	t.Helper()
	f, okFrom := job.ParseState(from)
	s, okTo := job.ParseState(to)
	e := slices.IndexFunc(events, func(e job.Event) bool { return e.String() == on })
	if !okFrom || !okTo || e < 0 {
		t.Fatalf("the document has a step from %s on %s to %s", from, on, to)
	}
	return arrow{f, events[e], s}
}
