package main

import (
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"strings"
)

// soaks begins the names of tests that only `make soak` runs.
const soaks = "TestSoak"

// notRun returns the tests of packages that have no result. Parts skip tests by name, so a
// new test could match the patterns of all parts.
func notRun(ctx context.Context, packages []string, parts []part) ([]name, error) {
	ran := map[string]bool{}
	for _, p := range parts {
		for _, r := range p.Results {
			ran[r.Name] = true
		}
	}
	const files = `{{range .TestGoFiles}}{{$.ImportPath}} {{$.Dir}}/{{.}}{{"\n"}}{{end}}` +
		`{{range .XTestGoFiles}}{{$.ImportPath}} {{$.Dir}}/{{.}}{{"\n"}}{{end}}`
	list, err := exec.CommandContext(ctx, "go", append([]string{"list", "-f", files}, packages...)...).Output() //nolint:gosec // the caller's packages
	if err != nil {
		return nil, fmt.Errorf("list the files of tests: %w", err)
	}
	var left []name
	for line := range strings.Lines(string(list)) {
		pkg, file, found := strings.Cut(strings.TrimSpace(line), " ")
		if !found {
			continue
		}
		tests, err := testsOf(file)
		if err != nil {
			return nil, err
		}
		for _, test := range tests {
			if n := (name{pkg, test}); !ran[n.String()] {
				left = append(left, n)
			}
		}
	}
	return left, nil
}

// testsOf returns the tests that a file declares and `make test` runs.
func testsOf(file string) ([]string, error) {
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var tests []string
	for _, d := range parsed.Decls {
		f, ok := d.(*ast.FuncDecl)
		if ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") && f.Name.Name != "TestMain" && !strings.HasPrefix(f.Name.Name, soaks) {
			tests = append(tests, f.Name.Name)
		}
	}
	return tests, nil
}
