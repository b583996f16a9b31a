package node

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/duehook/duehook/internal/services/signing"
)

// secretFile is the file from which the operator gives the signing secret to receivers.
// duehook shows the secret nowhere else, so it is in a draft before the store gets it.
// The file is written after that: it never has a secret that does not sign.
type secretFile struct{ path string }

func (f secretFile) draftPath() string { return f.path + ".new" }

// drafted returns the secret of the draft that an earlier start left; empty: there is none.
func (f secretFile) drafted() (string, error) {
	text, err := readIfAny(f.draftPath())
	if err != nil {
		return "", fmt.Errorf("read the draft of the signing secret: %w", err)
	}
	return strings.TrimSpace(text), nil
}

// draft writes a new secret into the draft. Of several nodes that start in one data directory
// at the same time, all get the secret of the first.
func (f secretFile) draft() (string, error) {
	if is, err := os.Lstat(f.path); err == nil && !is.Mode().IsRegular() {
		return "", fmt.Errorf("write the signing secret: %s is not a regular file; remove it, or set --signing-secret", f.path)
	}
	for {
		err := createWhole(f.draftPath(), signing.NewSecret().Reveal()+"\n")
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return "", fmt.Errorf("write the signing secret: %w; make the directory writable, set --signing-secret, or turn signing off with --signing off", err)
		}
		// The draft is gone if its node has finished meanwhile.
		if secret, err := f.drafted(); secret != "" || err != nil {
			return secret, err
		}
	}
}

// finish writes the file, and reports whether it had another secret or was missing. It does not
// rename the draft, which may be another node's by now.
func (f secretFile) finish(secret string) (written bool, err error) {
	if before, err := os.ReadFile(f.path); err == nil && strings.TrimSpace(string(before)) == secret {
		return false, f.discard()
	}
	if err := replaceWhole(f.path, secret+"\n"); err != nil {
		return false, fmt.Errorf("hand out the signing secret: %w; it is in %s", err, f.draftPath())
	}
	return true, f.discard()
}

// discard removes a draft whose secret signs nothing.
func (f secretFile) discard() error {
	if err := os.Remove(f.draftPath()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the draft of a signing secret that is not in use: %w", err)
	}
	return nil
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
