// Receiver is a webhook receiver for trying duehook. It prints every delivery and
// accepts it, unless a flag sets another status.
//
//	go run ./docs/examples/receiver
//	go run ./docs/examples/receiver -status 503
package main

import (
	"cmp"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"time"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:8080", "address to listen on")
	status := flag.Int("status", http.StatusOK, "status of the answer")
	flag.Parse()

	server := &http.Server{
		Addr:              *addr,
		Handler:           receiver{status: *status, out: os.Stdout},
		ReadHeaderTimeout: 5 * time.Second,
	}
	slog.Info("waiting for deliveries", "url", "http://"+*addr+"/hook")
	if err := server.ListenAndServe(); err != nil {
		slog.Error("the receiver failed", "error", err)
		os.Exit(1)
	}
}

type receiver struct {
	status int
	out    io.Writer
}

const maxBody = 1 << 20

func (r receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, maxBody))
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	h := req.Header
	_, _ = fmt.Fprintf(r.out, "%s/%s, attempt %s, due at %s, webhook-id %s: %s\n",
		cmp.Or(h.Get("Duehook-Topic"), "?"), h.Get("Duehook-Job-Id"), h.Get("Duehook-Attempt"),
		h.Get("Duehook-Due-At"), h.Get("Webhook-Id"), body)
	w.WriteHeader(r.status)
}
