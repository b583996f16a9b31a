package httpapi

import (
	"context"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/duehook/duehook/internal/kit/memory"
	"github.com/duehook/duehook/internal/services/access"
)

// What requests count in the budget, in bytes.
const (
	// requestCost is about what a request takes before anything large is read or written: stacks, buffers, headers.
	requestCost = 24 << 10
	// bodyWeight is how many times the bytes of a body count: they are read, decoded and stored.
	bodyWeight = 3
	// writePart is how much of an answer is written at a time, each within writeProgress.
	writePart     = 64 << 10
	writeProgress = 10 * time.Second
)

// connectionKey is the key of a *memory.Connection in the context of a connection.
type connectionKey struct{}

// connContext gives a connection its share of the memory.
func (s *Server) connContext(ctx context.Context, _ net.Conn) context.Context {
	return context.WithValue(ctx, connectionKey{}, s.opts.Memory.Connect())
}

// holding counts what a request holds until it is answered, and that whole.
func (s *Server) holding(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		on, _ := r.Context().Value(connectionKey{}).(*memory.Connection)
		hold := s.opts.Memory.Hold(on)
		defer hold.Free()
		cost := int64(requestCost)
		if r.ProtoMajor == 2 && r.ContentLength != 0 { // as much of the body arrives unasked
			if cost += streamWindow; r.ContentLength > 0 {
				cost += min(r.ContentLength, streamWindow) - streamWindow
			}
		}
		out := &answerWriter{ResponseWriter: w, control: http.NewResponseController(w), bounded: r.ProtoMajor == 2, most: writeProgress}
		ctx := memory.With(r.Context(), hold)
		counted := !probes[r.URL.Path]
		if counted {
			if err := hold.Take(ctx, cost); err != nil {
				ctx, counted = context.WithValue(ctx, refusedKey{}, err), false
			}
		}
		if !counted {
			defer s.uncounted(r, out)()
		}
		r = r.WithContext(ctx) // net/http reads on in a body of another type before it answers
		if r.Body != nil && r.Body != http.NoBody {
			r.Body = &heldBody{ReadCloser: r.Body, hold: hold, ctx: r.Context()}
		}
		next.ServeHTTP(out, r)
		out.finish()
	})
}

// maxUncounted bounds the answers on HTTP/2 that count nowhere: to refused requests and to probes. Others get none.
const maxUncounted = 1024

// uncounted notes an answer that counts nowhere, until leave. On HTTP/1 there is one for each connection.
func (s *Server) uncounted(r *http.Request, out *answerWriter) (leave func()) {
	out.most = memory.Patience
	if r.ProtoMajor < 2 {
		return func() {}
	}
	if s.uncountedNow.Add(1) > maxUncounted {
		s.uncountedNow.Add(-1)
		panic(http.ErrAbortHandler)
	}
	return func() { s.uncountedNow.Add(-1) }
}

// refusedKey is the key of the error in the context of a request for which there is no memory.
type refusedKey struct{}

// Refused is the error of a request for which there is no memory, or nil.
func Refused(ctx context.Context) error {
	err, _ := ctx.Value(refusedKey{}).(error)
	return err
}

// probes are the paths of probes, which ask whether this node lives: they need no memory but that of their connection.
var probes = map[string]bool{"/livez": true, "/readyz": true}

// heldBody counts what was read of a body.
type heldBody struct {
	io.ReadCloser
	hold *memory.Hold
	ctx  context.Context
}

func (b *heldBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if refused := b.hold.Take(b.ctx, int64(n)*bodyWeight); refused != nil {
		return n, AsError(refused)
	}
	return n, err
}

// answerWriter gives a client a time for each part of an answer, and reports whether there was any.
type answerWriter struct {
	http.ResponseWriter
	control *http.ResponseController
	bounded bool // an answer has had its time
	started bool
	own     bool // the call sets its own times
	most    time.Duration
}

func (w *answerWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Flush and FlushError send what was written so far.
func (w *answerWriter) Flush() { _ = w.FlushError() }

// FlushError reports whether the client takes it.
func (w *answerWriter) FlushError() error {
	if w.bounded {
		w.within()
	}
	return w.control.Flush()
}

func (w *answerWriter) WriteHeader(status int) {
	w.started = true
	w.ResponseWriter.WriteHeader(status)
}

// SetWriteDeadline leaves the times to a call that streams.
func (w *answerWriter) SetWriteDeadline(at time.Time) error {
	w.own = true
	return w.control.SetWriteDeadline(at)
}

func (w *answerWriter) Write(p []byte) (n int, err error) {
	w.started = true
	for {
		part := p[n:min(len(p), n+writePart)]
		if w.bounded || len(p) > writePart {
			w.within()
		}
		more, err := w.ResponseWriter.Write(part)
		if n += more; err != nil || n == len(p) {
			return n, err
		}
	}
}

// within gives the client the time for one part.
func (w *answerWriter) within() {
	if !w.own {
		_ = w.control.SetWriteDeadline(time.Now().Add(w.most)) //nolint:forbidigo // the connection's clock is the machine's
	}
}

// finish sends the rest of an answer over HTTP/2: it takes memory until the client reads it, and must count until then.
func (w *answerWriter) finish() {
	if w.bounded && w.started {
		w.Flush()
	}
}

// charge counts what a request holds for its caller. Without keys, all callers are one. A caller whose key has no room holds
// nothing more: the refusal must not take the room of others while it is not read.
func (s *Server) charge(h *memory.Hold, caller access.Principal) error {
	if s.opts.Access == nil {
		return nil
	}
	err := h.As(caller.KeyID)
	if err != nil {
		h.Free()
	}
	return err
}

func (c *Call) hold() *memory.Hold { return memory.Of(c.Context()) }

// Take counts memory that the call is about to use, in bytes, and waits until there is room for it.
func (c *Call) Take(n int64) error { return c.hold().Take(c.Context(), n) }

// Give gives some of it back.
func (c *Call) Give(n int64) { c.hold().Give(n) }

// Add counts memory that the call uses already.
func (c *Call) Add(n int64) error { return c.hold().Add(n) }

// tooLarge is the error for a body that a share would never hold.
func (c *Call) tooLarge(body int64) error {
	if h := c.hold(); h != nil && body*bodyWeight > h.Share() {
		return memory.ErrTooLarge
	}
	return nil
}
