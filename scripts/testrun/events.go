package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// event is a line of go test -json.
type event struct {
	Time        time.Time
	Action      string
	Package     string
	ImportPath  string // of a build
	Test        string
	Elapsed     float64 // seconds
	Output      string
	FailedBuild string
}

// quietFor is how long a part prints nothing before it names the running tests.
const quietFor = 30 * time.Second

// events reads the output of go test -json.
type events struct {
	part     string
	out      io.Writer
	packages map[string]*running // not ended yet
	builds   map[string][]byte   // output of compilers, by import path
	printed  time.Time
	results  []result
	failures []string
	tests    int // top-level tests that ended
}

// running is a package whose tests run.
type running struct {
	own    []byte // output that belongs to no test
	tests  map[string]*test
	failed []string // in order
	cached bool
}

// test is a test or subtest that has not passed.
type test struct {
	since  time.Time
	output []byte
	ended  bool
}

func newEvents(part string, out io.Writer) *events {
	return &events{part: part, out: out, packages: map[string]*running{}, builds: map[string][]byte{}, printed: clock.Now()}
}

func (e *events) line(text []byte) {
	var ev event
	if err := json.Unmarshal(text, &ev); err != nil {
		e.print("%s", text) // of the go command itself
		return
	}
	switch ev.Action {
	case "build-output":
		e.builds[ev.ImportPath] = append(e.builds[ev.ImportPath], ev.Output...)
		return
	case "build-fail":
		return
	}
	p := e.packages[ev.Package]
	if p == nil {
		p = &running{tests: map[string]*test{}}
		e.packages[ev.Package] = p
	}
	if ev.Test == "" {
		e.ofPackage(p, ev)
		return
	}
	e.ofTest(p, ev)
}

func (e *events) ofPackage(p *running, ev event) {
	switch ev.Action {
	case "output":
		p.cached = p.cached || strings.HasPrefix(ev.Output, "ok") && strings.Contains(ev.Output, "(cached)")
		p.own = append(p.own, ev.Output...)
	case "pass", "skip", "fail":
		delete(e.packages, ev.Package)
		if ev.Action == "skip" {
			return // it has no tests
		}
		e.packageEnded(p, ev)
	}
}

func (e *events) packageEnded(p *running, ev event) {
	name, verdict := short(ev.Package), "ok"
	if ev.Action == "fail" {
		verdict = "FAIL"
		e.explain(p, ev)
	}
	note := ""
	if p.cached {
		note = " (cached)"
	}
	e.results = append(e.results, result{Package: name, Seconds: ev.Elapsed, Cached: p.cached})
	e.print("%-4s %6.1f s  %s%s\n", verdict, ev.Elapsed, name, note)
}

// explain prints all that is known of the failures of a package.
func (e *events) explain(p *running, ev event) {
	name := short(ev.Package)
	if ev.FailedBuild != "" {
		e.failures = append(e.failures, name+" does not build")
		e.print("FAIL %s does not build\n%s", name, e.builds[ev.FailedBuild])
		return
	}
	for test, t := range p.tests {
		if !t.ended {
			p.failed = append(p.failed, test) // it was running when the process ended
		}
	}
	if len(p.failed) == 0 {
		p.failed = append(p.failed, "")
	}
	for _, test := range p.failed {
		e.failures = append(e.failures, strings.TrimSpace(name+" "+test))
		if t := p.tests[test]; t != nil {
			e.print("FAIL %s %s\n%s", name, test, t.output)
		}
	}
	e.print("FAIL %s\n%s", name, p.own)
}

func (e *events) ofTest(p *running, ev event) {
	t := p.tests[ev.Test]
	if t == nil {
		t = &test{since: ev.Time}
		p.tests[ev.Test] = t
	}
	switch ev.Action {
	case "output":
		if !isFraming(ev.Output) {
			t.output = append(t.output, ev.Output...)
		}
	case "pass", "skip":
		delete(p.tests, ev.Test)
	case "fail":
		t.ended = true
		p.failed = append(p.failed, ev.Test)
	}
	if ended := ev.Action == "pass" || ev.Action == "skip" || ev.Action == "fail"; ended && !strings.Contains(ev.Test, "/") {
		e.tests++
		e.results = append(e.results, result{Package: short(ev.Package), Test: ev.Test, Seconds: ev.Elapsed})
	}
}

// isFraming reports whether a line says no more than that a test begins or goes on.
func isFraming(line string) bool {
	return strings.HasPrefix(line, "=== ")
}

// tick names the tests that run, if nothing was printed for a while.
func (e *events) tick(now time.Time) {
	if now.Sub(e.printed) < quietFor {
		return
	}
	type run struct {
		name string
		took time.Duration
	}
	var all []run
	for pkg, p := range e.packages {
		for name, t := range p.tests {
			if !t.ended && !strings.Contains(name, "/") {
				all = append(all, run{short(pkg) + " " + name, now.Sub(t.since)})
			}
		}
	}
	slices.SortFunc(all, func(a, b run) int { return int(b.took - a.took) })
	const most = 4
	var text bytes.Buffer
	for i, r := range all {
		if i == most {
			_, _ = fmt.Fprintf(&text, ", and %d more", len(all)-most)
			break
		}
		if i > 0 {
			text.WriteString(", ")
		}
		_, _ = fmt.Fprintf(&text, "%s (%.0f s)", r.name, r.took.Seconds())
	}
	if len(all) == 0 {
		text.WriteString("compiling, or starting servers")
	}
	e.print("...  %s\n", text.Bytes())
}

func (e *events) end(p *part) {
	p.Results, p.Failures, p.Tests = e.results, e.failures, e.tests
}

// print writes each line with the name of the part.
func (e *events) print(format string, args ...any) {
	e.printed = clock.Now()
	for text := range strings.Lines(fmt.Sprintf(format, args...)) {
		_, _ = fmt.Fprintf(e.out, "%-9s %s\n", e.part, strings.TrimSuffix(text, "\n"))
	}
}

// short is a package without the module's name.
func short(pkg string) string {
	const module = "github.com/duehook/duehook"
	if pkg == module {
		return "."
	}
	return strings.TrimPrefix(pkg, module+"/")
}
