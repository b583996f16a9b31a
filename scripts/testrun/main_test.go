package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// write makes a module with one package whose test file has this body.
func write(t *testing.T, body string) {
	t.Helper()
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{"go.mod": "module example.com/m\n\ngo 1.26\n", "m_test.go": "package m\n\n" + body} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// testrun returns what it prints.
func testrun(t *testing.T, want bool, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	ok, err := run(context.Background(), args, &out)
	if err != nil || ok != want {
		t.Fatalf("testrun %v: %t, %v\n%s", args, ok, err, out.Bytes())
	}
	return out.String()
}

func wantIn(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("%q is not in\n%s", p, text)
		}
	}
}

func TestPassedTestsAreCountedNotShown(t *testing.T) {
	write(t, `import "testing"

func TestA(t *testing.T) { t.Log("not shown"); t.Run("sub", func(*testing.T) {}) }
func TestB(*testing.T) {}
`)
	text := testrun(t, true, "go", "some", "./...")
	wantIn(t, text, "some      ok ", "example.com/m")
	if strings.Contains(text, "not shown") {
		t.Errorf("a test that passed is shown:\n%s", text)
	}
	wantIn(t, testrun(t, true, "summary"), "ok   some", "2 tests", "example.com/m TestA")
}

func TestFailuresAreShownWhole(t *testing.T) {
	write(t, `import "testing"

func TestA(t *testing.T) { t.Log("not shown") }

func TestB(t *testing.T) {
	t.Log("before")
	t.Run("good", func(t *testing.T) { t.Log("not shown") })
	t.Run("bad", func(t *testing.T) { t.Fatal("broken") })
}
`)
	text := testrun(t, false, "go", "some", "./...")
	wantIn(t, text, "FAIL", "before", "broken", "TestB/bad")
	if strings.Contains(text, "not shown") {
		t.Errorf("a test that passed is shown:\n%s", text)
	}
	testrun(t, true, "exec", "other", "echo", "said")
	wantIn(t, testrun(t, false, "summary"), "FAIL some", "ok   other", "FAIL some: example.com/m TestB/bad")
}

func TestEndOfTheProcessIsShown(t *testing.T) {
	for name, body := range map[string]string{
		"panic": `import "testing"

func TestA(*testing.T) { panic("made to fail") }
`,
		"exit": `import (
	"fmt"
	"os"
	"testing"
)

func TestA(*testing.T) {
	fmt.Println("made to fail")
	os.Exit(3)
}
`,
		"no start": `import (
	"fmt"
	"os"
	"testing"
)

func TestMain(*testing.M) {
	fmt.Println("made to fail")
	os.Exit(3)
}
`,
		"does not build": `func made to fail() {}
`,
	} {
		t.Run(name, func(t *testing.T) {
			write(t, body)
			text := testrun(t, false, "go", "some", "./...")
			if name == "does not build" {
				wantIn(t, text, "m_test.go:3")
			} else {
				wantIn(t, text, "made to fail")
			}
			wantIn(t, testrun(t, false, "summary"), "FAIL some: example.com/m")
		})
	}
}

func TestTestsThatRanInNoPartAreNamed(t *testing.T) {
	write(t, `import "testing"

func TestMain(m *testing.M) { m.Run() }
func TestA(*testing.T) {}
func TestB(*testing.T) {}
func TestC(*testing.T) {}
func TestSoakD(*testing.T) {}
`)
	testrun(t, true, "go", "one", "-skip", "Test[BCD]", "./...")
	testrun(t, true, "go", "two", "-skip", "Test[ACD]", "./...")
	text := testrun(t, false, "summary", "./...")
	wantIn(t, text, "FAIL example.com/m TestC ran in no part\n")
	if n := strings.Count(text, "in no part"); n != 1 {
		t.Errorf("%d tests are named, want 1:\n%s", n, text)
	}
	testrun(t, true, "go", "three", "-run", "TestC", "./...")
	testrun(t, true, "summary", "./...")
}

func TestLinesOfCommandsAreShown(t *testing.T) {
	t.Chdir(t.TempDir())
	wantIn(t, testrun(t, false, "exec", "web", "sh", "-c", "echo one; echo two >&2; exit 1"), "web       one\n", "web       two\n")
	wantIn(t, testrun(t, false, "summary"), "FAIL web")
}

func TestRunningTestsAreNamed(t *testing.T) {
	var out bytes.Buffer
	p := newProgress("some", true, &out)
	began := clock.Now()
	for _, line := range []string{
		`{"Time":"` + began.Format(time.RFC3339Nano) + `","Action":"run","Package":"m","Test":"TestA"}`,
		`{"Action":"run","Package":"m","Test":"TestA/sub"}`,
		`{"Action":"pass","Package":"m","Test":"TestB"}`,
	} {
		p.line([]byte(line))
	}
	p.tick(began.Add(quietFor / 2))
	if out.Len() > 0 {
		t.Errorf("too early: %s", out.Bytes())
	}
	p.tick(began.Add(2 * quietFor))
	if got, want := out.String(), "some      ...  m TestA (60 s)\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestNothingToSumUp(t *testing.T) {
	t.Chdir(t.TempDir())
	if _, err := run(context.Background(), []string{"summary"}, &bytes.Buffer{}); err == nil {
		t.Error("no error without records")
	}
	for _, args := range [][]string{nil, {"go"}, {"exec", "x"}, {"other", "x", "y"}} {
		if _, err := run(context.Background(), args, &bytes.Buffer{}); err == nil {
			t.Errorf("%v: no error", args)
		}
	}
}

func TestDirectoryComesFirst(t *testing.T) {
	write(t, "import \"testing\"\n\nfunc TestA(*testing.T) {}\n")
	inner := filepath.Base(t.TempDir())
	if err := os.Mkdir(inner, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"go.mod", "m_test.go"} {
		if err := os.Rename(name, filepath.Join(inner, name)); err != nil {
			t.Fatal(err)
		}
	}
	testrun(t, true, "go", "some", "-C", inner, "./...")
}
