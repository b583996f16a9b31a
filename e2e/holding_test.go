package e2e

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/services/access"
)

const (
	// holdFor is how long each attack lasts, and holdQuiet how long the other client is watched before.
	holdFor, holdQuiet = 8 * time.Second, 5 * time.Second
	// holdPause is how long an attacker waits before each further call: it attacks memory, and leaves the processor to others.
	holdPause = time.Second
	// holdMost bounds the memory of the node during an attack.
	holdMost = 400 << 20
)

// holding is an attack by clients that make a node hold memory.
type holding struct {
	name string
	// run attacks until ctx ends.
	run func(ctx context.Context, h *holder)
}

// holder is what attacks need.
type holder struct {
	t                 *testing.T
	addr              string
	reader, writer    string // tokens of attackers
	workers           sync.WaitGroup
	gzipped, existing []byte
}

// many runs n clients at once.
func (h *holder) many(n int, f func(i int)) {
	for i := range n {
		h.workers.Go(func() { f(i) })
	}
	h.workers.Wait()
}

// unread opens as many streams as it can on each of n connections of HTTP/2, and never reads an answer. Streams that end are
// opened again. body is sent, all but its last byte if cut.
func (h *holder) unread(ctx context.Context, n int, token string, body []byte, cut bool, fields ...string) {
	h.many(n, func(int) {
		for ctx.Err() == nil { // a node closes a connection that sends more than its window: another one comes later
			h.streams(ctx, token, body, cut, fields)
			_ = job.Sleep(ctx, clock, holdPause)
		}
	})
}

// streams is one connection of unread.
func (h *holder) streams(ctx context.Context, token string, body []byte, cut bool, fields []string) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", h.addr)
	if err != nil {
		return
	}
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	_, _ = io.WriteString(conn, http2.ClientPreface)
	framer := http2.NewFramer(conn, conn)
	var writing sync.Mutex
	_ = framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
	free := make(chan struct{}, 250)
	for range cap(free) {
		free <- struct{}{}
	}
	gone := make(chan struct{})
	h.workers.Go(func() {
		defer close(gone)
		for {
			f, err := framer.ReadFrame()
			if err != nil {
				return
			}
			switch f := f.(type) {
			case *http2.SettingsFrame:
				if !f.IsAck() {
					writing.Lock()
					_ = framer.WriteSettingsAck()
					writing.Unlock()
				}
			case *http2.RSTStreamFrame:
				if f.ErrCode == http2.ErrCodeRefusedStream { // there are as many as the node allows
					continue
				}
				select {
				case free <- struct{}{}:
				default:
				}
			case *http2.GoAwayFrame:
				return
			}
		}
	})
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for id := uint32(1); ; id += 2 {
		select {
		case <-free:
		case <-gone:
			return
		case <-ctx.Done():
			return
		}
		block.Reset()
		for i := 0; i < len(fields); i += 2 {
			_ = encoder.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
		}
		_ = encoder.WriteField(hpack.HeaderField{Name: ":authority", Value: h.addr})
		_ = encoder.WriteField(hpack.HeaderField{Name: ":scheme", Value: "http"})
		if token != "" {
			_ = encoder.WriteField(hpack.HeaderField{Name: "authorization", Value: "Bearer " + token})
		}
		if body != nil {
			_ = encoder.WriteField(hpack.HeaderField{Name: "content-length", Value: strconv.Itoa(len(body))})
		}
		writing.Lock()
		err := h.headers(framer, id, block.Bytes(), body == nil)
		for sent := 0; err == nil && sent < len(body); {
			part := body[sent:min(len(body), sent+16<<10)]
			sent += len(part)
			if last := sent == len(body); last && cut {
				err = framer.WriteData(id, false, part[:len(part)-1])
			} else {
				err = framer.WriteData(id, last, part)
			}
		}
		writing.Unlock()
		if err != nil {
			return
		}
		if id > 500 { // it holds what it can: now it keeps that up
			_ = job.Sleep(h.t.Context(), clock, holdPause)
		}
	}
}

// headers writes a block in frames.
func (h *holder) headers(framer *http2.Framer, id uint32, block []byte, end bool) error {
	first := block[:min(len(block), 16<<10)]
	rest := block[len(first):]
	err := framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: first, EndStream: end, EndHeaders: len(rest) == 0})
	for err == nil && len(rest) > 0 {
		part := rest[:min(len(rest), 16<<10)]
		rest = rest[len(part):]
		err = framer.WriteContinuation(id, len(rest) == 0, part)
	}
	return err
}

// repeated makes calls, n at once, and reads their answers.
func (h *holder) repeated(ctx context.Context, n int, token, method, path string, body []byte) {
	transport := &http.Transport{MaxConnsPerHost: n}
	defer transport.CloseIdleConnections()
	h.many(n, func(int) {
		for ctx.Err() == nil {
			r, err := http.NewRequestWithContext(ctx, method, "http://"+h.addr+path, bytes.NewReader(body))
			if err != nil {
				h.t.Error(err)
				return
			}
			r.Header.Set("Authorization", "Bearer "+token)
			r.Header.Set("Content-Type", "application/json")
			if answer, err := transport.RoundTrip(r); err == nil {
				_, _ = io.Copy(io.Discard, answer.Body)
				_ = answer.Body.Close()
			}
			_ = job.Sleep(ctx, clock, holdPause)
		}
	})
}

