package receiver_test

import (
	"bufio"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/duehook/duehook/receiver"
)

// The document invites readers to try their code on its example.
func TestDocumentedDeliveryVerifies(t *testing.T) {
	text, err := os.ReadFile("../docs/receivers.md")
	if err != nil {
		t.Fatal(err)
	}
	example := regexp.MustCompile("(?s)```http\n(.*?)\n```").FindSubmatch(text)
	secret := regexp.MustCompile("signed with `(whsec_[^`]+)`").FindSubmatch(text)
	if example == nil || secret == nil {
		t.Fatal("the document has no example, or does not tell its secret")
	}
	req, err := http.ReadRequest(bufio.NewReader(strings.NewReader(string(example[1]))))
	if err != nil {
		t.Fatal(err)
	}
	r := newReceiver(t, func(o *receiver.Options) { o.Secrets = []string{string(secret[1])} })
	d, err := r.Verify(req)
	if err != nil {
		t.Fatal(err)
	}
	if !d.SentAt.Equal(d.DueAt) || !d.SentAt.Equal(start.Truncate(time.Second)) || d.JobID != "order-8812" || d.Attempt != 1 {
		t.Errorf("%+v", d)
	}
}
