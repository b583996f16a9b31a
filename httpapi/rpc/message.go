package rpc

import (
	"bytes"
	"compress/gzip"
	"context"
	frames "encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/duehook/duehook/httpapi"
	"github.com/duehook/duehook/internal/kit/jsonio"
	"github.com/duehook/duehook/internal/kit/memory"
)

const (
	// framing is how many bytes come before a message of gRPC: whether it is compressed, and its length.
	framing = 5
	// perByte and perPart are how many bytes a byte of a message, and a field or value in it, take in memory when it is
	// decoded, written as JSON and decoded again.
	perByte, perPart = 4, 96
	// grown is how many times what is unpacked counts: a growing buffer.
	grown = 3

	gzipped, identity = "gzip", "identity"
	// accepted are the encodings of messages, as the header of that name has them.
	accepted        = identity + "," + gzipped
	headerAccepted  = "Grpc-Accept-Encoding"
	headerEncoding  = "Grpc-Encoding"
	contentEncoding = "Content-Encoding"
	acceptEncoding  = "Accept-Encoding" // of an answer: RFC 9110, 12.5.3
)

// framed reports whether the messages of a request have the framing of gRPC.
func framed(r *http.Request) bool {
	return strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc")
}

// encodingOf is the encoding of the request's message, and its header. Error: the server does not accept it.
func encodingOf(r *http.Request, known ...string) (header, encoding string, err error) {
	header = contentEncoding
	if framed(r) {
		header = headerEncoding
	}
	encoding = strings.Join(r.Header.Values(header), ",")
	if encoding == "" || encoding == identity {
		return header, "", nil
	}
	for _, k := range known {
		if encoding == k {
			return header, encoding, nil
		}
	}
	return header, "", connect.NewError(connect.CodeUnimplemented,
		fmt.Errorf("the encoding %q is not supported: send one of %s", httpapi.Shorten(encoding), strings.Join(append([]string{identity}, known...), ", ")))
}

// unpacked reads the message of a call, and returns the request with the message in the identity encoding. What it takes to
// decode the message counts in the budget before it is decoded.
func unpacked(r *http.Request, in proto.Message) (*http.Request, error) {
	header, encoding, err := encodingOf(r, gzipped)
	if err != nil {
		return nil, err
	}
	text, err := readAll(r.Body, func(int64) error { return nil }) // the server counts it
	if err != nil {
		return nil, err
	}
	packed, message := encoding == gzipped, text
	if framed(r) {
		if len(text) < framing || int64(frames.BigEndian.Uint32(text[1:framing])) != int64(len(text)-framing) || text[0] == 1 && !packed {
			return withBody(r, text), nil // Connect says what is wrong
		}
		packed, message = text[0] == 1, text[framing:]
	}
	if packed {
		if message, err = unzip(r.Context(), message); err != nil {
			return nil, err
		}
	}
	r.Header = r.Header.Clone()
	r.Header.Del(header)
	if n := parts(r, message, in); n <= maxParts { // otherwise the codec refuses it
		if err := memory.Of(r.Context()).Take(r.Context(), int64(perByte*len(message)+perPart*n)); err != nil {
			return nil, noRoom(err)
		}
	}
	if framed(r) {
		if packed {
			text = frames.BigEndian.AppendUint32([]byte{0}, uint32(len(message)))
			text = append(text, message...)
		}
		message = text
	}
	return withBody(r, message), nil
}

// parts counts the fields and values of a message, up to one more than it may have.
func parts(r *http.Request, message []byte, in proto.Message) int {
	if strings.Contains(r.Header.Get("Content-Type"), "json") {
		return jsonio.Parts(message, maxParts)
	}
	left := maxParts
	_ = take(message, in.ProtoReflect().Descriptor(), &left, maxDepth) // the codec returns the error
	return maxParts - left
}

func withBody(r *http.Request, text []byte) *http.Request {
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
	return r
}

// readAll reads a message within its bound. count refuses parts for which there is no memory.
func readAll(from io.Reader, count func(n int64) error) ([]byte, error) {
	var all bytes.Buffer
	part := make([]byte, 32<<10)
	for {
		n, err := from.Read(part)
		if refused := count(int64(n)); refused != nil {
			return nil, noRoom(refused)
		}
		if all.Write(part[:n]); all.Len() > maxMessage+framing {
			return nil, connect.NewError(connect.CodeResourceExhausted, fmt.Errorf("the message has more than %d bytes", maxMessage))
		}
		if errors.Is(err, io.EOF) {
			return all.Bytes(), nil
		}
		if err != nil {
			return nil, noRoom(err)
		}
	}
}

// unzip unpacks a message in gzip. What comes out counts as it comes.
func unzip(ctx context.Context, message []byte) ([]byte, error) {
	unpacking, err := gzip.NewReader(bytes.NewReader(message))
	if err != nil {
		return nil, connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("the message is no gzip: %w", err))
	}
	hold := memory.Of(ctx)
	return readAll(unpacking, func(n int64) error { return hold.Take(ctx, grown*n) })
}

// noRoom is the error of a call whose message finds no memory, or cannot be read.
func noRoom(err error) error {
	if own, ok := errors.AsType[*connect.Error](err); ok {
		return own
	}
	e := httpapi.AsError(err)
	if e.Code == httpapi.CodeInternalError {
		return connect.NewError(connect.CodeInvalidArgument, errors.New("the message ended too early, came too slowly or is damaged"))
	}
	refused := connect.NewError(connect.CodeResourceExhausted, errors.New(e.Detail))
	if e.Code.Status == http.StatusServiceUnavailable {
		refused = connect.NewError(connect.CodeUnavailable, errors.New(e.Detail))
		refused.Meta().Set("Retry-After", "1")
	}
	return refused
}

// encodingWriter says which encodings are accepted: Connect leaves the header empty when it unpacks nothing itself.
type encodingWriter struct {
	http.ResponseWriter
	accepted string
}

func (w encodingWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w encodingWriter) Flush() { _ = w.FlushError() }

// FlushError reports whether the client takes what was written.
func (w encodingWriter) FlushError() error {
	w.say()
	return http.NewResponseController(w.ResponseWriter).Flush()
}

func (w encodingWriter) WriteHeader(status int) {
	w.say()
	w.ResponseWriter.WriteHeader(status)
}

func (w encodingWriter) Write(p []byte) (int, error) {
	w.say()
	return w.ResponseWriter.Write(p)
}

func (w encodingWriter) say() {
	h, name := w.Header(), acceptEncoding
	if _, has := h[headerAccepted]; has || strings.HasPrefix(h.Get("Content-Type"), "application/grpc") {
		name = headerAccepted
	}
	h[name] = []string{w.accepted}
}
