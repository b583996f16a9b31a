package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"time"
)

// debugHeaders is how long a client of the profiles may take for its request.
const debugHeaders = 10 * time.Second

// listenDebug listens at --debug-addr; nil: there is none. Without a host, it is loopback.
func (n *node) listenDebug(ctx context.Context) (net.Listener, error) {
	addr := n.Config.DebugAddr
	if addr == "" {
		return nil, nil //nolint:nilnil // nobody asks for profiles
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		host, port = "", addr
	}
	if host == "" {
		host = "127.0.0.1"
	}
	var listen net.ListenConfig
	ln, err := listen.Listen(ctx, "tcp", net.JoinHostPort(host, port))
	if err != nil {
		return nil, fmt.Errorf("listen for profiles: %w; --debug-addr names another address", err)
	}
	return ln, nil
}

// debug serves profiles until ctx ends. A profile under way is cut off.
func (n *node) debug(ctx context.Context, ln net.Listener) error {
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "the command line is not shown: it may have secrets", http.StatusForbidden)
	})
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	s := &http.Server{Handler: mux, ReadHeaderTimeout: debugHeaders}
	n.Logger.Info("serving profiles", "address", "http://"+ln.Addr().String()+"/debug/pprof/")
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		<-ctx.Done()
		_ = s.Close()
	}()
	err := s.Serve(ln)
	<-closed
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serve profiles: %w", err)
}
