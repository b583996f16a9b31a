package access

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"sync/atomic"

	"github.com/duehook/duehook/internal/documents"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

// cursors seals the cursors of lists for callers who are restricted to topics: a cursor names the
// entry where its page ended, which may be one of others. All nodes have one key, in a document.
type cursors struct {
	docs *documents.Collection[cursorKey]
	aead atomic.Pointer[cipher.AEAD]
}

type cursorKey struct {
	Key []byte `json:"key"`
}

// cursorBytes is the length of the key: AES-256.
const cursorBytes = 32

func newCursors(s store.Documents, clock job.Clock) *cursors {
	return &cursors{docs: documents.New(documents.Options[cursorKey]{Store: s, Kind: "cursor-key", Clock: clock})}
}

// sealer is the cipher of the nodes. The first use makes its key.
func (c *cursors) sealer(ctx context.Context) (cipher.AEAD, error) {
	if known := c.aead.Load(); known != nil {
		return *known, nil
	}
	d, err := c.docs.Ensure(ctx, "key", func() (cursorKey, error) {
		key := make([]byte, cursorBytes)
		_, _ = rand.Read(key) // it never fails
		return cursorKey{key}, nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the key of cursors: %w", err)
	}
	block, err := aes.NewCipher(d.Value.Key)
	if err != nil {
		return nil, fmt.Errorf("the key of cursors: %w", err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, fmt.Errorf("the key of cursors: %w", err)
	}
	c.aead.CompareAndSwap(nil, &aead)
	return *c.aead.Load(), nil
}

// Paged reads a page of a list by a cursor that a caller gave, and gives the next one the form in which the
// caller gets it: those of callers who are restricted to topics are sealed. The error is that of read,
// store.ErrBadCursor, or the store's.
func Paged(ctx context.Context, cursor string, read func(cursor string) (next *string, err error)) error {
	c := SightOf(ctx).cursors
	if c == nil {
		_, err := read(cursor)
		return err
	}
	aead, err := c.sealer(ctx)
	if err != nil {
		return err
	}
	if cursor != "" {
		if cursor, err = opened(aead, cursor); err != nil {
			return err
		}
	}
	next, err := read(cursor)
	if err == nil && *next != "" {
		// The cipher generates the nonce.
		*next = base64.RawURLEncoding.EncodeToString(aead.Seal(nil, nil, []byte(*next), nil)) //nolint:gosec // no nonce is given
	}
	return err
}

func opened(aead cipher.AEAD, cursor string) (string, error) {
	sealed, err := base64.RawURLEncoding.Strict().DecodeString(cursor)
	if err != nil {
		return "", fmt.Errorf("%w: %w", store.ErrBadCursor, err)
	}
	plain, err := aead.Open(nil, nil, sealed, nil)
	if err != nil {
		return "", fmt.Errorf("%w: it was made for another caller", store.ErrBadCursor)
	}
	return string(plain), nil
}
