package testenv

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// sampleLimit bounds what it takes to install, build and start a sample.
const sampleLimit = 2 * time.Minute

// samples says for each language how to get ready, in a copy of the sample's
// directory, and how to start. The languages are those of docs/receivers.md.
var samples = map[string]struct {
	prepare func(t testing.TB, root, dir string)
	command []string
}{
	"go":     {prepareGo, []string{"./receiver"}},
	"node":   {prepareNode, []string{"node", "receiver.mjs"}},
	"java":   {nil, []string{"java", "Receiver.java"}},
	"php":    {nil, []string{"php", "-S", "127.0.0.1:0", "receiver.php"}},
	"python": {nil, []string{"python3", "receiver.py"}},
}

// Sample is one of the example receivers of testdata/receivers, ready to run.
type Sample struct {
	t       testing.TB
	dir     string
	command []string
}

// PrepareSample installs and builds the example receiver in a language.
func PrepareSample(t testing.TB, language string) *Sample {
	t.Helper()
	sample, ok := samples[language]
	if !ok {
		t.Fatalf("there is no receiver in %q", language)
	}
	root, dir := moduleRoot(t), t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(root, "testdata/receivers", language))); err != nil {
		t.Fatal(err)
	}
	if sample.prepare != nil {
		sample.prepare(t, root, dir)
	}
	return &Sample{t, dir, sample.command}
}

// moduleRoot is the directory of go.mod.
func moduleRoot(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			t.Fatal("there is no go.mod here or above")
		}
		dir = filepath.Dir(dir)
	}
}

// prepareGo builds in the module, which the copy is not part of.
func prepareGo(t testing.TB, root, dir string) {
	runTool(t, root, "go", "build", "-o", filepath.Join(dir, "receiver"), "./testdata/receivers/go/main.go")
}

func prepareNode(t testing.TB, _, dir string) {
	for _, tool := range []string{"node", "npm"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Fatalf("%v: this test runs the real npm library; internal/testing/deps installs nodejs and npm", err)
		}
	}
	runTool(t, dir, "npm", "ci", "--ignore-scripts", "--prefer-offline", "--no-audit", "--no-fund")
}

func runTool(t testing.TB, dir, name string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), sampleLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0") // shares the packages that other binaries are built of
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}

// Start runs the receiver with these secrets until the test ends, and returns
// its URL.
func (s *Sample) Start(secrets ...string) string {
	s.t.Helper()
	cmd := exec.CommandContext(s.t.Context(), s.command[0], s.command[1:]...)
	cmd.Dir = s.dir
	cmd.Env = append(os.Environ(), "PORT=0", "WEBHOOK_SECRETS="+strings.Join(secrets, ","))
	cmd.SysProcAttr = procAttr()
	out, in, err := os.Pipe()
	if err != nil {
		s.t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = in, in
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	_ = in.Close()
	address, ended := make(chan string, 1), make(chan struct{})
	go func() {
		defer close(ended)
		readAddress(s.t, out, address)
	}()
	s.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
		<-ended
		_ = out.Close()
	})
	ctx, cancel := context.WithTimeout(s.t.Context(), sampleLimit)
	defer cancel()
	select {
	case a := <-address:
		return "http://" + a + "/hooks/timeout"
	case <-ended:
		s.t.Fatalf("%s ended before it listened", strings.Join(s.command, " "))
	case <-ctx.Done():
		s.t.Fatalf("%s did not listen within %v", strings.Join(s.command, " "), sampleLimit)
	}
	return ""
}

var listening = regexp.MustCompile(`127\.0\.0\.1:[1-9][0-9]*`)

// readAddress sends the first address in a receiver's output, and logs the rest.
func readAddress(t testing.TB, out io.Reader, address chan<- string) {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20) // receivers print bodies
	for lines.Scan() {
		if a := listening.FindString(lines.Text()); a != "" && address != nil {
			address <- a
			address = nil
			continue
		}
		t.Logf("%.200s", lines.Text())
	}
}
