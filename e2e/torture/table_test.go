package torture

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// The markers between which the table stands in a document.
const (
	tableBegins = "<!-- torture table: begin -->\n"
	tableEnds   = "<!-- torture table: end -->"
)

// table is Markdown: one line for each row, and one for the sum.
func (s *results) table() string {
	var b strings.Builder
	b.WriteString("| fault | runs | acknowledged | lost | repeated: in flight | otherwise | recovered p50 | max | other findings |\n")
	b.WriteString("|---|--:|--:|--:|--:|--:|--:|--:|--:|\n")
	for _, r := range rows {
		if of := s.of(r); len(of) > 0 {
			b.WriteString(line("`"+r.name+"`", of))
		}
	}
	b.WriteString(line("**all**", s.all))
	return b.String()
}

func (s *results) of(r *row) []*result {
	return slices.DeleteFunc(slices.Clone(s.all), func(x *result) bool { return x.row != r })
}

func line(name string, results []*result) string {
	var sum result
	var recover []time.Duration
	findings := 0
	for _, r := range results {
		sum.acknowledged += r.acknowledged
		sum.lost += r.lost
		sum.inFlight += r.inFlight
		sum.otherwise += r.otherwise
		findings += len(r.wrong) - r.lost - r.otherwise
		if r.recover > 0 {
			recover = append(recover, r.recover)
		}
	}
	p50, most := "–", "–"
	if len(recover) > 0 {
		slices.Sort(recover)
		p50, most = seconds(recover[len(recover)/2]), seconds(recover[len(recover)-1])
	}
	return fmt.Sprintf("| %s | %d | %d | %d | %d | %d | %s | %s | %d |\n",
		name, len(results), sum.acknowledged, sum.lost, sum.inFlight, sum.otherwise, p50, most, findings)
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }

// write puts the table and the command that makes it into a document.
func (s *results) write(path string) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	text := string(content)
	begin, end := strings.Index(text, tableBegins), strings.Index(text, tableEnds)
	if begin < 0 || end < begin {
		return fmt.Errorf("%s has no place for the table", path)
	}
	first, last := s.seeds()
	made := fmt.Sprintf("Made by `make soak PART=torture RUNS=%d SEED=%d`: %d runs of %d jobs, seeds %d to %d; %d runs were repeated.\n\n",
		*runs, *seed, len(s.all), jobsPerRun, first, last, s.void.Load())
	text = text[:begin+len(tableBegins)] + made + s.table() + text[end:]
	return os.WriteFile(path, []byte(text), 0o600)
}

// seeds are the first and the last seed of all runs.
func (s *results) seeds() (first, last uint64) {
	for i, r := range s.all {
		if i == 0 {
			first = r.seed
		}
		first, last = min(first, r.seed), max(last, r.seed)
	}
	return first, last
}
