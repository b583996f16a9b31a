package explain

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// words are those of the dashboard in a language, by key.
func words(t *testing.T, language string) map[string]string {
	t.Helper()
	data, err := os.ReadFile("../../../web/src/i18n/" + language + ".json")
	if err != nil {
		t.Fatal(err)
	}
	table := map[string]string{}
	if err := json.Unmarshal(data, &table); err != nil {
		t.Fatal(err)
	}
	return table
}

// placeholders are the parameters that a text has room for.
func placeholders(text string) []string {
	found := regexp.MustCompile(`\{\w+\}`).FindAllString(text, -1)
	slices.Sort(found)
	return slices.Compact(found)
}

// The dashboard says each sentence in both languages, with all its parameters.
func TestTheDashboardKnowsEverySentence(t *testing.T) {
	want := map[string]wording{}
	for code, w := range english {
		want["says."+code] = wording{many: w.many}
		if w.one != "" {
			want["says."+code+".one"] = wording{many: w.one}
		}
	}
	en, zh := words(t, "en"), words(t, "zh")
	for key, w := range want {
		if en[key] != w.many {
			t.Errorf("en.json: %s is %q, and the API says %q", key, en[key], w.many)
		}
		if diff := cmp.Diff(placeholders(w.many), placeholders(zh[key])); diff != "" || zh[key] == "" {
			t.Errorf("zh.json: %s is %q; parameters (-want +got):\n%s", key, zh[key], diff)
		}
	}
	for key := range en {
		if _, known := want[key]; strings.HasPrefix(key, "says.") && !known {
			t.Errorf("en.json: %s is no sentence of the API", key)
		}
	}
}

// The dashboard has words for each code of a reason, too.
func TestTheDashboardKnowsEveryReason(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "explain.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var codes []string
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if ok && strings.HasPrefix(spec.Names[0].Name, "Code") {
			code, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			codes = append(codes, code)
		}
		return true
	})
	if len(codes) < 16 {
		t.Fatalf("found the codes %v only", codes)
	}
	for _, language := range []string{"en", "zh"} {
		table := words(t, language)
		for _, code := range codes {
			if table["why."+code] == "" {
				t.Errorf("%s.json lacks why.%s", language, code)
			}
		}
	}
}

// The guide lists the sentences as they are.
func TestEverySentenceIsDocumented(t *testing.T) {
	data, err := os.ReadFile("../../../docs/api-errors.md")
	if err != nil {
		t.Fatal(err)
	}
	guide := string(data)
	for code, w := range english {
		if row := "| `" + code + "` | " + w.many + " |"; !strings.Contains(guide, row) {
			t.Errorf("docs/api-errors.md lacks the row\n%s", row)
		}
	}
}
