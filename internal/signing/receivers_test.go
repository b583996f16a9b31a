package signing_test

import (
	"bufio"
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/duehook/duehook/internal/signing"
	"github.com/duehook/duehook/job"
)

// alsoReceivers adds receivers whose languages the tests do not ask for.
var alsoReceivers = flag.String("receivers", "", "run these receivers as well: java,php,python")

const (
	receiversDir = "../../testdata/receivers"
	startLimit   = 2 * time.Minute // building and installing included
)

// sample is a receiver as docs/receivers.md shows it.
type sample struct {
	file string
	// prepare, in a copy of the sample's directory, gives the command to run.
	prepare func(t *testing.T, dir string) []string
	// textOnly: the library turns the body into text, so that one which is no
	// UTF-8 does not verify.
	textOnly bool
}

var samples = map[string]sample{
	"go":     {file: "main.go", prepare: prepareGo},
	"node":   {file: "receiver.mjs", prepare: prepareNode, textOnly: true},
	"java":   {file: "Receiver.java", prepare: command("java", "Receiver.java")},
	"php":    {file: "receiver.php", prepare: command("php", "-S", "127.0.0.1:0", "receiver.php")},
	"python": {file: "receiver.py", prepare: command("python3", "receiver.py")},
}

func command(args ...string) func(*testing.T, string) []string {
	return func(*testing.T, string) []string { return args }
}

// prepareGo builds in the module, which the copy is not part of.
func prepareGo(t *testing.T, dir string) []string {
	run(t, ".", "go", "build", "-o", filepath.Join(dir, "receiver"), receiversDir+"/go/main.go")
	return []string{"./receiver"}
}

func prepareNode(t *testing.T, dir string) []string {
	for _, tool := range []string{"node", "npm"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Fatalf("%v: this test runs the real npm library; `make deps` installs nodejs and npm", err)
		}
	}
	run(t, dir, "npm", "ci", "--ignore-scripts", "--prefer-offline", "--no-audit", "--no-fund")
	return []string{"node", "receiver.mjs"}
}

func run(t *testing.T, dir, name string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}

// startReceiver runs a receiver that knows the secrets, until the test ends,
// and returns its URL.
func startReceiver(t *testing.T, dir string, args []string, secrets ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PORT=0", "WEBHOOK_SECRETS="+strings.Join(secrets, ","))
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = in, in
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = in.Close()
	address, ended := make(chan string, 1), make(chan struct{})
	go func() {
		defer close(ended)
		readAddress(t, out, address)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
		<-ended
		_ = out.Close()
	})
	ctx, cancel := context.WithTimeout(t.Context(), startLimit)
	defer cancel()
	select {
	case a := <-address:
		return "http://" + a + "/hooks/timeout"
	case <-ended:
		t.Fatalf("%s ended before it listened", strings.Join(args, " "))
	case <-ctx.Done():
		t.Fatalf("%s did not listen within %v", strings.Join(args, " "), startLimit)
	}
	return ""
}

var listening = regexp.MustCompile(`127\.0\.0\.1:[1-9][0-9]*`)

