package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/services/signing"
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
func (n *node) newKeyring() (*signing.Keyring, error) {
	c := n.Config
	if !c.Signed() {
		n.Logger.Warn("deliveries are not signed", "setting", "--signing off")
		return nil, nil //nolint:nilnil // nothing signs
	}
	keys, err := n.masterKeys()
	if err != nil {
		return nil, err
	}
	o := signing.Options{Documents: n.store, MasterKeys: keys, Default: c.SigningSecret, Logger: n.Logger}
	if n.Dev == nil && n.time != nil { // else the machine's: overlaps and refreshing know nothing of a demo's clock
		o.Now = n.time.Instant
	}
	if c.SigningSecret == "" {
		o.MissingMasterKey, o.HandOut = n.missingMasterKey, n.handOut
	}
	return signing.New(o)
}

// masterKeys are those of the settings, or else the one in the data directory. Without one,
// the keyring makes it if the store has no secrets. With a secret of the settings, an embedded
// node makes one here; on Redis, a key of one node's own would only seal secrets that other
// nodes cannot open.
func (n *node) masterKeys() ([]signing.MasterKey, error) {
	c := n.Config
	texts := c.MasterKeys()
	if len(texts) == 0 {
		text, err := readIfAny(n.masterKeyPath())
		if err != nil {
			return nil, fmt.Errorf("read the master key: %w", err)
		}
		switch {
		case text != "":
			texts = []string{text}
		case c.Embedded() && c.SigningSecret != "":
			key, err := n.makeMasterKey()
			return []signing.MasterKey{key}, err
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

func (n *node) masterKeyPath() string { return filepath.Join(n.Config.DataDir, masterKeyFile) }

// missingMasterKey is the master key of a node that started without one. Another node of the
// data directory may have made it meanwhile.
func (n *node) missingMasterKey(mayMake bool) (signing.MasterKey, error) {
	if mayMake {
		return n.makeMasterKey()
	}
	text, err := readIfAny(n.masterKeyPath())
	switch {
	case err != nil:
		return signing.MasterKey{}, fmt.Errorf("read the master key: %w", err)
	case text == "":
		return signing.MasterKey{}, fmt.Errorf("the stored secrets are %w", signing.ErrMasterKey)
	}
	return signing.ParseMasterKey(text)
}

// makeMasterKey makes the master key in the data directory. Of several nodes that start in
// one data directory at the same time, all get the key of the first.
func (n *node) makeMasterKey() (signing.MasterKey, error) {
	path := n.masterKeyPath()
	err := createWhole(path, signing.GenerateMasterKey()+"\n")
	switch {
	case errors.Is(err, fs.ErrExist):
	case err != nil:
		return signing.MasterKey{}, fmt.Errorf("write the master key for signing secrets: %w; make the directory writable, set --master-key, or turn signing off with --signing off", err)
	case n.Config.Embedded():
		n.Logger.Info("created a master key; keep a copy", "file", path)
	default:
		n.Logger.Info("created a master key; keep a copy, and copy it to nodes on other machines", "file", path)
	}
	text, err := readIfAny(path)
	if err != nil {
		return signing.MasterKey{}, fmt.Errorf("read the master key: %w", err)
	}
	return signing.ParseMasterKey(text)
}

// sign prepares the keyring before the node serves, so that a node that cannot sign ends first.
// It waits for no store: the error of an unavailable one is nil, and ensureSecret waits.
func (n *node) sign(ctx context.Context, keyring *signing.Keyring) error {
	if n.away == nil {
		err := n.secret(ctx, keyring)
		if !isUnavailable(err) && ctx.Err() == nil {
			return err
		}
		n.away = err
	}
	return nil
}

// ensureSecret waits until there is a default secret and the stored secrets are read,
// however long the store is unavailable. It returns early when ctx ends.
func (n *node) ensureSecret(ctx context.Context, keyring *signing.Keyring) error {
	if err := untilAvailable(ctx, func() error { return n.secret(ctx, keyring) }); err != nil {
		return err
	}
	if ctx.Err() == nil {
		close(n.signs)
	}
	if len(n.Config.MasterKeys()) > 1 {
		n.reseal(ctx, keyring)
	}
	return nil
}

// secret ensures once that there is a default secret, and reads the stored secrets.
func (n *node) secret(ctx context.Context, keyring *signing.Keyring) error {
	if n.Config.SigningSecret == "" {
		err := keyring.EnsureDefault(ctx)
		switch {
		case errors.Is(err, signing.ErrMasterKey): // another node made its secret first, if this one did
			return fmt.Errorf("signing secret: %w; copy %s from the node that made it to %s, or set --master-key, the same on every node; "+
				"if that key is lost, set --signing-secret to the secret that receivers know", errors.Join(err, n.secretFile().takeBack(keyring.MadeDefault())), masterKeyFile, n.Config.DataDir)
		case err != nil:
			return fmt.Errorf("signing secret: %w", err)
		}
	}
	if err := keyring.Load(ctx); err != nil {
		return fmt.Errorf("signing secrets: %w", err)
	}
	return nil
}

// handOut writes the file of a secret that this node makes.
func (n *node) handOut(secret string) error {
	f := n.secretFile()
	written, err := f.write(secret)
	if written {
		n.Logger.Info("created a signing secret; receivers need it to verify deliveries", "file", f.path)
	}
	return err
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
		if err == nil || ctx.Err() == nil && !isUnavailable(err) {
			return err
		}
		_ = job.Sleep(ctx, job.SystemClock(), secretPause) // the loop looks at ctx
	}
	return nil
}

func isUnavailable(err error) bool {
	return errors.Is(err, store.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded)
}

func (n *node) secretFile() secretFile {
	return secretFile{filepath.Join(n.Config.DataDir, signingSecretFile)}
}
