package e2e

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/duehook/duehook/dispatcher"
	"github.com/duehook/duehook/httpapi"
	v1 "github.com/duehook/duehook/httpapi/v1"
	"github.com/duehook/duehook/internal/app"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/testing/hostile"
	"github.com/duehook/duehook/internal/testing/testenv"
	"github.com/duehook/duehook/retrypolicy"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/diskstore"
)

// A part of loopback plays the public internet: the guard is told to allow it.
var (
	publicRange = netip.MustParsePrefix("127.77.0.0/16")
	public      = netip.MustParseAddr("127.77.0.1")
)

// watch is a receiver on all addresses of this machine. It counts connections
// by whether they are made to an address that plays the public internet.
type watch struct {
	hostile.Places
	ipv6                 bool
	permitted, forbidden atomic.Int64
}

func startWatch(t *testing.T) *watch {
	t.Helper()
	l, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	w := &watch{Places: hostile.Places{Port: l.Addr().(*net.TCPAddr).Port, Public: public}}
	if six, err := net.Listen("tcp", "[::1]:0"); err == nil {
		w.ipv6 = true
		_ = six.Close()
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(w.serve))
	_ = server.Listener.Close()
	server.Listener = l
	server.Config.ConnState = w.count
	server.Start()
	t.Cleanup(server.Close)
	return w
}

func (w *watch) count(c net.Conn, s http.ConnState) {
	if s != http.StateNew {
		return
	}
	at, err := netip.ParseAddrPort(c.LocalAddr().String())
	if err == nil && publicRange.Contains(at.Addr().Unmap()) {
		w.permitted.Add(1)
	} else {
		w.forbidden.Add(1)
	}
}

// serve is what Places says of its receiver.
func (w *watch) serve(out http.ResponseWriter, r *http.Request) {
	out.Header().Set("Connection", "close")
	if status, ok := strings.CutPrefix(r.URL.Path, "/redirect/"); ok {
		code, _ := strconv.Atoi(status)
		out.Header().Set("Location", r.URL.Query().Get("to"))
		out.WriteHeader(code)
	} else if r.URL.Path == "/fail" {
		out.WriteHeader(http.StatusInternalServerError)
	}
}

func (w *watch) checkNothingForbidden(t *testing.T) {
	t.Helper()
	if n := w.forbidden.Load(); n != 0 {
		t.Errorf("%d connections were made to forbidden addresses", n)
	}
}

// here is a node in this process, so that its name server can be ours.
type here struct {
	base  string
	store diskstore.Embedded
}

// startHere starts a node with the names of targets, until the test ends.
func startHere(t *testing.T, targets []hostile.Target, allow ...netip.Prefix) *here {
	t.Helper()
	guard, err := dispatcher.NewGuard(allow)
	if err != nil {
		t.Fatal(err)
	}
	jobs, metrics := testenv.Store(t, diskstore.Options{Retention: job.MaxDelay}), prometheus.NewRegistry()
	all, err := app.New(app.Options{
		Store: jobs, Metrics: metrics, Guard: guard.CheckURL, Policy: retrypolicy.Default(),
	})
	if err != nil {
		t.Fatal(err)
	}
	calls, callsErr := v1.New(v1.Options{App: all})
	api, apiErr := httpapi.New(httpapi.Options{Dialects: []httpapi.Dialect{calls}, Ready: jobs.Ping, Metrics: metrics})
	dispatch, dispatchErr := dispatcher.New(dispatcher.Options{
		Store: jobs, Metrics: metrics, AllowCIDRs: allow, BreakerFailures: -1, Limits: store.FlightLimits{EndpointLimit: 256},
		Resolver: hostile.Resolver(t, hostile.Zone(targets)),
	})
	if callsErr != nil || apiErr != nil || dispatchErr != nil {
		t.Fatal(callsErr, apiErr, dispatchErr)
	}
	ctx, stop := context.WithCancel(context.Background())
	var parts sync.WaitGroup
	parts.Go(func() {
		if err := dispatch.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	server := httptest.NewServer(api.Handler())
	t.Cleanup(func() {
		server.Close()
		stop()
		parts.Wait()
	})
	return &here{base: server.URL, store: jobs}
}
