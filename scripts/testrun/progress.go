package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
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

// mostNamed is how many running tests it names.
const mostNamed = 4

// progress reads the output of a part, and prints the relevant lines.
type progress struct {
	part    part
	json    bool // the output is that of go test -json
	out     io.Writer
	runs    map[name]*output // packages that have not ended, and their tests that have not passed
	builds  map[string]string
	printed time.Time
	mu      sync.Mutex // held by line and tick
}

// name is the name of a package, or of a test in it.
type name struct{ pkg, test string }

func (n name) String() string {
	const module = "github.com/duehook/duehook"
	pkg := strings.TrimPrefix(n.pkg, module+"/")
	if pkg == module {
		pkg = "."
	}
	return strings.TrimSpace(pkg + " " + n.test)
}

func (n name) isSubtest() bool { return strings.Contains(n.test, "/") }

// output is what a package or a test printed.
type output struct {
	since time.Time
	text  []byte
	ended bool
}

func newProgress(of string, json bool, out io.Writer) *progress {
	return &progress{
		part: part{Name: of}, json: json, out: out,
		runs: map[name]*output{}, builds: map[string]string{}, printed: clock.Now(),
	}
}

func (p *progress) line(text []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var ev event
	if !p.json || json.Unmarshal(text, &ev) != nil {
		p.print("%s", text) // of any command, or of the go command itself
		return
	}
	if ev.ImportPath != "" {
		p.builds[ev.ImportPath] += ev.Output
		return
	}
	n := name{ev.Package, ev.Test}
	run := p.runs[n]
	if run == nil {
		run = &output{since: ev.Time}
		p.runs[n] = run
	}
	switch ev.Action {
	case "output":
		if n.test == "" || !strings.HasPrefix(ev.Output, "=== ") { // a test begins, pauses or continues
			run.text = append(run.text, ev.Output...)
		}
	case "pass", "skip", "fail":
		p.ended(n, run, &ev)
	}
}

// ended handles the end of a test or a package.
func (p *progress) ended(n name, run *output, ev *event) {
	run.ended = true
	if n.test == "" {
		p.packageEnded(n, run, ev)
	} else if ev.Action != "fail" {
		delete(p.runs, n)
	}
	if !n.isSubtest() {
		p.part.Results = append(p.part.Results, result{Name: n.String(), IsTest: n.test != "", Seconds: ev.Elapsed})
	}
}

func (p *progress) packageEnded(pkg name, run *output, ev *event) {
	delete(p.runs, pkg)
	note := ""
	switch {
	case ev.Action == "skip": // it has no tests
		return
	case ev.FailedBuild != "":
		run.text, note = []byte(p.builds[ev.FailedBuild]), " (does not build)"
	case strings.Contains(string(run.text), "\t(cached)"):
		note = " (cached)"
	}
	verdict := "ok"
	if ev.Action == "fail" {
		verdict = "FAIL"
		p.explain(pkg, run)
	}
	p.print("%-4s %6.1f s  %s%s\n", verdict, ev.Elapsed, pkg, note)
}

// explain prints the output of a package's failed tests, and of those that were running
// when the process ended.
func (p *progress) explain(pkg name, run *output) {
	var failed []name
	for n := range p.runs {
		if n.pkg == pkg.pkg {
			failed = append(failed, n)
		}
	}
	slices.SortFunc(failed, func(a, b name) int { return strings.Compare(a.test, b.test) })
	for _, n := range failed {
		p.part.Failures = append(p.part.Failures, n.String())
		p.print("FAIL %s\n%s", n, p.runs[n].text)
		delete(p.runs, n)
	}
	if len(failed) == 0 {
		p.part.Failures = append(p.part.Failures, pkg.String())
	}
	p.print("FAIL %s\n%s", pkg, run.text)
}

// tick names the running tests if nothing was printed for a while.
func (p *progress) tick(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.json || now.Sub(p.printed) < quietFor {
		return
	}
	var running []name
	for n, t := range p.runs {
		if n.test != "" && !n.isSubtest() && !t.ended {
			running = append(running, n)
		}
	}
	slices.SortFunc(running, func(a, b name) int { return p.runs[a].since.Compare(p.runs[b].since) })
	texts := []string{"compiling, or starting servers"}
	for i, n := range running {
		if i == 0 {
			texts = nil
		} else if i == mostNamed {
			texts = append(texts, fmt.Sprintf("and %d more", len(running)-i))
			break
		}
		texts = append(texts, fmt.Sprintf("%s (%.0f s)", n, now.Sub(p.runs[n].since).Seconds()))
	}
	p.print("...  %s\n", strings.Join(texts, ", "))
}

// print writes each line with the name of the part.
func (p *progress) print(format string, args ...any) {
	p.printed = clock.Now()
	for text := range strings.Lines(fmt.Sprintf(format, args...)) {
		_, _ = fmt.Fprintf(p.out, "%-9s %s\n", p.part.Name, strings.TrimSuffix(text, "\n"))
	}
}
