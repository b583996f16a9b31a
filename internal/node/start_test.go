package node

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"

	"github.com/duehook/duehook/internal/node/config"
)

// A node that cannot start has ended when Start returns.
func TestStartFails(t *testing.T) {
	t.Parallel()
	taken, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	c, err := config.Load([]string{"--addr", taken.Addr().String(), "--data-dir", t.TempDir()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Config: c, Logger: slog.New(slog.DiscardHandler), Version: "test"}
	if base, stop, err := Start(t.Context(), o); err == nil || base != "" || stop != nil || !strings.Contains(err.Error(), "is another duehook running?") {
		t.Errorf("on a port in use: %q, %v", base, err)
	}
	// This one is never ready: nothing answers as Redis does.
	if c, err = config.Load([]string{"--addr=127.0.0.1:0", "--redis-url", "redis://" + taken.Addr().String(), "--data-dir", t.TempDir()}, nil); err != nil {
		t.Fatal(err)
	}
	o.Config = c
	ended, end := context.WithCancel(t.Context())
	end()
	if base, stop, err := Start(ended, o); !errors.Is(err, context.Canceled) || base != "" || stop != nil {
		t.Errorf("after the end of the context: %q, %v", base, err)
	}
}
