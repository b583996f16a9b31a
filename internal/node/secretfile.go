package node

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// secretFile is the file from which the operator gives the signing secret to receivers. It is written
// before the store gets the secret.
type secretFile struct{ path string }

// write writes the secret, and reports whether the file had another one or was missing.
func (f secretFile) write(secret string) (written bool, err error) {
	if f.has(secret) {
		return false, nil
	}
	if is, err := os.Lstat(f.path); err == nil && !is.Mode().IsRegular() {
		return false, fmt.Errorf("write the signing secret: %s is not a regular file; remove it, or set --signing-secret", f.path)
	}
	if err := replaceWhole(f.path, secret+"\n"); err != nil {
		return false, fmt.Errorf("write the signing secret: %w; make the directory writable, set --signing-secret, or turn signing off with --signing off", err)
	}
	return true, nil
}

// has reports whether the file has the secret.
func (f secretFile) has(secret string) bool {
	text, err := os.ReadFile(f.path)
	return err == nil && strings.TrimSpace(string(text)) == secret
}

// takeBack removes the file of a secret that does not sign.
func (f secretFile) takeBack(secret string) error {
	if !f.has(secret) {
		return nil
	}
	return os.Remove(f.path)
}

// readIfAny reads a file; empty if there is none.
func readIfAny(path string) (string, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return string(text), err
}

// createWhole creates a file and its directory with access for the owner only. The file
// appears complete, and survives a power failure. The error is fs.ErrExist if it exists.
func createWhole(path, content string) error { return publish(path, content, os.Link) }

// replaceWhole is createWhole for a file that may exist.
func replaceWhole(path, content string) error { return publish(path, content, os.Rename) }

// publish writes content beside path, and calls under to give it that name.
func publish(path, content string, under func(draft, path string) error) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	draft, err := os.CreateTemp(dir, filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(draft.Name()) }() // unless it was renamed
	_, err = draft.WriteString(content)
	if err = errors.Join(err, draft.Sync(), draft.Close()); err != nil {
		return err
	}
	if err := under(draft.Name(), path); err != nil {
		return err
	}
	return syncDir(dir)
}

// syncDir makes new names in a directory durable. Windows cannot, and needs no call.
func syncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
