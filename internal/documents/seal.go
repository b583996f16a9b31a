package documents

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"

	"github.com/duehook/duehook/store"
)

// Errors of sealing and opening documents.
var (
	// ErrMasterKey: they were encrypted with a master key that is not among those given.
	ErrMasterKey = errors.New("sealed with another master key")
	// ErrNoMasterKey: there is no key to encrypt with.
	ErrNoMasterKey = errors.New("no master key to encrypt secrets")
	// ErrDamaged: the content, the kind or the name of the document has changed.
	ErrDamaged = errors.New("stored secrets are damaged")
)

// Bounds of a master key's length in bytes.
const (
	MinMasterKeyBytes = 32
	MaxMasterKeyBytes = 1024
)

// MasterKey encrypts documents. Formatting or logging one shows its id, never the key.
type MasterKey struct {
	id     string
	aead   cipher.AEAD
	derive func(purpose string, size int) []byte
}

// GenerateMasterKey returns a random master key in text form.
func GenerateMasterKey() string {
	raw := make([]byte, MinMasterKeyBytes)
	_, _ = rand.Read(raw) // never fails: the program ends instead
	return base64.StdEncoding.EncodeToString(raw)
}

// ParseMasterKey reads a master key: at least 32 random bytes in standard base64 with
// padding, such as from `openssl rand -base64 32`. Do not use passwords: nothing slows
// down guessing. The error does not contain the text.
func ParseMasterKey(text string) (MasterKey, error) {
	text = strings.TrimSpace(text) // files end with a line break
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil || base64.StdEncoding.EncodeToString(raw) != text {
		return MasterKey{}, errors.New("a master key must be standard base64 with padding")
	}
	if len(raw) < MinMasterKeyBytes || len(raw) > MaxMasterKeyBytes {
		return MasterKey{}, fmt.Errorf("a master key must have %d to %d bytes, not %d", MinMasterKeyBytes, MaxMasterKeyBytes, len(raw))
	}
	derive := func(purpose string, size int) []byte {
		key, _ := hkdf.Key(sha256.New, raw, nil, purpose, size) // it fails for sizes beyond 8 KiB
		return key
	}
	block, err := aes.NewCipher(derive("duehook sealed documents", 32))
	if err != nil {
		return MasterKey{}, err
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	return MasterKey{id: hex.EncodeToString(derive("duehook master key id", 8)), aead: aead, derive: derive}, err
}

// ID returns a name that does not reveal the key.
func (m MasterKey) ID() string { return m.id }

// Derive returns bytes that follow from the key. Those of one purpose reveal neither those of another
// one nor the key.
func (m MasterKey) Derive(purpose string, size int) []byte { return m.derive(purpose, size) }

// Format writes the key's id, whatever the verb.
func (m MasterKey) Format(f fmt.State, _ rune) {
	_, _ = io.WriteString(f, "master key "+m.id) // fmt has no use for the error
}

// Seal encrypts the documents of some collections, so that the store never sees their contents. Its first
// master key encrypts, and each of them decrypts. To change the key, add the new one behind the old on all
// nodes, then move it to the front, call Reseal, and remove the old one. Without keys, nothing can be
// sealed or opened.
type Seal struct {
	keys   atomic.Pointer[[]MasterKey]
	sealed []*core // the collections, since New
}

// NewSeal returns a Seal.
func NewSeal(keys ...MasterKey) *Seal {
	s := &Seal{}
	s.keys.Store(&keys)
	return s
}

// Use sets the only key of a Seal that had none.
func (s *Seal) Use(key MasterKey) { s.keys.Store(&[]MasterKey{key}) }

// First returns the key that encrypts, if there is one.
func (s *Seal) First() (key MasterKey, ok bool) {
	if keys := *s.keys.Load(); len(keys) > 0 {
		return keys[0], true
	}
	return key, false
}

// Used reports whether the store has sealed documents, which need the key that sealed them.
func (s *Seal) Used(ctx context.Context) (bool, error) {
	for _, c := range s.sealed {
		if docs, err := c.page(ctx, "", 1); err != nil || len(docs) > 0 {
			return true, err
		}
	}
	return false, nil
}

// Reseal encrypts all documents with the first master key, and returns how many it changed. Documents that
// cannot be opened stay as they are and cause an error; the others are still changed.
func (s *Seal) Reseal(ctx context.Context) (changed int, err error) {
	var failed []error
	for _, c := range s.sealed {
		docs, err := c.List(ctx)
		failed = append(failed, err)
		for _, d := range docs {
			done, err := c.rewrite(ctx, d.Name, s.sealedBefore)
			if failed = append(failed, err); done {
				changed++
			}
		}
	}
	return changed, errors.Join(failed...)
}

// sealedForm is the version of the content.
const sealedForm = 1

// box is the content of a sealed document.
type box struct {
	Form int    `json:"form"`
	Key  string `json:"key"` // the master key's id
	Box  []byte `json:"box"` // nonce, ciphertext and tag
}

// seal encrypts the content of a document. It cannot be opened as that of another document.
func (s *Seal) seal(kind, name string, plain []byte) ([]byte, error) {
	key, ok := s.First()
	if !ok {
		return nil, ErrNoMasterKey
	}
	// The cipher generates the nonce.
	return json.Marshal(box{sealedForm, key.id, key.aead.Seal(nil, nil, plain, tie(kind, name))}) //nolint:gosec // no nonce is given
}

// open decrypts the content of a document. The error wraps ErrMasterKey or ErrDamaged.
func (s *Seal) open(kind, name string, data []byte) ([]byte, error) {
	b, err := parseBox(data)
	if err != nil {
		return nil, err
	}
	for _, key := range *s.keys.Load() {
		if key.id != b.Key {
			continue
		}
		plain, err := key.aead.Open(nil, nil, b.Box, tie(kind, name))
		if err != nil {
			return nil, fmt.Errorf("%w: changed, or written for another document", ErrDamaged)
		}
		return plain, nil
	}
	return nil, fmt.Errorf("%w: %q is not among the given ones", ErrMasterKey, b.Key)
}

// sealedBefore reports whether a document is sealed with another key than the first one.
func (s *Seal) sealedBefore(data []byte) bool {
	key, _ := s.First()
	b, err := parseBox(data)
	return err != nil || b.Key != key.id
}

func parseBox(data []byte) (b box, err error) {
	switch {
	case json.Unmarshal(data, &b) != nil:
		err = fmt.Errorf("%w: not in a known form", ErrDamaged)
	case b.Form != sealedForm:
		err = fmt.Errorf("%w: form %d is not known", ErrDamaged, b.Form)
	}
	return b, err
}

// tie returns the additional data that ties a box to its document.
func tie(kind, name string) []byte { return []byte("duehook/" + kind + "/" + name) }

// rewrite writes a document as it is, with its stamp, if stale says so of the stored content. So it is
// sealed anew. Errors: Document.Err, and store.ErrConflict after many tries. A missing document is none.
func (c *core) rewrite(ctx context.Context, name string, stale func(data []byte) bool) (rewritten bool, err error) {
	d := c.empty()
	err = again(func() error {
		rewritten = false
		err := c.get(ctx, name, d)
		if errors.Is(err, store.ErrNotFound) || err == nil && !stale(d.head().Data) {
			return nil
		}
		if err == nil {
			err = c.put(ctx, d)
		}
		rewritten = err == nil
		return err
	})
	return rewritten, err
}
