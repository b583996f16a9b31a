package system

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
)

// Redis is a server with a directory of its own.
type Redis struct {
	*Process
	Addr string
	dir  string
}

// StartRedis starts a server. Persistence is what appendfsync takes, or "none".
func StartRedis(ctx context.Context, persistence string) (*Redis, error) {
	addr, err := FreeAddress(ctx)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "duehook-bench-redis-")
	if err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	args := []string{"--port", port, "--bind", "127.0.0.1", "--dir", dir, "--save", ""}
	if persistence != "none" {
		// A rewrite of the file would be a second process at work, at times that
		// depend on how much was written before.
		args = append(args, "--appendonly", "yes", "--appendfsync", persistence, "--auto-aof-rewrite-percentage", "0")
	}
	cmd := exec.Command("redis-server", args...) //nolint:gosec,noctx // arguments of ours; Close ends it
	p, err := Start(ctx, "redis-server", cmd, func(line string) bool {
		return strings.Contains(line, "Ready to accept connections")
	})
	if err != nil {
		_ = os.RemoveAll(dir)
		return nil, fmt.Errorf("%w (package redis-server on Debian)", err)
	}
	return &Redis{Process: p, Addr: addr, dir: dir}, nil
}

// URL is the server as a redis:// URL.
func (r *Redis) URL() string { return "redis://" + r.Addr + "/0" }

// Close ends the server and deletes its directory.
func (r *Redis) Close() error {
	if err := r.Kill(); err != nil {
		return err
	}
	return os.RemoveAll(r.dir)
}
