package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/node/config"
	"github.com/duehook/duehook/store/diskstore"
)

// controlSocket is the socket in the data directory by which Backup and Resume ask a running node. The
// directory is open to its owner alone.
const controlSocket = "control.sock"

// Bounds of a call at the socket. A backup copies what the file systems cannot link.
const (
	controlHeader = 5 * time.Second
	backupTime    = time.Hour
	backupError   = 4 << 10
)

// errBackupServer is the error of Backup on a server.
func errBackupServer(c *config.Config) error {
	return fmt.Errorf("backup is for the embedded store; back up %s with its own tools, and copy %s and %s of the data directory", serverOf(c), masterKeyFile, signingSecretFile)
}

// Copied is what Backup copied, in the JSON of duehook backup.
type Copied struct {
	Dir    string   `json:"dir"`
	Copied []string `json:"copied"` // jobs, and files by their names
	// KeyElsewhere says that the master key is a setting, which no backup has.
	KeyElsewhere bool `json:"master_key_is_a_setting"`
}

func (c Copied) String() string {
	text := fmt.Sprintf("backed up to %s: %s", c.Dir, strings.Join(c.Copied, ", "))
	if c.KeyElsewhere {
		text += "; the master key is a setting, keep it, too"
	}
	return text + "\nstart a node on it with --data-dir " + c.Dir
}

// Backup copies the data directory of the settings to dir, which must not exist or be
// empty. A node may be running on it.
func Backup(ctx context.Context, c *config.Config, dir string) (Copied, error) {
	done := Copied{Copied: []string{"jobs"}, KeyElsewhere: c.MasterKey != ""}
	if !c.Embedded() {
		return done, errBackupServer(c)
	}
	dir, err := emptyDir(dir)
	if err != nil {
		return done, err
	}
	if err := backupJobs(ctx, c, dir); err != nil {
		return done, err
	}
	done.Dir = dir
	for _, name := range []string{masterKeyFile, signingSecretFile} {
		text, err := readIfAny(filepath.Join(c.DataDir, name))
		if err == nil && text != "" {
			err = os.WriteFile(filepath.Join(dir, name), []byte(text+"\n"), 0o600)
			done.Copied = append(done.Copied, name)
		}
		if err != nil {
			return done, fmt.Errorf("copy %s: %w", name, err)
		}
	}
	return done, nil
}

// emptyDir makes the directory of a backup, and returns its whole path.
func emptyDir(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("find %s: %w", dir, err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("create the directory of the backup: %w", err)
	}
	entries, err := os.ReadDir(dir)
	switch {
	case err != nil:
		return "", fmt.Errorf("read the directory of the backup: %w", err)
	case len(entries) > 0:
		return "", fmt.Errorf("%s is not empty; name a new directory", dir)
	}
	if err := diskstore.Restrict(dir); err != nil { // before there is anything in it
		return "", fmt.Errorf("close the directory of the backup to other users: %w", err)
	}
	return dir, nil
}

// errNoNode: no node runs on the data directory.
var errNoNode = errors.New("no node is running")

// backupJobs asks the running node, or opens the store if none runs.
func backupJobs(ctx context.Context, c *config.Config, dir string) error {
	_, err := askNode(ctx, c, "/backup?dir="+url.QueryEscape(dir))
	if errors.Is(err, errNoNode) {
		return backupStopped(ctx, c, dir)
	}
	return err
}

// askNode makes a call at the socket in the data directory, and returns the answer, or errNoNode.
func askNode(ctx context.Context, c *config.Config, call string) (string, error) {
	dialer := net.Dialer{Timeout: controlHeader}
	client := http.Client{Timeout: backupTime, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", filepath.Join(c.DataDir, controlSocket))
		},
	}}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://node"+call, http.NoBody)
	if err != nil {
		return "", fmt.Errorf("ask the node: %w", err)
	}
	answer, err := client.Do(request)
	switch {
	case errors.Is(err, os.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return "", errNoNode
	case err != nil:
		return "", fmt.Errorf("ask the node: %w", err)
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(answer.Body, backupError))
	if err == nil && answer.StatusCode != http.StatusOK {
		err = errors.New(strings.TrimSpace(string(text)))
	}
	return string(text), err
}

// hasJobs refuses to make the data directory of an embedded store that is to be read.
func hasJobs(c *config.Config) error {
	if !c.Embedded() {
		return nil
	}
	if _, err := os.Stat(filepath.Join(c.DataDir, "jobs")); err != nil {
		return fmt.Errorf("%s has no jobs; --data-dir names the directory of the node: %w", c.DataDir, err)
	}
	return nil
}

// backupStopped copies the store of a node that does not run.
func backupStopped(ctx context.Context, c *config.Config, dir string) error {
	if err := hasJobs(c); err != nil {
		return err
	}
	s, err := diskstore.Open(diskstore.Options{Dir: c.DataDir, Clock: job.SystemClock(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	return errors.Join(s.Backup(ctx, dir), s.Close())
}

// listenControl opens the socket in the data directory, which the store has locked. Without
// it, the node runs all the same.
func (n *node) listenControl(ctx context.Context) net.Listener {
	if n.Config.DataDir == "" { // in memory
		return nil
	}
	path := filepath.Join(n.Config.DataDir, controlSocket)
	err := os.Remove(path) // of a node that died
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		n.Logger.Warn("duehook backup and resume cannot ask this node while it runs", "error", err)
		return nil
	}
	var listen net.ListenConfig
	ln, err := listen.Listen(ctx, "unix", path)
	if err == nil && os.Chmod(path, 0o600) != nil {
		err = errors.Join(errors.New("the socket is open to other users"), ln.Close())
	}
	if err != nil {
		n.Logger.Warn("duehook backup and resume cannot ask this node while it runs", "error", err)
		return nil
	}
	return ln
}

// control serves the socket until ctx ends.
func (n *node) control(ctx context.Context, ln net.Listener) error {
	calls := http.NewServeMux()
	calls.HandleFunc("POST /backup", n.backUp)
	calls.HandleFunc("POST /resume", n.resume)
	server := &http.Server{Handler: calls, ReadHeaderTimeout: controlHeader}
	stopped := make(chan struct{})
	context.AfterFunc(ctx, func() {
		defer close(stopped)
		_ = server.Shutdown(context.WithoutCancel(ctx)) // a backup in progress ends first
	})
	if err := server.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	<-stopped
	return nil
}

func (n *node) backUp(w http.ResponseWriter, r *http.Request) {
	dir := r.URL.Query().Get("dir")
	if !filepath.IsAbs(dir) {
		http.Error(w, "write POST /backup?dir=/path", http.StatusBadRequest)
		return
	}
	if err := n.disk.Backup(r.Context(), dir); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	n.Logger.Info("backed up the jobs", "directory", dir)
}
