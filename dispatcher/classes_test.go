package dispatcher

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
)

// classNames are the constants of classes.go.
var classNames = map[string]string{
	"classDNSTimeout": classDNSTimeout, "classDialTimeout": classDialTimeout, "classTLSTimeout": classTLSTimeout,
	"classTimeout": classTimeout, "classRefused": classRefused, "classReset": classReset,
	"classUnreachable": classUnreachable, "classDNS": classDNS, "classTLS": classTLS, "classTLSExpired": classTLSExpired, "classTLSAuthority": classTLSAuthority,
	"classTLSName": classTLSName, "classTLSProtocol": classTLSProtocol, "classTLSAlert": classTLSAlert,
	"classTooLarge": classTooLarge, "classInvalid": classInvalid, "classUnexpected": classUnexpected,
	"classBadSnooze": classBadSnooze, "classSnoozeLimit": classSnoozeLimit, "classBadAt": classBadAt, "classAtLimit": classAtLimit,
	"classBlocked": classBlocked, "classBadRequest": classBadRequest,
	"classLeaseEnded": classLeaseEnded, "classNacked": classNacked,
}

// TestClassesAreDocumented: clients rely on the set being closed.
func TestClassesAreDocumented(t *testing.T) {
	if diff := cmp.Diff(constants(t), slices.Sorted(maps.Keys(classNames))); diff != "" {
		t.Errorf("classes.go (-) and this test's list (+) differ:\n%s", diff)
	}
	want := slices.Sorted(maps.Values(classNames))
	if diff := cmp.Diff(want, enumerated(t)); diff != "" {
		t.Errorf("classes.go (-) and the OpenAPI document (+) differ:\n%s", diff)
	}
	if diff := cmp.Diff(want, tabled(t)); diff != "" {
		t.Errorf("classes.go (-) and docs/api-errors.md (+) differ:\n%s", diff)
	}
}

func constants(t *testing.T) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "classes.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok && strings.HasPrefix(spec.Names[0].Name, "class") {
			names = append(names, spec.Names[0].Name)
		}
		return true
	})
	slices.Sort(names)
	return names
}

func enumerated(t *testing.T) []string {
	t.Helper()
	content, err := os.ReadFile("../httpapi/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Components struct {
			Schemas struct {
				AttemptError struct {
					Enum []string `yaml:"enum"`
				} `yaml:"AttemptError"`
			} `yaml:"schemas"`
		} `yaml:"components"`
	}
	if err := yaml.Unmarshal(content, &doc); err != nil {
		t.Fatal(err)
	}
	slices.Sort(doc.Components.Schemas.AttemptError.Enum)
	return doc.Components.Schemas.AttemptError.Enum
}

// tabled are the rows of the guide's table but http_NNN.
func tabled(t *testing.T) []string {
	t.Helper()
	content, err := os.ReadFile("../docs/api-errors.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(content), "## Errors of attempts\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var names []string
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\|").FindAllStringSubmatch(section, -1) {
		if row[1] != "error" {
			names = append(names, row[1])
		}
	}
	slices.Sort(names)
	return names
}
