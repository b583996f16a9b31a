package report

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var table = Table{Header: []string{"what", "jobs/s", "ratio"}, Rows: [][]string{{"duehook", "12,000", "1"}, {"émile", "7", "0.58"}}}

func TestMarkdown(t *testing.T) {
	want := "| what | jobs/s | ratio |\n|---|--:|--:|\n| duehook | 12,000 | 1 |\n| émile | 7 | 0.58 |\n"
	if diff := cmp.Diff(want, table.Markdown()); diff != "" {
		t.Error(diff)
	}
}

func TestText(t *testing.T) {
	want := "  what     jobs/s  ratio\n" +
		"  duehook  12,000      1\n" +
		"  émile         7   0.58\n"
	if diff := cmp.Diff(want, table.Text()); diff != "" {
		t.Error(diff)
	}
}

func TestPutReplacesOnePart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "doc.md")
	const before = "a\n<!-- bench x: begin -->\nold\n<!-- bench x: end -->\nb\n<!-- bench y: begin -->\nkept\n<!-- bench y: end -->\n"
	if err := os.WriteFile(path, []byte(before), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Put(path, "x", "new\n"); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Replace(before, "old", "new", 1), string(got)); diff != "" {
		t.Error(diff)
	}
}

func TestPutWantsItsPlace(t *testing.T) {
	for _, document := range []string{"", "<!-- bench x: begin -->\n", "<!-- bench x: end -->"} {
		if _, err := replace(document, "x", ""); err == nil {
			t.Errorf("%q has a place for x", document)
		}
	}
}

// parse fails for a picture that no browser would show, and gives its elements.
func parse(t *testing.T, svg string) []xml.StartElement {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(svg))
	var all []xml.StartElement
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, svg)
		}
		if e, ok := token.(xml.StartElement); ok {
			all = append(all, e.Copy())
		}
	}
}

func attributes(elements []xml.StartElement, name, attribute string) []string {
	var values []string
	for _, e := range elements {
		for _, a := range e.Attr {
			if e.Name.Local == name && a.Name.Local == attribute {
				values = append(values, a.Value)
			}
		}
	}
	return values
}

func TestBarsAreAsLongAsTheirFigures(t *testing.T) {
	c := Bars{Title: `drain & "more" <b>`, Unit: "jobs/s", Bars: []Bar{
		{Label: "duehook", Value: 50, Low: 40, High: 100, Own: true}, {Label: "other", Value: 25, Low: 25, High: 25},
	}}
	elements := parse(t, c.SVG())
	if diff := cmp.Diff([]string{"180.0", "90.0"}, attributes(elements, "rect", "width")); diff != "" {
		t.Error(diff) // 360 pixels are 100
	}
	if diff := cmp.Diff([]string{"own", "other"}, attributes(elements, "rect", "class")); diff != "" {
		t.Error(diff)
	}
	if got := len(attributes(elements, "line", "x1")); got != 1 {
		t.Errorf("%d ranges are drawn, want 1: the other has none", got)
	}
}

func TestCurvesLeaveOutWhatIsMissing(t *testing.T) {
	c := Curves{Title: "cost", Unit: "µs", Sizes: []string{"1", "10", "100"}, Lines: []Curve{
		{"a", []float64{1, math.NaN(), 4}}, {"nothing", []float64{math.NaN()}},
	}}
	elements := parse(t, c.SVG())
	if got := len(attributes(elements, "circle", "cx")); got != 2 {
		t.Errorf("%d points are drawn, want 2", got)
	}
	if diff := cmp.Diff([]string{"148.3,206.0 461.7,44.0 "}, attributes(elements, "polyline", "points")); diff != "" {
		t.Error(diff)
	}
}

func TestEmptyChartsAreWellFormed(t *testing.T) {
	parse(t, (&Bars{}).SVG())
	parse(t, (&Curves{}).SVG())
}

func TestRoundUp(t *testing.T) {
	for v, want := range map[float64]float64{0: 1, 0.03: 0.04, 1: 1, 13: 20, 599: 600, 601: 800, 9001: 10000} {
		if got := roundUp(v); math.Abs(got-want) > want/1e9 {
			t.Errorf("%v is rounded up to %v, want %v", v, got, want)
		}
	}
}
