package signing

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/testing/must"
)

// decodeRing reads a stored list of secrets.
func decodeRing(plain []byte) (r ring, err error) {
	if err = json.Unmarshal(plain, &r); err == nil {
		err = r.check()
	}
	return r, err
}

func TestDecodeRingRefuses(t *testing.T) {
	secret := NewSecret().Reveal()
	one := fmt.Sprintf(`{"secret":%q,"created":1}`, secret)
	ending := fmt.Sprintf(`{"secret":%q,"created":1,"ends":2}`, secret)
	for text, why := range map[string]string{
		"":                          "unexpected end",
		"{}":                        "cannot unmarshal",
		`[{"secret":1}]`:            "cannot unmarshal",
		"null":                      "no secret",
		"[]":                        "no secret",
		`[{"secret":"whsec_"}]`:     "must have 24 to 64 bytes",
		"[" + ending + "]":          "only the first secret has no end",
		"[" + one + "," + one + "]": "only the first secret has no end",
	} {
		if _, err := decodeRing([]byte(text)); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v; want %q", text, err, why)
		}
	}
	if r, err := decodeRing([]byte("[" + one + "," + ending + "]")); err != nil || len(r) != 2 {
		t.Errorf("%d secrets, %v", len(r), err)
	}
}

func FuzzDecodeRing(f *testing.F) {
	var r ring
	for range 3 {
		plain, err := json.Marshal(r)
		must.OK(f, err)
		f.Add(plain)
		r, err = r.replaced(NewSecret(), 1_790_000_000_000, time.Hour)
		must.OK(f, err)
	}
	f.Add([]byte(`[{"secret":"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw","created":-1}]`))
	f.Fuzz(func(t *testing.T, plain []byte) {
		r, err := decodeRing(plain)
		if err != nil {
			return
		}
		// The current secret always signs.
		if signatures, err := r.sign("id", job.Instant(1<<62).Time(), nil); err != nil || signatures == "" {
			t.Errorf("%q signs %q, %v", plain, signatures, err)
		}
		text, err := json.Marshal(r)
		must.OK(t, err)
		if again, err := decodeRing(text); err != nil || !again.same(r) {
			t.Errorf("%q became %q: %v", plain, text, err)
		}
	})
}
