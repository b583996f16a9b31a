package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// part is the record of a part.
type part struct {
	Name     string
	OK       bool
	Seconds  float64
	CPU      float64 // seconds, of all processes that it started
	Results  []result
	Failures []string
}

// result is the time of a package, or of a top-level test.
type result struct {
	Name    string
	IsTest  bool
	Seconds float64
}

func (p *part) write(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // nothing secret
		return err
	}
	text, err := json.Marshal(p)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, p.Name+".json"), text, 0o644) //nolint:gosec // nothing secret
}

// slowest is how many tests and packages the summary names.
const slowest = 10

// summarize prints all parts that have a record in dir. If all parts passed, it fails for
// the tests of packages that ran in none of them.
func summarize(ctx context.Context, dir string, packages []string, out io.Writer) (ok bool, err error) {
	parts, err := read(dir)
	if err != nil {
		return false, err
	}
	var text, failures strings.Builder
	list(&text, "packages", parts, false)
	list(&text, "tests", parts, true)
	text.WriteString("\n== parts\n")
	ok = true
	for _, p := range parts {
		ok = ok && p.OK
		verdict, tests := "ok", 0
		if !p.OK {
			verdict = "FAIL"
		}
		for _, r := range p.Results {
			if r.IsTest {
				tests++
			}
		}
		fmt.Fprintf(&text, "%-4s %-10s %8s, %8s of CPU, %d tests\n", verdict, p.Name, seconds(p.Seconds), seconds(p.CPU), tests)
		for _, f := range p.Failures {
			fmt.Fprintf(&failures, "FAIL %s: %s\n", p.Name, f)
		}
	}
	if ok && len(packages) > 0 {
		left, err := notRun(ctx, packages, parts)
		if err != nil {
			return false, err
		}
		for _, n := range left {
			ok = false
			fmt.Fprintf(&failures, "FAIL %s ran in no part\n", n)
		}
	}
	_, err = io.WriteString(out, text.String()+failures.String())
	return ok, err
}

// read returns the records in dir, slowest first.
func read(dir string) ([]part, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(files) == 0 {
		return nil, cmp.Or(err, fmt.Errorf("no records in %s", dir))
	}
	parts := make([]part, len(files))
	for i, file := range files {
		text, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(text, &parts[i])
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	slices.SortFunc(parts, func(a, b part) int { return cmp.Compare(b.Seconds, a.Seconds) })
	return parts, nil
}

// list writes the slowest packages or tests of all parts.
func list(text *strings.Builder, what string, parts []part, tests bool) {
	var all []result
	for _, p := range parts {
		all = append(all, p.Results...)
	}
	all = slices.DeleteFunc(all, func(r result) bool { return r.IsTest != tests })
	slices.SortStableFunc(all, func(a, b result) int { return cmp.Compare(b.Seconds, a.Seconds) })
	fmt.Fprintf(text, "\n== slowest %s\n", what)
	for _, r := range all[:min(len(all), slowest)] {
		fmt.Fprintf(text, "%7.1f s  %s\n", r.Seconds, r.Name)
	}
}

func seconds(s float64) string {
	return time.Duration(s * float64(time.Second)).Round(time.Second).String()
}
