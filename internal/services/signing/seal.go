package signing

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Errors of storing and opening secrets.
var (
	// ErrMasterKey: they were encrypted with a master key that is not among those given.
	ErrMasterKey = errors.New("sealed with another master key")
	// ErrNoMasterKey: there is no key to encrypt with.
	ErrNoMasterKey = errors.New("no master key to encrypt signing secrets")
	// ErrDamaged: the content or the place of the document has changed.
	ErrDamaged = errors.New("stored signing secrets are damaged")
)

// Bounds of a master key's length in bytes.
const (
	MinMasterKeyBytes = 32
	MaxMasterKeyBytes = 1024
)

// MasterKey encrypts stored secrets. Formatting or logging one shows its id, never the
// key.
type MasterKey struct {
	id     string
	aead   cipher.AEAD
	secret Secret // the default of a store that has none
}

// GenerateMasterKey returns a random master key in text form.
func GenerateMasterKey() string {
	return base64.StdEncoding.EncodeToString(randomBytes(MinMasterKeyBytes))
}

// ParseMasterKey reads a master key: at least 32 random bytes in standard base64 with
// padding, such as from `openssl rand -base64 32`. Do not use passwords: nothing slows
// down guessing. The error does not contain the text.
func ParseMasterKey(text string) (MasterKey, error) {
	raw, err := decodeBase64(strings.TrimSpace(text)) // files end with a line break
	if err != nil {
		return MasterKey{}, fmt.Errorf("a master key must be %w", err)
	}
	if len(raw) < MinMasterKeyBytes || len(raw) > MaxMasterKeyBytes {
		return MasterKey{}, fmt.Errorf("a master key must have %d to %d bytes, not %d",
			MinMasterKeyBytes, MaxMasterKeyBytes, len(raw))
	}
	// Separate derivations: none of them reveals another one.
	id, err := hkdf.Key(sha256.New, raw, nil, "duehook master key id", 8)
	if err != nil {
		return MasterKey{}, err
	}
	key, err := hkdf.Key(sha256.New, raw, nil, "duehook signing secrets", 32)
	if err != nil {
		return MasterKey{}, err
	}
	secret, err := hkdf.Key(sha256.New, raw, nil, "duehook default signing secret", newSecretBytes)
	if err != nil {
		return MasterKey{}, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return MasterKey{}, err
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return MasterKey{}, err
	}
	return MasterKey{id: hex.EncodeToString(id), aead: aead, secret: Secret{key: string(secret)}}, nil
}

// ID returns a name that does not reveal the key.
func (m MasterKey) ID() string { return m.id }

// Format writes the key's id, whatever the verb.
func (m MasterKey) Format(f fmt.State, _ rune) {
	_, _ = io.WriteString(f, "master key "+m.id) // fmt has no use for the error
}

// sealer encrypts with the first key and decrypts with any.
type sealer []MasterKey

// sealedForm is the version of the content.
const sealedForm = 1

// sealed is a document's content.
type sealed struct {
	Form int    `json:"form"`
	Key  string `json:"key"` // the master key's id
	Box  []byte `json:"box"` // nonce, ciphertext and tag
}

// seal encrypts the content of a document. It cannot be opened as that of another
// document.
func (s sealer) seal(name string, plain []byte) ([]byte, error) {
	if len(s) == 0 {
		return nil, ErrNoMasterKey
	}
	key := s[0]
	return json.Marshal(sealed{
		Form: sealedForm, Key: key.id,
		// The cipher generates the nonce.
		Box: key.aead.Seal(nil, nil, plain, place(name)), //nolint:gosec // no nonce is given
	})
}

// open decrypts the content of a document. The error wraps ErrMasterKey or ErrDamaged.
func (s sealer) open(name string, data []byte) ([]byte, error) {
	box, err := parseSealed(data)
	if err != nil {
		return nil, err
	}
	for _, key := range s {
		if key.id != box.Key {
			continue
		}
		plain, err := key.aead.Open(nil, nil, box.Box, place(name))
		if err != nil {
			return nil, fmt.Errorf("%w: changed, or written for another topic", ErrDamaged)
		}
		return plain, nil
	}
	return nil, fmt.Errorf("%w: %q is not among the given ones", ErrMasterKey, box.Key)
}

// upToDate reports whether data was encrypted with the first key.
func (s sealer) upToDate(data []byte) bool {
	box, err := parseSealed(data)
	return err == nil && box.Key == s[0].id
}

func parseSealed(data []byte) (sealed, error) {
	var box sealed
	if err := json.Unmarshal(data, &box); err != nil {
		return sealed{}, fmt.Errorf("%w: not in a known form", ErrDamaged)
	}
	if box.Form != sealedForm {
		return sealed{}, fmt.Errorf("%w: form %d is not known", ErrDamaged, box.Form)
	}
	return box, nil
}

// place returns the additional data that ties a box to its document.
func place(name string) []byte { return []byte("duehook/" + documentKind + "/" + name) }
