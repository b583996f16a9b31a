package docs

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/duehook/duehook/internal/job"
)

var (
	mutantInModel   = regexp.MustCompile(`(?m)^\t([A-Z_]+),? +/\* ([A-Z_]+): .* \*/$`)
	propertyInModel = regexp.MustCompile(`(?m)^\t([A-Z_]+),? +/\* [a-z]`)
	numberInModel   = regexp.MustCompile(`(?m)^#define ([A-Z_]+) (\d+)\b`)
	scriptInModel   = regexp.MustCompile(`\b[a-z]+\.lua\b`)
	mutantInDoc     = regexp.MustCompile("(?m)^\\| `([A-Z_]+)` \\| [^|]+ \\| `([A-Z_]+)` \\|")
	propertyInDoc   = regexp.MustCompile("(?m)^\\| `([A-Z_]+)` \\| [^|]+ \\|$")
)

func model(t *testing.T, file string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("model", file))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// docs/model.md says what each model claims, and what breaks each claim.
func TestModelDocument(t *testing.T) {
	ofJob, ofKey, found := strings.Cut(documents(t)["docs/model.md"], "\n## Order keys\n")
	if !found {
		t.Fatal("docs/model.md has no section on the model of order keys")
	}
	t.Run("job", func(t *testing.T) { compareModel(t, model(t, "job.pml"), ofJob) })
	t.Run("order key", func(t *testing.T) { compareModel(t, model(t, "order.pml"), ofKey) })
}

func compareModel(t *testing.T, model, doc string) {
	t.Helper()
	mutants := pairs(mutantInModel, model)
	if diff := cmp.Diff(mutants, pairs(mutantInDoc, doc)); diff != "" {
		t.Errorf("the mutants of the model (-) and of docs/model.md (+) differ:\n%s", diff)
	}
	properties := pairs(propertyInModel, model)
	if diff := cmp.Diff(properties, pairs(propertyInDoc, doc)); diff != "" {
		t.Errorf("the properties of the model (-) and of docs/model.md (+) differ:\n%s", diff)
	}
	for _, p := range properties {
		if !slices.ContainsFunc(mutants, func(m [2]string) bool { return m[1] == p[0] }) {
			t.Errorf("no mutant breaks %s: nothing shows that it can fail", p[0])
		}
	}
	for _, m := range mutants {
		if !strings.Contains(model, "BUT("+m[0]+")") {
			t.Errorf("the model breaks nothing for %s", m[0])
		}
	}
}

// pairs are the groups of all matches: one or two.
func pairs(pattern *regexp.Regexp, text string) [][2]string {
	var all [][2]string
	for _, m := range pattern.FindAllStringSubmatch(text, -1) {
		all = append(all, [2]string{m[1], strings.Join(m[2:], "")})
	}
	return all
}

// The model has the numbers and names of package job, and names scripts that
// there are.
func TestModelNamesWhatThereIs(t *testing.T) {
	model := model(t, "job.pml")
	numbers := map[string]string{}
	for _, m := range numberInModel.FindAllStringSubmatch(model, -1) {
		numbers[m[1]] = m[2]
	}
	named := func(name fmt.Stringer, number int) {
		if upper := strings.ToUpper(name.String()); numbers[upper] != fmt.Sprint(number) {
			t.Errorf("the model has %s = %q, the code %d", upper, numbers[upper], number)
		}
	}
	for _, s := range job.States {
		named(s, int(s))
	}
	for e := job.Carry; e <= job.Replay; e++ {
		named(e, int(e))
	}
	scripts := scriptInModel.FindAllString(model, -1)
	for _, s := range scripts {
		if _, err := os.Stat(filepath.Join(root, "store/redisstore/lua", s)); err != nil {
			t.Errorf("the model names %s: %v", s, err)
		}
	}
	if len(scripts) < 7 {
		t.Errorf("only %d scripts found in the model: the pattern has gone wrong", len(scripts))
	}
}
