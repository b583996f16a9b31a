package e2e

import (
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/duehook/duehook/e2e/receiver"
	"github.com/duehook/duehook/internal/testing/testenv"
)

// TestReadme: the first job of the README works as the README says.
func TestReadme(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	match := regexp.MustCompile(`(?s)curl -i http://127\.0\.0\.1:7788(\S+) -H 'Content-Type: application/json' -d '(.*?)'`).FindSubmatch(readme)
	if match == nil {
		t.Fatal("the README has no such call")
	}
	r := receiver.Start(t, receiver.Accept)
	n := startEmbedded(t, shipped)
	body := strings.Replace(string(match[2]), "http://127.0.0.1:8080/hook", r.URL(), 1)
	if body == string(match[2]) {
		t.Fatalf("the README's job does not go to the example's receiver: %s", body)
	}
	// As written: an encoder would change white space, which reaches the receiver.
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, n.base()+string(match[1]), strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil || resp.StatusCode != http.StatusCreated {
		t.Fatalf("registered: %d, %v", resp.StatusCode, err)
	}
	testenv.Eventually(t, testenv.Patience, func() bool { return r.Jobs() == 1 }, "the README's job arrives")
	d := r.Deliveries()[0]
	want := regexp.MustCompile(`(?m)^(\S+)/(\S+), attempt (1), due at \S+, webhook-id \S+: (.*)$`).FindStringSubmatch(string(readme))
	if want == nil || d.Topic != want[1] || d.ID != want[2] || d.Attempt != 1 || d.Body != want[4] {
		t.Errorf("arrived %+v; the README says %q", d, want)
	}
	testenv.Eventually(t, testenv.Patience, func() bool { return getJob(t, n.base(), d.Topic, d.ID).State == "delivered" }, "the API says so")
}