// readAddress sends the first address that a receiver tells, and logs all else.
func readAddress(t *testing.T, out io.Reader, address chan<- string) {
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

// deliverer signs with a keyring and sends.
type deliverer struct {
	*signing.Keyring
	t     *testing.T
	clock job.Clock
	sent  int
}

// tampering changes a delivery after it was signed.
type tampering func(*http.Request)

// deliver sends body, signed at now plus at, and reports whether it was taken.
func (d *deliverer) deliver(url, body string, at time.Duration, changes ...tampering) bool {
	d.t.Helper()
	d.sent++
	id, when := fmt.Sprintf("01KDWCJ2M%017d", d.sent), d.clock.Now().Add(at)
	signature, err := d.Sign(d.t.Context(), "order-timeout", id, when, []byte(body))
	if err != nil {
		d.t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(d.t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		d.t.Fatal(err)
	}
	for name, value := range map[string]string{
		"webhook-id": id, "webhook-timestamp": strconv.FormatInt(when.Unix(), 10), "webhook-signature": signature,
		"Duehook-Topic": "order-timeout", "Duehook-Job-Id": "order-8812", "Duehook-Attempt": "1",
	} {
		req.Header.Set(name, value)
	}
	for _, change := range changes {
		change(req)
	}
	client := http.Client{Timeout: time.Minute}
	resp, err := client.Do(req)
	if err != nil {
		d.t.Fatal(err)
	}
	_ = resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK:
		return true
	case http.StatusBadRequest, http.StatusUnauthorized:
		return false
	}
	d.t.Fatalf("answered %s", resp.Status)
	return false
}

// want fails unless the delivery is taken, or refused.
func (d *deliverer) want(taken bool, what, url string) {
	d.t.Helper()
	if got := d.deliver(url, body, 0); got != taken {
		d.t.Errorf("%s: taken %t, want %t", what, got, taken)
	}
}

// The receivers that the documents show, with the libraries that receivers
// use, take what we sign: also while secrets change, and nothing else.
func TestReceivers(t *testing.T) {
	languages := []string{"go", "node"}
	if *alsoReceivers != "" {
		languages = append(languages, strings.Split(*alsoReceivers, ",")...)
	}
	for _, language := range languages {
		t.Run(language, func(t *testing.T) {
			s, ok := samples[language]
			if !ok {
				t.Fatal("there is no such receiver")
			}
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS(filepath.Join(receiversDir, language))); err != nil {
				t.Fatal(err)
			}
			args := s.prepare(t, dir)
			old, fresh := signing.NewSecret().Reveal(), signing.NewSecret().Reveal()
			d := &deliverer{t: t, clock: job.SystemClock(), Keyring: open(t, signing.Options{
				Documents: newDocuments(), MasterKeys: []signing.MasterKey{masterKey(t)},
			})}
			set := func(secret string, overlap time.Duration) {
				t.Helper()
				if _, err := d.Set(t.Context(), "", secret, overlap); err != nil {
					t.Fatal(err)
				}
			}
			// By the secrets that they know.
			before := startReceiver(t, dir, args, old)
			between := startReceiver(t, dir, args, fresh, old)
			after := startReceiver(t, dir, args, fresh)

			set(old, 0)
			d.want(true, "the old secret, known", before)
			d.want(true, "the old secret, known beside the new", between)
			d.want(false, "the old secret, unknown", after)
			d.refusesTampering(before)
			d.takesAnyBody(before, s.textOnly)

			set(fresh, time.Hour)
			d.want(true, "both secrets, the old known", before)
			d.want(true, "both secrets, both known", between)
			d.want(true, "both secrets, the new known", after)
			d.refusesTampering(before)
			d.refusesTampering(after)

			set(fresh, 0)
			d.want(false, "the new secret, unknown", before)
			d.want(true, "the new secret, known beside the old", between)
			d.want(true, "the new secret, known", after)
		})
	}
}

func (d *deliverer) refusesTampering(url string) {
	d.t.Helper()
	header := func(name, value string) tampering {
		return func(req *http.Request) { req.Header.Set(name, value) }
	}
	for what, change := range map[string]tampering{
		"other body": func(req *http.Request) {
			req.Body = io.NopCloser(strings.NewReader(strings.Replace(body, "8812", "8813", 1)))
		},
		"other id":          header("webhook-id", "01KDWCJ2M99999999999999999"),
		"other time":        header("webhook-timestamp", strconv.FormatInt(d.clock.Now().Unix()+60, 10)),
		"no time":           header("webhook-timestamp", "soon"),
		"no signature":      func(req *http.Request) { req.Header.Del("webhook-signature") },
		"empty signature":   header("webhook-signature", "v1,"),
		"other signature":   header("webhook-signature", "v1,"+strings.Repeat("A", 43)+"="),
		"nothing is signed": func(req *http.Request) { req.Header = http.Header{} },
	} {
		if d.deliver(url, body, 0, change) {
			d.t.Errorf("%s: taken", what)
		}
	}
	for what, at := range map[string]time.Duration{"recorded": -10 * time.Minute, "for later": 10 * time.Minute} {
		if d.deliver(url, body, at) {
			d.t.Errorf("signed right, %s: taken", what)
		}
	}
}

func (d *deliverer) takesAnyBody(url string, textOnly bool) {
	d.t.Helper()
	for what, body := range map[string]string{
		"empty": "", "text": "order 8812 \n", "UTF-8": `{"name":"Zoë 🙂"}`, "NUL": "a\x00b", "large": strings.Repeat("x", 256<<10),
	} {
		if !d.deliver(url, body, 0) {
			d.t.Errorf("a body that is %s: refused", what)
		}
	}
	if got := d.deliver(url, "\xff\xfe", 0); got == textOnly {
		d.t.Errorf("a body that is no text: taken %t; docs/receivers.md says otherwise", got)
	}
}

// What the documents show is what the tests run.
func TestDocumentedReceivers(t *testing.T) {
	doc, err := os.ReadFile("../../docs/receivers.md")
	if err != nil {
		t.Fatal(err)
	}
	for language, s := range samples {
		code, err := os.ReadFile(filepath.Join(receiversDir, language, s.file))
		if err != nil {
			t.Fatal(err)
		}
		fence := map[string]string{"node": "js"}[language]
		if fence == "" {
			fence = language
		}
		if !bytes.Contains(doc, fmt.Appendf(nil, "```%s\n%s```\n", fence, code)) {
			t.Errorf("docs/receivers.md does not show %s/%s as it is", language, s.file)
		}
	}
}
