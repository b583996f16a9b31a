package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// part is the record of a part.
type part struct {
	Name     string
	OK       bool
	Seconds  float64
	CPU      float64 // seconds, of all processes that it started
	Tests    int
	Results  []result
	Failures []string
}

// result is what a package took, or a top-level test of it.
type result struct {
	Package string
	Test    string // empty: the package
	Seconds float64
	Cached  bool
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

// summarize prints all parts that left a record in dir.
func summarize(dir string, out io.Writer) (ok bool, err error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(files) == 0 {
		return false, cmp.Or(err, fmt.Errorf("no records in %s", dir))
	}
	var parts []part
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return false, err
		}
		var p part
		if err := json.Unmarshal(text, &p); err != nil {
			return false, fmt.Errorf("%s: %w", file, err)
		}
		parts = append(parts, p)
	}
	slices.SortFunc(parts, func(a, b part) int { return cmp.Compare(b.Seconds, a.Seconds) })
	var packages, tests []result
	for _, p := range parts {
		for _, r := range p.Results {
			if r.Test == "" {
				packages = append(packages, r)
			} else if !r.Cached {
				tests = append(tests, r)
			}
		}
	}
	w := &writer{out: out}
	w.print("\n== slowest packages\n")
	w.slowest(packages)
	w.print("\n== slowest tests\n")
	w.slowest(tests)
	w.print("\n== parts\n")
	ok = true
	for _, p := range parts {
		ok = ok && p.OK
		w.part(p)
	}
	for _, p := range parts {
		for _, f := range p.Failures {
			w.print("FAIL %s: %s\n", p.Name, f)
		}
	}
	return ok, w.err
}

// writer prints until that fails.
type writer struct {
	out io.Writer
	err error
}

func (w *writer) print(format string, args ...any) {
	if w.err == nil {
		_, w.err = fmt.Fprintf(w.out, format, args...)
	}
}

func (w *writer) slowest(all []result) {
	slices.SortStableFunc(all, func(a, b result) int { return cmp.Compare(b.Seconds, a.Seconds) })
	for _, r := range all[:min(len(all), slowest)] {
		w.print("%7.1f s  %s %s\n", r.Seconds, r.Package, r.Test)
	}
}

func (w *writer) part(p part) {
	verdict, tests := "ok  ", ""
	if !p.OK {
		verdict = "FAIL"
	}
	if p.Tests > 0 {
		tests = fmt.Sprintf("  %d tests", p.Tests)
	}
	w.print("%s %-10s %8s, %8s of CPU%s\n", verdict, p.Name, seconds(p.Seconds), seconds(p.CPU), tests)
}

func seconds(s float64) string {
	return time.Duration(s * float64(time.Second)).Round(time.Second).String()
}
