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
	"github.com/labstack/echo/v4/middleware"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/duehook/duehook/job"
)

// Bounds on what a client may take of the server's time and memory.
const (
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 30 * time.Second
	writeTimeout      = 45 * time.Second // counts from the end of the headers, so it holds reading and working too
	idleTimeout       = 2 * time.Minute
	maxHeaderBytes    = 32 << 10
)

// Server is the HTTP API over one store.
type Server struct {
	opts      Options
	metrics   *metrics
	origins   *http.CrossOriginProtection
	handler   http.Handler
	exporter  http.Handler
	spec      []byte            // the OpenAPI document as JSON
	templates map[string]string // the router's paths as the document writes them
	changes   map[string]string // calls that change something, by the router's method and path
	draining  atomic.Bool
	streams   atomic.Int64    // of events
	stopping  context.Context // ends when streams have to
	stop      context.CancelFunc
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
	spec, err := openAPI()
	if err != nil {
		return nil, err
	}
	s := &Server{
		opts:      o,
		metrics:   m,
		origins:   http.NewCrossOriginProtection(),
		exporter:  promhttp.HandlerFor(o.Gatherer, promhttp.HandlerOpts{}),
		spec:      spec,
		templates: map[string]string{},
		changes:   map[string]string{},
	}
	s.stopping, s.stop = context.WithCancel(context.Background())
	s.handler = s.newRouter()
	return s, nil
}

func (s *Server) newRouter() *echo.Echo {
	e := echo.New()
	e.HTTPErrorHandler = s.writeError
	e.IPExtractor = echo.ExtractIPDirect()
	e.Use(
		s.observe,
		s.audit,
		middleware.RecoverWithConfig(middleware.RecoverConfig{
			StackSize:           16 << 10,
			DisableStackAll:     true,
			DisableErrorHandler: true,
			LogErrorFunc:        s.logPanic,
		}),
		middleware.ContextTimeoutWithConfig(middleware.ContextTimeoutConfig{
			Skipper:      streams,
			Timeout:      s.opts.RequestTimeout,
			ErrorHandler: func(err error, _ echo.Context) error { return err },
		}),
		s.refuseCrossOrigin,
	)
	s.addRoutes(e)
	s.addDashboard(e)
	return e
}

// streams reports whether a call lasts for as long as its client likes.
func streams(c echo.Context) bool { return c.Path() == eventsPath }

// Handler is the API without a server around it.
func (s *Server) Handler() http.Handler { return s.handler }

// Serve answers requests on ln until ctx ends. Then /readyz turns to 503, and
// after the drain delay no new requests are taken; those under way get the
// drain timeout to end, and are cut off past it. It closes ln.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	// Requests under way are not to end with ctx.
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

// drain waits for requests under way, and cuts them off in the end.
func (s *Server) drain(server *http.Server, cutOff context.CancelFunc) error {
	ctx, cancel := context.WithTimeout(context.Background(), s.opts.DrainTimeout)
	defer cancel()
	s.stop() // streams would not end by themselves
	err := server.Shutdown(ctx)
	if err == nil {
		return nil
	}
	s.opts.Logger.Warn("requests to the API still under way are cut off; their clients get no answer", "after", s.opts.DrainTimeout)
	cutOff()
	return server.Close()
}

func (s *Server) httpServer(base context.Context) *http.Server {
	return &http.Server{
		Handler:           s.handler,
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		BaseContext:       func(net.Listener) context.Context { return base },
		ErrorLog:          slog.NewLogLogger(s.opts.Logger.Handler(), slog.LevelWarn),
	}
}
