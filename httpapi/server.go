package httpapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/services/access"
)

// Bounds of the time and memory that a client can use.
const (
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 30 * time.Second
	writeTimeout      = 45 * time.Second // counts from the end of the headers, so it holds reading and working too
	idleTimeout       = 2 * time.Minute
	maxHeaderBytes    = 32 << 10
	// Of an HTTP/2 connection.
	maxStreams       = 64
	maxFrame         = 16 << 10
	streamWindow     = 128 << 10
	connectionWindow = 256 << 10
)

// Server serves dialects of the HTTP API.
type Server struct {
	opts         Options
	metrics      *metrics
	origins      *http.CrossOriginProtection
	router       http.Handler
	exporter     http.Handler
	lastPage     atomic.Int64 // bytes of the last page of metrics
	own          *Dialect
	paths        map[string]*served // by the router's paths
	draining     atomic.Bool
	auditLog     *access.Audit
	uncountedNow atomic.Int64    // answers that count nowhere
	stopping     context.Context // ends when streams have to
	stop         context.CancelFunc
}

// New builds the API. It starts nothing.
func New(o Options) (*Server, error) {
	if err := o.setDefaults(); err != nil {
		return nil, err
	}
	m, err := newMetrics(o.Metrics)
	if err != nil {
		return nil, err
	}
	s := &Server{
		auditLog: access.NewAudit(o.Logger, o.Clock),
		opts:     o,
		metrics:  m,
		origins:  http.NewCrossOriginProtection(),
		exporter: promhttp.HandlerFor(o.Metrics, promhttp.HandlerOpts{EnableOpenMetrics: true, DisableCompression: true}),
		paths:    map[string]*served{},
	}
	s.own = s.operating()
	s.stopping, s.stop = context.WithCancel(context.Background())
	s.router = s.newRouter()
	if o.Wrap != nil {
		s.router = o.Wrap(s.router, s.known)
	}
	s.router = s.holding(s.router)
	return s, nil
}

func (s *Server) newRouter() *echo.Echo {
	e := echo.New()
	e.HTTPErrorHandler = s.writeError
	e.IPExtractor = echo.ExtractIPDirect()
	e.Pre(s.rewrite)
	e.Use(s.observe, s.audit, s.recover)
	s.addDialect(e, s.own)
	for i := range s.opts.Dialects {
		s.addDialect(e, &s.opts.Dialects[i])
	}
	s.addDashboard(e)
	return e
}

// Handler is the API without a server around it.
func (s *Server) Handler() http.Handler { return s.router }

// Serve answers requests on ln until ctx ends. Then /readyz answers 503, and after the
// drain delay Serve accepts no new requests. Requests in progress may take the drain
// timeout, and are cut off after it. Serve closes ln.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	// Requests in progress must not end with ctx.
	base, cutOff := context.WithCancel(context.WithoutCancel(ctx))
	defer cutOff()
	server := s.httpServer(base)
	served := make(chan error, 1)
	go func() { served <- s.listen(server, ln) }()

	select {
	case err := <-served:
		return errors.Join(fmt.Errorf("serve the API: %w", err), s.drain(server, cutOff))
	case <-ctx.Done():
	}
	s.draining.Store(true)
	if s.opts.DrainDelay > 0 {
		_ = job.Sleep(base, s.opts.Clock, s.opts.DrainDelay) // base does not end before
	}
	err := s.drain(server, cutOff)
	if ended := <-served; !errors.Is(ended, http.ErrServerClosed) {
		err = errors.Join(err, fmt.Errorf("serve the API: %w", ended))
	}
	return err
}

func (s *Server) listen(server *http.Server, ln net.Listener) error {
	if s.opts.TLS == nil {
		return server.Serve(ln)
	}
	server.TLSConfig = s.opts.TLS.Clone()
	return server.ServeTLS(ln, "", "")
}

// drain waits for requests in progress, and finally cuts them off.
func (s *Server) drain(server *http.Server, cutOff context.CancelFunc) error {
	ctx, cancel := context.WithTimeout(context.Background(), s.opts.DrainTimeout)
	defer cancel()
	s.stop() // streams would not end by themselves
	err := server.Shutdown(ctx)
	if err == nil {
		return nil
	}
	s.opts.Logger.Warn("API requests in flight are cut off; their clients get no answer", "after", s.opts.DrainTimeout)
	cutOff()
	return server.Close()
}

func (s *Server) httpServer(base context.Context) *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true) // gRPC without TLS
	open := newConnections(s.opts.Connections)
	return &http.Server{
		Protocols:         protocols,
		Handler:           s.router,
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		BaseContext:       func(net.Listener) context.Context { return base },
		ConnContext:       s.connContext,
		ConnState:         open.changed,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: maxStreams, MaxReadFrameSize: maxFrame,
			MaxReceiveBufferPerStream: streamWindow, MaxReceiveBufferPerConnection: connectionWindow,
		},
		ErrorLog: slog.NewLogLogger(s.opts.Logger.Handler(), slog.LevelWarn),
	}
}
