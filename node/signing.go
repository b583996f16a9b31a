package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/duehook/duehook/internal/services/signing"
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

// newKeyring makes the keyring that signs deliveries; nil with --signing off. It has the
// secret of the settings, so that the API cannot change it.
func (n *node) newKeyring(ctx context.Context) (*signing.Keyring, error) {
	c := n.Config
	if !c.Signed() {
		n.Logger.Warn("deliveries are not signed", "setting", "--signing off")
		return nil, nil //nolint:nilnil // nothing signs
	}
	keys, err := n.masterKeys()
	if err != nil {
		return nil, err
	}
	// By the machine's clock: overlaps and refreshing know nothing of a demo's.
	keyring, err := signing.New(signing.Options{Documents: n.store, MasterKeys: keys, Logger: n.Logger})
	if err != nil || c.SigningSecret == "" {
		return keyring, err
	}
	_, err = keyring.EnsureDefault(ctx, c.SigningSecret)
	return keyring, err
}

// masterKeys are those of the settings, or else the one in the data directory.
// That is made unless there is one, if the store keeps the default secret; with
// a secret of the settings, a key of one node's own would only seal secrets
// that other nodes cannot open.
func (n *node) masterKeys() ([]signing.MasterKey, error) {
	c := n.Config
	texts := c.MasterKeys()
	if len(texts) == 0 {
		path := filepath.Join(c.DataDir, masterKeyFile)
		text, err := readMasterKey(path)
		if text == "" && err == nil && (c.Embedded() || c.SigningSecret == "") {
			text, err = n.makeMasterKey(path)
		}
		if err != nil {
			return nil, err
		}
		if text != "" {
			texts = []string{text}
		}
	}
	keys := make([]signing.MasterKey, len(texts))
	for i, text := range texts {
		var err error
		if keys[i], err = signing.ParseMasterKey(text); err != nil {
			return nil, err
		}
	}
	return keys, nil
}

// readMasterKey reads the master key at path; empty when there is none.
func readMasterKey(path string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read the master key: %w", err)
	}
	return string(text), nil
}

// makeMasterKey makes the master key at path. Of several nodes that start in
// one data directory at the same time, all get the key of the first.
func (n *node) makeMasterKey(path string) (string, error) {
	err := createWhole(path, signing.GenerateMasterKey()+"\n")
	switch {
	case errors.Is(err, fs.ErrExist):
	case err != nil:
		return "", fmt.Errorf("write the master key for signing secrets: %w; make the directory writable, set --master-key, or turn signing off with --signing off", err)
	case n.Config.Embedded():
		n.Logger.Info("created a master key; keep a copy", "file", path)
	default:
		n.Logger.Info("created a master key; keep a copy, and copy it to nodes on other machines", "file", path)
	}
	return readMasterKey(path)
}

// createWhole creates a file and its directory with access for the owner only. The file
// appears complete. The error is fs.ErrExist if it exists.
func createWhole(path, content string) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	draft, err := os.CreateTemp(dir, filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(draft.Name()) }() // the link stays
	_, err = draft.WriteString(content)
	if err = errors.Join(err, draft.Sync(), draft.Close()); err != nil {
		return err
	}
	return os.Link(draft.Name(), path)
}

// ensureSecret waits until there is a default secret and the stored secrets are read,
// however long the store is unavailable. It returns early when ctx ends.
func (n *node) ensureSecret(ctx context.Context, keyring *signing.Keyring) error {
	if n.Config.SigningSecret == "" { // or newKeyring has seen to it
		err := untilAvailable(ctx, func() error {
			made, err := keyring.EnsureDefault(ctx, "")
			if err != nil {
				return err
			}
			return n.handOut(made)
		})
		if errors.Is(err, signing.ErrMasterKey) {
			return fmt.Errorf("signing secret: %w; copy %s from the node that made it to %s, or set --master-key, the same on every node; "+
				"if that key is lost, set --signing-secret to the secret that receivers know", err, masterKeyFile, n.Config.DataDir)
		}
		if err != nil {
			return fmt.Errorf("signing secret: %w", err)
		}
	}
	if err := untilAvailable(ctx, func() error { return keyring.Load(ctx) }); err != nil {
		return fmt.Errorf("signing secrets: %w", err)
	}
	if len(n.Config.MasterKeys()) > 1 {
		n.reseal(ctx, keyring)
	}
	return nil
}

// reseal encrypts secrets of other master keys with the first. A failure does not prevent
// deliveries: the secrets remain readable.
func (n *node) reseal(ctx context.Context, keyring *signing.Keyring) {
	total := 0
	err := untilAvailable(ctx, func() error {
		done, err := keyring.Reseal(ctx)
		total += done
		return err
	})
	if err != nil {
		n.Logger.Error("some signing secrets are not encrypted with the first master key", "error", err)
	}
	if total > 0 {
		n.Logger.Info("encrypted signing secrets with the first master key", "documents", total)
	}
}

// untilAvailable repeats do until the store is available. It returns nil if ctx ends before
// that.
func untilAvailable(ctx context.Context, do func() error) error {
	for ctx.Err() == nil {
		err := do()
		again := errors.Is(err, store.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded)
		if err == nil || ctx.Err() == nil && !again {
			return err
		}
		_ = job.Sleep(ctx, job.SystemClock(), secretPause) // the loop looks at ctx
	}
	return nil
}

// handOut writes a new secret into a file, from which the operator gives it to receivers.
// duehook shows it nowhere else.
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
	n.Logger.Info("created a signing secret; receivers need it to verify deliveries", "file", path)
	return nil
}