// raw opens n connections of HTTP/1, sends a text on each, and never reads.
func (h *holder) raw(ctx context.Context, n int, text string) {
	h.many(n, func(int) {
		for ctx.Err() == nil {
			conn, err := new(net.Dialer).DialContext(ctx, "tcp", h.addr)
			if err != nil {
				continue
			}
			_ = conn.(*net.TCPConn).SetReadBuffer(4 << 10)
			_, _ = io.WriteString(conn, text)
			select {
			case <-ctx.Done():
			case <-time.After(holdFor / 2):
			}
			_ = conn.Close()
		}
	})
}

const (
	listing  = "/v1/jobs?limit=1000"
	grpcCall = "/duehook.v1.Jobs/RegisterBatch"
)

// holdings are the attacks.
var holdings = []holding{
	{"lists on HTTP/2 that nobody reads", func(ctx context.Context, h *holder) {
		h.unread(ctx, 30, h.reader, nil, false, ":method", "GET", ":path", listing)
	}},
	{"lists on HTTP/1 that nobody reads", func(ctx context.Context, h *holder) {
		h.raw(ctx, 300, strings.Repeat("GET "+listing+" HTTP/1.1\r\nHost: "+h.addr+"\r\nAuthorization: Bearer "+h.reader+"\r\n\r\n", 20))
	}},
	{"all but the last byte of bodies", func(ctx context.Context, h *holder) {
		h.unread(ctx, 60, h.writer, bytes.Repeat([]byte{' '}, 60_000), true, ":method", "POST", ":path", "/v1/jobs", "content-type", "application/json")
	}},
	{"messages of gRPC in gzip that grow", func(ctx context.Context, h *holder) {
		h.unread(ctx, 20, h.writer, h.gzipped, false, ":method", "POST", ":path", grpcCall, "content-type", "application/grpc", "grpc-encoding", "gzip", "te", "trailers")
	}},
	{"pages for browsers without a key that nobody reads", func(ctx context.Context, h *holder) {
		h.unread(ctx, 100, "", nil, false, ":method", "GET", ":path", "/openapi.json")
	}},
	{"refusals that nobody reads", func(ctx context.Context, h *holder) {
		h.unread(ctx, 100, "", nil, false, ":method", "GET", ":path", listing)
	}},
	{"headers of 30 KB", func(ctx context.Context, h *holder) {
		h.unread(ctx, 60, h.reader, nil, false, ":method", "GET", ":path", "/v1/events", "x-pad", padding[:30_000])
	}},
	{"streams of events that nobody reads", func(ctx context.Context, h *holder) {
		h.unread(ctx, 60, h.reader, nil, false, ":method", "GET", ":path", "/v1/events")
	}},
	{"descriptions by gRPC without a key", func(ctx context.Context, h *holder) {
		h.unread(ctx, 60, "", []byte{0, 0, 0, 0, 2, 58, 0, 0}, true, ":method", "POST", ":path", "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", "content-type", "application/grpc", "te", "trailers")
	}},
	{"previews of every second before a change of the clock", func(ctx context.Context, h *holder) {
		h.repeated(ctx, 12, h.reader, "POST", "/v1/schedules/preview", []byte(`{"cron":"* * * * * *","timezone":"America/New_York","from":"2027-03-14T06:59:00Z","limit":1000}`))
	}},
	{"batches of jobs that exist and are large", func(ctx context.Context, h *holder) {
		h.repeated(ctx, 30, h.writer, "POST", "/v1/jobs/batch", h.existing)
	}},
	{"dry runs of batches of jobs that exist and are large", func(ctx context.Context, h *holder) {
		h.repeated(ctx, 30, h.writer, "POST", "/v1/jobs/batch?dry_run=true", h.existing)
	}},
	{"repeated registrations for a group with large bodies", func(ctx context.Context, h *holder) {
		h.repeated(ctx, 60, h.writer, "POST", "/v1/jobs", []byte(`{"topic":"hold","id":"many","group":"hold"}`))
	}},
	{"idle connections", func(ctx context.Context, h *holder) { h.raw(ctx, 1500, "") }},
}

