package rpc

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"connectrpc.com/connect"
	"connectrpc.com/grpchealth"
	"connectrpc.com/grpcreflect"

	"github.com/duehook/duehook/httpapi"
	pb "github.com/duehook/duehook/httpapi/rpc/duehookv1"
)

// toolsOf are the services that tools of gRPC ask for: its health check, and the description of
// our services, which takes a key.
func toolsOf(api http.Handler) map[string]http.Handler {
	var services []string
	all := pb.File_duehook_proto.Services()
	for i := range all.Len() {
		services = append(services, string(all.Get(i).FullName()))
	}
	reflector, limit := grpcreflect.NewStaticReflector(services...), connect.WithHandlerOptions(connect.WithReadMaxBytes(maxTool), uncompressed)
	tools := map[string]http.Handler{}
	add := func(path string, h http.Handler) { tools[strings.Trim(path, "/")] = h }
	add(grpchealth.NewHandler(health{api, services}, limit))
	add(grpcreflect.NewHandlerV1(reflector, limit))
	add(grpcreflect.NewHandlerV1Alpha(reflector, limit)) // what older versions of grpcurl ask for
	return tools
}

// maxTool bounds a request of a tool.
const maxTool = 64 << 10

// health answers as /readyz does, for the server and for each service.
type health struct {
	api      http.Handler
	services []string
}

func (h health) Check(ctx context.Context, in *grpchealth.CheckRequest) (*grpchealth.CheckResponse, error) {
	if in.Service != "" && !slices.Contains(h.services, in.Service) {
		return nil, connect.NewError(connect.CodeNotFound, errors.New("unknown service"))
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "/readyz", http.NoBody)
	if err != nil {
		return nil, err
	}
	w := httpapi.NewKept(new(bytes.Buffer))
	if h.api.ServeHTTP(w, r); w.Status != http.StatusOK {
		return &grpchealth.CheckResponse{Status: grpchealth.StatusNotServing}, nil
	}
	return &grpchealth.CheckResponse{Status: grpchealth.StatusServing}, nil
}
