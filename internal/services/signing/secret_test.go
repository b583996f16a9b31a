package signing_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/duehook/duehook/internal/services/signing"
)

func secretOf(raw []byte) string { return "whsec_" + base64.StdEncoding.EncodeToString(raw) }

func TestParseSecretRefuses(t *testing.T) {
	good := secretOf(bytes.Repeat([]byte{7}, 32))
	for _, tt := range []struct{ name, text, why string }{
		{"empty", "", "must begin with whsec_"},
		{"no prefix", good[6:], "must begin with whsec_"},
		{"other prefix", "whsk_" + good[6:], "must begin with whsec_"},
		{"prefix in capitals", "WHSEC_" + good[6:], "must begin with whsec_"},
		{"nothing else", "whsec_", "24 to 64 bytes, not 0"},
		{"too short", secretOf(make([]byte, 23)), "24 to 64 bytes, not 23"},
		{"too long", secretOf(make([]byte, 65)), "24 to 64 bytes, not 65"},
		{"not base64", "whsec_" + strings.Repeat("!", 44), "standard base64"},
		{"URL base64", "whsec_" + base64.URLEncoding.EncodeToString(bytes.Repeat([]byte{255}, 32)), "standard base64"},
		{"no padding", strings.TrimRight(good, "="), "standard base64 with padding"},
		{"line break inside", good[:20] + "\n" + good[20:], "standard base64"},
		{"line break at the end", good + "\n", "standard base64"},
		{"stray bits", good[:len(good)-2] + "d=", "standard base64"},
		{"space before", " " + good, "must begin with whsec_"},
	} {
		_, err := signing.ParseSecret(tt.text)
		if err == nil || !strings.Contains(err.Error(), tt.why) {
			t.Errorf("%s: %v; want %q", tt.name, err, tt.why)
		}
	}
}

func TestParseSecretTakesAllLengths(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		raw := rapid.SliceOfN(rapid.Byte(), signing.MinSecretBytes, signing.MaxSecretBytes).Draw(t, "raw")
		text := secretOf(raw)
		s, err := signing.ParseSecret(text)
		if err != nil || s.Reveal() != text {
			t.Fatalf("%d bytes: %v", len(raw), err)
		}
	})
}

func FuzzParseSecret(f *testing.F) {
	for _, seed := range []string{
		"", "whsec_", secretOf(make([]byte, 24)), secretOf(make([]byte, 64)), secretOf(make([]byte, 23)),
		"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaS\n", "whsec_====",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := signing.ParseSecret(text)
		if err == nil && s.Reveal() != text {
			t.Errorf("%q became %q", text, s.Reveal())
		}
		if rest := strings.TrimPrefix(text, "whsec_"); err != nil && len(rest) > 12 && strings.Contains(err.Error(), rest) {
			t.Errorf("the error quotes the secret: %v", err)
		}
	})
}

func TestNewSecretsDiffer(t *testing.T) {
	a, b := signing.NewSecret(), signing.NewSecret()
	if a == b || a.ID() == b.ID() {
		t.Errorf("%v and %v", a, b)
	}
	again, err := signing.ParseSecret(a.Reveal())
	if err != nil || again != a || again.ID() != a.ID() {
		t.Errorf("%v became %v: %v", a, again, err)
	}
	if n := len(a.Reveal()); n != len("whsec_")+44 {
		t.Errorf("a new secret has %d characters; want 32 bytes in base64", n)
	}
}

func TestParseSecrets(t *testing.T) {
	texts := make([]string, signing.MaxSecrets+1)
	for i := range texts {
		texts[i] = signing.NewSecret().Reveal()
	}
	got, err := signing.ParseSecrets(texts[0] + ", " + texts[1])
	if err != nil || len(got) != 2 || got[0].Reveal() != texts[0] || got[1].Reveal() != texts[1] {
		t.Errorf("%v, %v", got, err)
	}
	for list, why := range map[string]string{
		"":                                "signing secret 1 must begin",
		texts[0] + ",":                    "signing secret 2 must begin",
		texts[0] + " " + texts[1]:         "signing secret 1 must be",
		texts[0] + "," + texts[0]:         "signing secret 2 is given twice",
		strings.Join(texts, ","):          "at most 5",
		texts[0] + ",whsec_c2hvcnQ=,oops": "signing secret 2 must have",
	} {
		if _, err := signing.ParseSecrets(list); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%v; want %q", err, why)
		}
	}
}

// What is logged by mistake must not be a secret.
func TestSecretsHideThemselves(t *testing.T) {
	s := signing.NewSecret()
	raw, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(s.Reveal(), "whsec_"))
	if err != nil {
		t.Fatal(err)
	}
	for _, shown := range []any{s, &s, []signing.Secret{s}} {
		var out bytes.Buffer
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			fmt.Fprintf(&out, verb+"\n", shown)
		}
		slog.New(slog.NewTextHandler(&out, nil)).Info("m", "x", shown)
		slog.New(slog.NewJSONHandler(&out, nil)).Info("m", "x", shown)
		for _, hidden := range []string{s.Reveal()[6:], string(raw), fmt.Sprintf("%x", raw), fmt.Sprintf("%d", raw)} {
			if strings.Contains(out.String(), hidden) {
				t.Errorf("shown:\n%s", out.String())
			}
		}
	}
	if got := fmt.Sprint(s); got != "secret "+s.ID() {
		t.Errorf("got %q", got)
	}
}
