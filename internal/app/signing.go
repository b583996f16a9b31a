package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/duehook/duehook/internal/signing"
	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

// Files in the data directory, for the owner alone.
const (
	masterKeyFile     = "master.key"
	signingSecretFile = "signing-secret"
)

// secretPause is how long to wait before asking a store again that could not
// be reached for the signing secret.
const secretPause = time.Second

// errUnsigned: deliveries go unsigned.
var errUnsigned = errors.New("no signing secret")

// newKeyring makes what signs deliveries, or gives errUnsigned: on Redis, nodes
// can only share a secret that they are given, or a master key. It knows the
// secret of the settings already, so that the API cannot change that.
func (n *node) newKeyring(ctx context.Context) (*signing.Keyring, error) {
	c := n.Config
	texts := c.MasterKeys()
	switch {
	case len(texts) > 0:
	case c.Embedded():
		text, err := keptMasterKey(filepath.Join(c.DataDir, masterKeyFile))
		if err != nil {
			return nil, err
		}
		texts = []string{text}
	case c.SigningSecret != "": // a master key of our own would seal what no other node can open
	default:
		n.Logger.Warn("deliveries are not signed: on Redis, set --signing-secret or --master-key, the same on every node")
		return nil, errUnsigned
	}
	keys := make([]signing.MasterKey, len(texts))
	for i, text := range texts {
		var err error
		if keys[i], err = signing.ParseMasterKey(text); err != nil {
			return nil, err
		}
	}
	// By the machine's clock: overlaps and refreshing know nothing of a demo's.
	keyring, err := signing.New(signing.Options{Documents: n.store, MasterKeys: keys, Logger: n.Logger})
	if err != nil || c.SigningSecret == "" {
		return keyring, err
	}
	_, err = keyring.EnsureDefault(ctx, c.SigningSecret)
	return keyring, err
}

// keptMasterKey reads the master key of the embedded default, or makes it.
func keptMasterKey(path string) (string, error) {
	text, err := os.ReadFile(path)
	if err == nil {
		return string(text), nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read the master key: %w", err)
	}
	fresh := signing.GenerateMasterKey()
	if err := os.WriteFile(path, []byte(fresh+"\n"), 0o600); err != nil {
		return "", fmt.Errorf("keep the master key: %w", err)
	}
	return fresh, nil
}

// ensureSecret sees to it that there is a secret to sign with, and that the
// first master key seals what is kept, however long the store cannot be
// reached. It returns early when ctx ends.
func (n *node) ensureSecret(ctx context.Context, keyring *signing.Keyring) error {
	if n.Config.SigningSecret == "" { // or newKeyring has seen to it
		err := untilAvailable(ctx, func() error {
			made, err := keyring.EnsureDefault(ctx, "")
			if err != nil {
				return err
			}
			return n.handOut(made)
		})
		if err != nil {
			return fmt.Errorf("signing secret: %w", err)
		}
	}
	if len(n.Config.MasterKeys()) > 1 {
		n.reseal(ctx, keyring)
	}
	return nil
}

// reseal moves what other master keys seal to the first. A failure is no
// reason not to deliver: what could be opened still can.
func (n *node) reseal(ctx context.Context, keyring *signing.Keyring) {
	total := 0
	err := untilAvailable(ctx, func() error {
		done, err := keyring.Reseal(ctx)
		total += done
		return err
	})
	if err != nil {
		n.Logger.Error("some signing secrets are not sealed with the first master key", "error", err)
	}
	if total > 0 {
		n.Logger.Info("signing secrets were sealed with the first master key", "documents", total)
	}
}

// untilAvailable does something again until the store can do it. It gives nil
// when ctx ends before that.
func untilAvailable(ctx context.Context, do func() error) error {
	for ctx.Err() == nil {
		err := do()
		if err == nil || ctx.Err() == nil && !errors.Is(err, store.ErrUnavailable) {
			return err
		}
		_ = job.Sleep(ctx, job.SystemClock(), secretPause) // the loop looks at ctx
	}
	return nil
}

// handOut leaves a secret that was just made where the operator finds it, to
// give it to receivers. It is shown nowhere else.
func (n *node) handOut(made string) error {
	if made == "" {
		return nil
	}
	if err := os.MkdirAll(n.Config.DataDir, 0o700); err != nil {
		return fmt.Errorf("hand out the signing secret: %w", err)
	}
	path := filepath.Join(n.Config.DataDir, signingSecretFile)
	if err := os.WriteFile(path, []byte(made+"\n"), 0o600); err != nil {
		return fmt.Errorf("hand out the signing secret: %w", err)
	}
	n.Logger.Info("a signing secret was made; give it to receivers to verify deliveries with", "file", path)
	return nil
}
