package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/duehook/duehook/internal/documents"
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

// newSecrets makes the secrets that sign deliveries; nil with --signing off. They have the
// secret of the settings, so that the API cannot change it.
func (n *node) newSecrets() (*signing.Secrets, error) {
	c := n.Config
	if !c.Signed() {
		n.Logger.Warn("deliveries are not signed", "setting", "--signing off")
		return nil, nil //nolint:nilnil // nothing signs
	}
	keys, err := n.masterKeys()
	if err != nil {
		return nil, err
	}
	n.seal = documents.NewSeal(keys...)
	o := signing.Options{Documents: n.store, Seal: n.seal, Default: c.SigningSecret, Logger: n.Logger}
	if n.Dev == nil && n.time != nil { // else the machine's: overlaps and refreshing know nothing of a demo's clock
		o.Now = n.time.Instant
	}
	return signing.New(o)
}

// masterKeys are those of the settings, or else the one in the data directory, if there is one.
func (n *node) masterKeys() ([]documents.MasterKey, error) {
	texts := n.Config.MasterKeys()
	if len(texts) == 0 {
		text, err := readIfAny(n.masterKeyPath())
		if err != nil {
			return nil, fmt.Errorf("read the master key: %w", err)
		}
		if text != "" {
			texts = []string{text}
		}
	}
	keys := make([]documents.MasterKey, len(texts))
	for i, text := range texts {
		var err error
		if keys[i], err = documents.ParseMasterKey(text); err != nil {
			return nil, err
		}
	}
	return keys, nil
}

func (n *node) masterKeyPath() string { return filepath.Join(n.Config.DataDir, masterKeyFile) }

// ensureMasterKey gets the master key of a node that started without one. It makes one if the store has no secrets,
// or if a secret of the settings replaces them. On a server with a secret of the settings, there is none: a key of one
// node's own would only seal secrets that other nodes cannot open.
func (n *node) ensureMasterKey(ctx context.Context) (err error) {
	c := n.Config
	if _, has := n.seal.First(); has || c.SigningSecret != "" && !c.Embedded() {
		return nil
	}
	used := false
	if c.SigningSecret == "" {
		if used, err = n.seal.Used(ctx); err != nil {
			return err
		}
	}
	if !used {
		if err := n.makeMasterKey(); err != nil {
			return err
		}
	}
	keys, err := n.masterKeys() // another node of the data directory may have made it meanwhile
	switch {
	case err != nil:
		return err
	case len(keys) == 0:
		return fmt.Errorf("the stored secrets are %w", documents.ErrMasterKey)
	}
	n.seal.Use(keys[0])
	return nil
}

// makeMasterKey makes the master key in the data directory. Of several nodes that start in
// one data directory at the same time, all get the key of the first.
func (n *node) makeMasterKey() error {
	path := n.masterKeyPath()
	err := createWhole(path, documents.GenerateMasterKey()+"\n")
	switch {
	case errors.Is(err, fs.ErrExist):
	case err != nil:
		return fmt.Errorf("write the master key for signing secrets: %w; make the directory writable, set --master-key, or turn signing off with --signing off", err)
	case n.Config.Embedded():
		n.Logger.Info("created a master key; keep a copy", "file", path)
	default:
		n.Logger.Info("created a master key; keep a copy, and copy it to nodes on other machines", "file", path)
	}
	return nil
}

// sign prepares the secrets before the node serves, so that a node that cannot sign ends first.
// It waits for no store: the error of an unavailable one is nil, and ensureSecret waits. Nil secrets sign nothing.
func (n *node) sign(ctx context.Context, secrets *signing.Secrets) error {
	if secrets == nil {
		close(n.signs)
		return nil
	}
	if n.away == nil {
		err := n.secret(ctx, secrets)
		if !store.Unreachable(err) && ctx.Err() == nil {
			return err
		}
		n.away = err
	}
	return nil
}

// ensureSecret waits until there is a default secret and the stored secrets are read,
// however long the store is unavailable. It returns early when ctx ends, or if nothing is signed.
func (n *node) ensureSecret(ctx context.Context, secrets *signing.Secrets) error {
	if secrets == nil {
		return nil
	}
	if err := untilAvailable(ctx, func() error { return n.secret(ctx, secrets) }); err != nil {
		return err
	}
	if ctx.Err() == nil {
		close(n.signs)
	}
	if len(n.Config.MasterKeys()) > 1 {
		n.reseal(ctx)
	}
	return nil
}

// secret ensures once that there is a default secret, and reads the stored secrets.
func (n *node) secret(ctx context.Context, secrets *signing.Secrets) error {
	err := n.ensureMasterKey(ctx)
	if err == nil && n.Config.SigningSecret == "" {
		err = secrets.EnsureDefault(ctx, n.handOut)
	}
	if errors.Is(err, documents.ErrMasterKey) { // another node made its secret first, if this one did
		if key, made := n.seal.First(); made {
			err = errors.Join(err, n.secretFile().takeBack(signing.DefaultOf(key)))
		}
		err = fmt.Errorf("%w; copy %s from the node that made it to %s, or set --master-key, the same on every node; "+
			"if that key is lost, set --signing-secret to the secret that receivers know", err, masterKeyFile, n.Config.DataDir)
	}
	if err != nil {
		return fmt.Errorf("signing secret: %w", err)
	}
	return secrets.Load(ctx)
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
func (n *node) reseal(ctx context.Context) {
	total := 0
	err := untilAvailable(ctx, func() error {
		done, err := n.seal.Reseal(ctx)
		total += done
		return err
	})
	if err != nil {
		n.Logger.Error("some secrets are not encrypted with the first master key", "error", err)
	}
	if total > 0 {
		n.Logger.Info("encrypted secrets with the first master key", "documents", total)
	}
}

// untilAvailable repeats do until the store is available. It returns nil if ctx ends before
// that.
func untilAvailable(ctx context.Context, do func() error) error {
	for ctx.Err() == nil {
		err := do()
		if err == nil || ctx.Err() == nil && !store.Unreachable(err) {
			return err
		}
		_ = job.Sleep(ctx, job.SystemClock(), secretPause) // the loop looks at ctx
	}
	return nil
}

func (n *node) secretFile() secretFile {
	return secretFile{filepath.Join(n.Config.DataDir, signingSecretFile)}
}
