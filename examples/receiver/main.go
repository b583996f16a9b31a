// Receiver is something to try duehook with: it prints every delivery that it
// gets and accepts it, unless a flag says otherwise.
//
//	go run ./examples/receiver
//	go run ./examples/receiver -status 503
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
	addr := flag.String("addr", "127.0.0.1:8080", "where to listen")
	status := flag.Int("status", http.StatusOK, "what to answer")
	flag.Parse()

	server := &http.Server{
		Addr:              *addr,
		Handler:           receiver{status: *status, out: os.Stdout},
		ReadHeaderTimeout: 5 * time.Second,
	}
	slog.Info("waiting for deliveries", "url", "http://"+*addr+"/hook")
	if err := server.ListenAndServe(); err != nil {
		slog.Error("the receiver ended", "error", err)
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
