package rpc_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"connectrpc.com/connect"
	"connectrpc.com/grpcreflect"
	"google.golang.org/grpc/codes"
	health "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/duehook/duehook/httpapi/rpc"
)

// Probes of gRPC ask without a key, and get what /readyz says.
func TestHealth(t *testing.T) {
	c := newClient(t)
	check := func(service string) (health.HealthCheckResponse_ServingStatus, codes.Code) {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		r, err := health.NewHealthClient(c.conn).Check(ctx, &health.HealthCheckRequest{Service: service})
		return r.GetStatus(), status.Code(err)
	}
	for _, service := range []string{"", "duehook.v1.Jobs"} {
		if is, code := check(service); is != health.HealthCheckResponse_SERVING || code != codes.OK {
			t.Errorf("%q: %v, %v", service, is, code)
		}
	}
	if _, code := check("other"); code != codes.NotFound {
		t.Errorf("an unknown service: %v", code)
	}
	busy := rpc.New(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/readyz" {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}), func(r *http.Request) (*http.Request, error) { return r, nil })
	r := httptest.NewRequest(http.MethodPost, "/grpc.health.v1.Health/Check", http.NoBody)
	r.Header.Set("Content-Type", "application/proto")
	w := httptest.NewRecorder()
	busy.ServeHTTP(w, r)
	if got := w.Body.Bytes(); w.Code != http.StatusOK || !slices.Equal(got, []byte{8, byte(health.HealthCheckResponse_NOT_SERVING)}) {
		t.Errorf("while /readyz is 503: %d %v", w.Code, got)
	}
}

// Tools such as grpcurl ask which calls there are, with a key.
func TestReflection(t *testing.T) {
	c := newClient(t)
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	defer transport.CloseIdleConnections()
	plain := &http.Client{Transport: transport}
	describe := grpcreflect.NewClient(plain, c.Base, connect.WithGRPC())
	for _, token := range []string{"", "Bearer wrong"} {
		stranger := describe.NewStream(t.Context(), grpcreflect.WithRequestHeaders(http.Header{"Authorization": {token}}))
		if names, err := stranger.ListServices(); connect.CodeOf(err) != connect.CodeUnauthenticated || names != nil {
			t.Errorf("with the key %q: %q, %v", token, names, err)
		}
		_, _ = stranger.Close()
	}
	stream := describe.NewStream(t.Context(), grpcreflect.WithRequestHeaders(http.Header{"Authorization": {"Bearer " + c.Reader}}))
	names, err := stream.ListServices()
	if err != nil {
		t.Fatal(err)
	}
	if len(names) != 3 || !slices.Contains(names, "duehook.v1.Queue") {
		t.Errorf("got %q", names)
	}
	files, err := stream.FileContainingSymbol("duehook.v1.Jobs.Register")
	if err != nil || len(files) == 0 {
		t.Errorf("%d files, %v", len(files), err)
	}
	if _, err := stream.Close(); err != nil {
		t.Error(err)
	}
}