// TestSoakWhatClientsHold attacks a node with clients that make it hold memory, and reports its memory at most, and how much
// later than before another client is answered. Memory is bounded, processor time is not.
func TestSoakWhatClientsHold(t *testing.T) {
	tokens := map[string]string{}
	var keys []string
	for _, scope := range []string{"admin", "write", "read"} {
		made, key, err := access.Draft{Scope: scope}.Key(access.DefaultNamespace, 0)
		if err != nil {
			t.Fatal(err)
		}
		tokens[scope], keys = made.Reveal(), append(keys, key.Line())
	}
	few := func() (string, error) {
		path, err := shipped()
		if err != nil {
			return "", err
		}
		script := filepath.Join(t.TempDir(), "duehook")
		return script, os.WriteFile(script, fmt.Appendf(nil, "#!/bin/sh\nulimit -n 2048\nexec %s \"$@\"\n", path), 0o700)
	}
	n := startEmbedded(t, few, "--api-keys="+strings.Join(keys, ","), "--workers=8")
	h := &holder{t: t, addr: strings.TrimPrefix(n.base(), "http://"), reader: tokens["read"], writer: tokens["write"]}
	h.prepare(tokens["admin"])
	for _, attack := range holdings {
		t.Run(attack.name, func(t *testing.T) {
			quiet := h.watch(tokens["admin"], holdQuiet)
			_ = os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", n.pid()), []byte("5"), 0) // VmHWM begins again
			ctx, end := context.WithTimeout(t.Context(), holdFor)
			defer end()
			done := make(chan struct{})
			go func() { defer close(done); attack.run(ctx, h) }()
			busy := h.watch(tokens["admin"], holdFor)
			<-done
			most := n.memory("VmHWM")
			t.Logf("%d MiB at most; others' calls: p50 %v, p99 %v, %d failed; before: p50 %v, p99 %v", most>>20, busy.at(0.5), busy.at(0.99), busy.failed, quiet.at(0.5), quiet.at(0.99))
			if most > holdMost || busy.failed*50 > len(busy.took) || !n.alive() {
				t.Errorf("the node took %d MiB, the limit is %d; %d of %d calls of another client failed", most>>20, holdMost>>20, busy.failed, len(busy.took))
			}
		})
	}
}

// watched are the times in which another client was answered.
type watched struct {
	took   []time.Duration
	failed int
}

func (w *watched) at(share float64) time.Duration {
	slices.Sort(w.took)
	return w.took[int(share*float64(len(w.took)-1))].Round(10 * time.Microsecond)
}

// watch registers, lists and probes by another key for a while, every 5 ms.
func (h *holder) watch(token string, d time.Duration) *watched {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 5 * time.Second}
	var w watched
	for begin, i := time.Now(), 0; time.Since(begin) < d; i++ {
		method, path, body := "POST", "/v1/jobs", `{"topic":"other","url":"https://shop.example","delay":"24h"}`
		switch i % 3 {
		case 1:
			method, path, body = "GET", "/v1/jobs?topic=other&limit=10", ""
		case 2:
			method, path, body = "GET", "/livez", ""
		}
		r, err := http.NewRequestWithContext(h.t.Context(), method, "http://"+h.addr+path, strings.NewReader(body))
		if err != nil {
			h.t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		r.Header.Set("Content-Type", "application/json")
		at := time.Now()
		answer, err := client.Do(r)
		if err == nil {
			_, err = io.Copy(io.Discard, answer.Body)
			_ = answer.Body.Close()
		}
		if err != nil || answer.StatusCode/100 != 2 {
			w.failed++
		}
		w.took = append(w.took, time.Since(at))
		pause(h.t, 5*time.Millisecond)
	}
	return &w
}

// prepare registers what attacks ask for.
func (h *holder) prepare(token string) {
	post := func(method, path string, body any) {
		answer, err := call(h.t.Context(), method, "http://"+h.addr+path, map[string]string{"Authorization": "Bearer " + token}, body)
		if err != nil || answer.status/100 != 2 {
			h.t.Fatalf("%s %s: %v %d %.300s", method, path, err, answer.status, answer.body)
		}
	}
	var members []map[string]any
	for i := range 200 {
		members = append(members, map[string]any{"name": fmt.Sprint("m", i), "url": "https://shop.example/" + fmt.Sprint(i)})
	}
	post("PUT", "/v1/groups/hold", map[string]any{"members": members})
	post("POST", "/v1/jobs", map[string]any{"topic": "hold", "id": "many", "group": "hold", "delay": "24h", "body_text": padding[:60_000]})
	var exist strings.Builder
	for i := range 300 {
		post("POST", "/v1/jobs", map[string]any{"topic": "large", "id": fmt.Sprint(i), "url": "https://shop.example", "delay": "24h", "body_text": padding[:100_000]})
		_, _ = fmt.Fprintf(&exist, `{"topic":"large","id":"%d","url":"https://shop.example","on_conflict":"ignore"},`, i)
	}
	h.existing = []byte(`{"jobs":[` + strings.TrimSuffix(exist.String(), ",") + "]}")
	for range 5 {
		var jobs []map[string]any
		for range 1000 {
			jobs = append(jobs, map[string]any{"topic": "small", "url": "https://shop.example/" + padding[:200], "delay": "24h", "labels": map[string]string{"a": padding[:200]}})
		}
		post("POST", "/v1/jobs/batch", map[string]any{"jobs": jobs})
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = z.Write(bytes.Repeat([]byte{10, 0}, 4<<20))
	_ = z.Close()
	h.gzipped = append(binary.BigEndian.AppendUint32([]byte{1}, uint32(packed.Len())), packed.Bytes()...)
}
