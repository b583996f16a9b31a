package signing

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Bounds of a secret's length in bytes, from the Standard Webhooks
// specification.
const (
	MinSecretBytes = 24
	MaxSecretBytes = 64

	newSecretBytes = 32
	secretPrefix   = "whsec_"
)

// Secret is a symmetric signing secret. Formatting or logging one shows its id,
// never the secret.
type Secret struct{ key string }

// NewSecret returns a random secret.
func NewSecret() Secret { return Secret{key: string(randomBytes(newSecretBytes))} }

// ParseSecret reads a secret in its text form: "whsec_" and 24 to 64 bytes in
// standard base64 with padding. The error does not contain the text.
func ParseSecret(text string) (Secret, error) {
	encoded, ok := strings.CutPrefix(text, secretPrefix)
	if !ok {
		return Secret{}, errors.New("must begin with " + secretPrefix)
	}
	key, err := decodeBase64(encoded)
	if err != nil {
		return Secret{}, fmt.Errorf("must be %s and %w", secretPrefix, err)
	}
	if len(key) < MinSecretBytes || len(key) > MaxSecretBytes {
		return Secret{}, fmt.Errorf("must have %d to %d bytes, not %d", MinSecretBytes, MaxSecretBytes, len(key))
	}
	return Secret{key: string(key)}, nil
}

// ParseSecrets reads the setting of the default secret: up to MaxSecrets, separated by
// commas, newest first. All of them sign deliveries.
func ParseSecrets(list string) ([]Secret, error) {
	var secrets []Secret
	for part := range strings.SplitSeq(list, ",") {
		s, err := ParseSecret(strings.TrimSpace(part))
		if err != nil {
			return nil, fmt.Errorf("signing secret %d %w", len(secrets)+1, err)
		}
		if slices.Contains(secrets, s) {
			return nil, fmt.Errorf("signing secret %d is given twice", len(secrets)+1)
		}
		secrets = append(secrets, s)
	}
	if len(secrets) > MaxSecrets {
		return nil, fmt.Errorf("at most %d signing secrets are possible, not %d", MaxSecrets, len(secrets))
	}
	return secrets, nil
}

// Reveal returns the text form of the secret.
func (s Secret) Reveal() string {
	return secretPrefix + base64.StdEncoding.EncodeToString([]byte(s.key))
}

// ID returns a name that does not reveal the secret. Equal secrets have equal ids.
func (s Secret) ID() string {
	sum := sha256.Sum256([]byte("duehook signing secret\x00" + s.key))
	return hex.EncodeToString(sum[:6])
}

// Format writes the secret's id, whatever the verb.
func (s Secret) Format(f fmt.State, _ rune) {
	_, _ = io.WriteString(f, "secret "+s.ID()) // fmt has no use for the error
}

// decodeBase64 reads standard base64 in the one form that all decoders read alike: padded,
// without line breaks or stray bits.
func decodeBase64(text string) ([]byte, error) {
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil || base64.StdEncoding.EncodeToString(raw) != text {
		return nil, errors.New("standard base64 with padding")
	}
	return raw, nil
}

func randomBytes(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails: the program ends instead
	return b
}
