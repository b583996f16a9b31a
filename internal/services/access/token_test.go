package access

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// The form is a promise to secret scanners.
var documentedForm = regexp.MustCompile(`^dh_[a-z2-7]{8}_[a-z2-7]{39}$`)

func TestTokensHaveTheDocumentedForm(t *testing.T) {
	seen := map[string]bool{}
	for range 1000 {
		token := newToken()
		text := token.Reveal()
		if !documentedForm.MatchString(text) {
			t.Fatalf("%q has another form", text)
		}
		parsed, err := parseToken(text)
		if err != nil || parsed != token || parsed.id() != text[3:11] {
			t.Fatalf("parseToken(%q) = %v (id %q), %v", text, parsed, parsed.id(), err)
		}
		if token.digest() != sha256.Sum256([]byte(text)) {
			t.Fatal("the digest is not the SHA-256 of the token's text, as documented")
		}
		if seen[parsed.id()] || seen[secretOf(text)] {
			t.Fatal("two tokens share an id or a secret")
		}
		seen[parsed.id()], seen[secretOf(text)] = true, true
	}
}

// 160 bits of the secret and 40 of the id have to vary, each.
func TestEveryLetterOfATokenIsRandom(t *testing.T) {
	const drawn = 2000
	letters := make([]map[byte]bool, tokenLength)
	for range drawn {
		text := newToken().Reveal()
		for i := range letters {
			if letters[i] == nil {
				letters[i] = map[byte]bool{}
			}
			letters[i][text[i]] = true
		}
	}
	for i := range letters {
		fixed := i < len(tokenPrefix) || i == len(tokenPrefix)+idLength
		last := i == tokenLength-1 // holds 2 bits of the checksum
		switch {
		case fixed && len(letters[i]) != 1, last && len(letters[i]) != 4, !fixed && !last && len(letters[i]) != 32:
			t.Errorf("letter %d takes %d values", i, len(letters[i]))
		}
	}
}

func TestParseTokenTellsWhatIsWrong(t *testing.T) {
	good := newToken().Reveal()
	for _, c := range []struct{ name, token, want string }{
		{"empty", "", "does not begin with dh_"},
		{"another service's", "ghp_0123456789abcdefghij", "does not begin with dh_"},
		{"cut off", good[:40], "has 40 characters instead of 51"},
		{"one too many", good + "a", "has 52 characters"},
		{"upper case", strings.ToUpper(good), "does not begin with dh_"},
		{"secret in upper case", good[:12] + strings.ToUpper(good[12:]), "wrong checksum"},
		{"no separator", good[:11] + "a" + good[12:], "wrong checksum"},
		{"separator in the secret", good[:20] + "_" + good[21:], "wrong checksum"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := parseToken(c.token)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got %v, want %q", err, c.want)
			}
			if len(c.token) > 20 && strings.Contains(err.Error(), c.token[12:20]) {
				t.Errorf("the error shows the secret: %v", err)
			}
		})
	}
}

func TestChecksumFindsAnyWrongLetter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := []byte(newToken().Reveal())
		at := rapid.IntRange(0, len(text)-1).Draw(t, "at")
		b := rapid.Byte().Draw(t, "letter")
		if text[at] == b {
			return
		}
		text[at] = b
		if _, err := parseToken(string(text)); err == nil {
			t.Fatalf("a token with letter %d changed to %q was accepted", at, b)
		}
	})
}

func TestTokensDoNotShowThemselves(t *testing.T) {
	token := newToken()
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("made", "token", token)
	asJSON, err := json.Marshal(struct{ T Token }{token})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		fmt.Sprint(token), fmt.Sprintf("%v %+v %#v %s", token, token, token, token),
		fmt.Sprintf("%v", struct{ T Token }{token}), log.String(), string(asJSON),
	} {
		if strings.Contains(text, secretOf(token.Reveal())[:8]) {
			t.Errorf("the secret is in %q", text)
		}
	}
	if want := "dh_" + token.id() + "_***"; token.String() != want {
		t.Errorf("String() = %q, want %q", token.String(), want)
	}
}

func FuzzParseToken(f *testing.F) {
	f.Add(newToken().Reveal())
	f.Add("dh_aaaaaaaa_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa")
	f.Add("dh_")
	f.Fuzz(func(t *testing.T, s string) {
		token, err := parseToken(s)
		if err == nil && (token.Reveal() != s || !documentedForm.MatchString(s)) {
			t.Errorf("%q was accepted", s)
		}
	})
}
