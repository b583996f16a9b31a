package signing_test

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/services/signing"
	"github.com/duehook/duehook/internal/testing/testenv"
)

// alsoReceivers adds receivers whose languages the tests do not ask for.
var alsoReceivers = flag.String("receivers", "", "run these receivers as well: java,php,python")

const receiversDir = "../../../testdata/receivers"

// documented is the file of each receiver that docs/receivers.md shows.
var documented = map[string]string{
	"go": "main.go", "node": "receiver.mjs", "java": "Receiver.java", "php": "receiver.php", "python": "receiver.py",
}

// textOnly are receivers whose library turns the body into text, so that one
// which is no UTF-8 does not verify.
var textOnly = map[string]bool{"node": true}

// deliverer signs with secrets and sends.
type deliverer struct {
	*signing.Secrets
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
			sample := testenv.PrepareSample(t, language)
			old, fresh := signing.NewSecret().Reveal(), signing.NewSecret().Reveal()
			key := masterKey(t)
			d := &deliverer{t: t, clock: job.SystemClock(), Secrets: begun(t, open(t, signing.Options{Documents: testenv.NewDocuments(t)}, key), key).Secrets}
			set := func(secret string, overlap time.Duration) {
				t.Helper()
				if _, err := d.Replace(t.Context(), "", secret, overlap); err != nil {
					t.Fatal(err)
				}
			}
			// By the secrets that they know.
			before := sample.Start(old)
			between := sample.Start(fresh, old)
			after := sample.Start(fresh)

			set(old, 0)
			d.want(true, "the old secret, known", before)
			d.want(true, "the old secret, known beside the new", between)
			d.want(false, "the old secret, unknown", after)
			d.refusesTampering(before)
			d.takesAnyBody(before, textOnly[language])

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
	doc, err := os.ReadFile("../../../docs/receivers.md")
	if err != nil {
		t.Fatal(err)
	}
	for language, file := range documented {
		code, err := os.ReadFile(filepath.Join(receiversDir, language, file))
		if err != nil {
			t.Fatal(err)
		}
		fence := map[string]string{"node": "js"}[language]
		if fence == "" {
			fence = language
		}
		if !bytes.Contains(doc, fmt.Appendf(nil, "```%s\n%s```\n", fence, code)) {
			t.Errorf("docs/receivers.md does not show %s/%s as it is", language, file)
		}
	}
}
