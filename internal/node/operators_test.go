package node

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/duehook/duehook/internal/node/config"
)

func operated(debug string) *node {
	return &node{Options: Options{Config: &config.Config{DebugAddr: debug}, Logger: slog.New(slog.DiscardHandler)}}
}

// Profiles are off unless asked for, and on loopback unless told otherwise.
func TestProfiles(t *testing.T) {
	if ln, err := operated("").listenDebug(t.Context()); ln != nil || err != nil {
		t.Errorf("without --debug-addr: %v, %v", ln, err)
	}
	if _, err := operated("no port").listenDebug(t.Context()); err == nil {
		t.Error("a wrong address is taken")
	}
	for addr, host := range map[string]string{":0": "127.0.0.1", "0": "127.0.0.1", "127.0.0.1:0": "127.0.0.1", "0.0.0.0:0": "::"} {
		n := operated(addr)
		ln, err := n.listenDebug(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got, port, _ := net.SplitHostPort(ln.Addr().String())
		if got != host && (host != "::" || got != "0.0.0.0") {
			t.Errorf("%s listens at %s", addr, got)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- n.debug(ctx, ln) }()
		for path, status := range map[string]int{"": 200, "heap?debug=1": 200, "goroutine?debug=1": 200, "cmdline": 403, "nothing": 404} {
			resp, err := http.Get("http://127.0.0.1:" + port + "/debug/pprof/" + path)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
			if resp.StatusCode != status {
				t.Errorf("%s: %d, not %d", path, resp.StatusCode, status)
			}
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// systemd learns that the node has started, lives and stops.
func TestSupervise(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = socket.Close() }()
	heard := func() string {
		b := make([]byte, 64)
		n, err := socket.Read(b)
		if err != nil {
			t.Fatal(err)
		}
		return string(b[:n])
	}
	env := map[string]string{"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "20000", "WATCHDOG_PID": "7"}
	s := newSupervisor(func(name string) string { return env[name] }, 7)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- operated("").supervise(ctx, s) }()
	for i, want := range []string{"READY=1", "WATCHDOG=1", "WATCHDOG=1"} {
		if got := heard(); got != want {
			t.Errorf("message %d is %q, not %q", i, got, want)
		}
	}
	stop()
	for got := heard(); got != "STOPPING=1"; got = heard() {
		if got != "WATCHDOG=1" {
			t.Fatalf("%q", got)
		}
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestNewSupervisor(t *testing.T) {
	for name, test := range map[string]struct {
		env  map[string]string
		want supervisor
	}{
		"no systemd":           {nil, supervisor{}},
		"no watchdog":          {map[string]string{"NOTIFY_SOCKET": "/run/n"}, supervisor{socket: "/run/n"}},
		"abstract socket":      {map[string]string{"NOTIFY_SOCKET": "@n"}, supervisor{socket: "\x00n"}},
		"watchdog":             {map[string]string{"NOTIFY_SOCKET": "/n", "WATCHDOG_USEC": "60000000"}, supervisor{"/n", 30 * time.Second}},
		"watchdog of another":  {map[string]string{"NOTIFY_SOCKET": "/n", "WATCHDOG_USEC": "60000000", "WATCHDOG_PID": "8"}, supervisor{socket: "/n"}},
		"watchdog of nonsense": {map[string]string{"NOTIFY_SOCKET": "/n", "WATCHDOG_USEC": "-1"}, supervisor{socket: "/n"}},
	} {
		if got := newSupervisor(func(name string) string { return test.env[name] }, 7); got != test.want {
			t.Errorf("%s: %+v, not %+v", name, got, test.want)
		}
	}
}
