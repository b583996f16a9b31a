package node

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/node/config"
	"github.com/duehook/duehook/internal/services/access"
	"github.com/duehook/duehook/internal/testing/testenv"
)

// keyLine is a key whose token nobody has.
const keyLine = "id=abcdefgh scope=admin sha256=2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"

// newKey makes a key, in the default namespace unless another one is given: its token, and its line
// for --api-keys.
func newKey(t *testing.T, d access.Draft, namespace ...string) (token, line string) {
	t.Helper()
	made, key, err := d.Key(append(namespace, access.DefaultNamespace)[0], job.InstantOf(time.Now()))
	if err != nil {
		t.Fatal(err)
	}
	return made.Reveal(), key.Line()
}

func (r *running) status(client *http.Client, path, token string, change ...func(*http.Request)) int {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), http.MethodGet, r.base+path, http.NoBody)
	if err != nil {
		r.t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	for _, c := range change {
		c(req)
	}
	resp, err := client.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	_, _ = io.Copy(io.Discard, resp.Body) // so that the connection is kept
	return resp.StatusCode
}

// A key that is made on one node is known to the others, and so is its end.
func TestKeysAreSharedByTheNodes(t *testing.T) {
	t.Parallel()
	redis := testenv.StartRedis(t)
	token, line := newKey(t, access.Draft{Scope: "admin"})
	settings := []string{"--addr=127.0.0.1:0", "--workers=8", "--data-dir", t.TempDir(), "--redis-url", redis.URL(), "--api-keys", line}
	a, b := start(t, load(t, settings...)), start(t, load(t, settings...))

	manage := func(method, path, body string, want int) string {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, a.base+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		if body != "" {
			req.Header.Set("Content-Type", "application/json")
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		content, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != want {
			t.Fatalf("%s %s: %d %s, %v", method, path, resp.StatusCode, content, err)
		}
		return string(content)
	}
	made := manage(http.MethodPost, "/v1/keys", `{"scope":"read"}`, http.StatusCreated)
	_, second, _ := strings.Cut(made, `"token":"`)
	second, _, _ = strings.Cut(second, `"`)
	if got := a.status(http.DefaultClient, "/v1/topics", second); got != http.StatusOK {
		t.Errorf("where it was made, the key is answered %d", got)
	}
	testenv.Eventually(t, patience, func() bool { return b.status(http.DefaultClient, "/v1/topics", second) == http.StatusOK }, "the other node knows the key")
	manage(http.MethodDelete, "/v1/keys/"+strings.Split(second, "_")[1], "", http.StatusOK)
	if got := a.status(http.DefaultClient, "/v1/topics", second); got != http.StatusUnauthorized {
		t.Errorf("where it was revoked, the key is answered %d", got)
	}
	testenv.Eventually(t, patience, func() bool {
		return b.status(http.DefaultClient, "/v1/topics", second) == http.StatusUnauthorized
	}, "the other node knows that the key is revoked")
	for _, r := range []*running{a, b} {
		if err := r.shutdown(); err != nil {
			t.Error(err)
		}
	}
}

func TestAccessSettingsReachTheAPI(t *testing.T) {
	token, line := newKey(t, access.Draft{Scope: "read"})
	foreign, foreignLine := newKey(t, access.Draft{Scope: "read"}, "other")
	r := start(t, load(t, "--addr=127.0.0.1:0", "--data-dir", t.TempDir(), "--api-keys", line, "--api-keys", foreignLine, "--api-rate=2/1d"))
	for _, tc := range []struct {
		path, token string
		want        int
	}{
		{"/livez", "", 200},
		{"/metrics", "", 401},
		{"/metrics", foreign, 403},
		{"/metrics", token, 200},
		{"/v1/keys", token, 403},
		{"/metrics", token, 429},
	} {
		if got := r.status(http.DefaultClient, tc.path, tc.token); got != tc.want {
			t.Errorf("%s: %d, want %d", tc.path, got, tc.want)
		}
	}
	if err := r.shutdown(); err != nil {
		t.Error(err)
	}
}

// Without keys, pages that bring their own name are kept out, unless the
// operator answers for who comes.
func TestForeignHosts(t *testing.T) {
	_, line := newKey(t, access.Draft{Scope: "read"})
	for flag, want := range map[string]int{
		"--namespace=default": http.StatusForbidden, "--insecure-no-api-keys": http.StatusOK, "--api-keys=" + line: http.StatusUnauthorized,
	} {
		r := start(t, load(t, "--addr=127.0.0.1:0", "--data-dir", t.TempDir(), flag))
		got := r.status(http.DefaultClient, "/v1/topics", "", func(r *http.Request) { r.Host = "evil.example" })
		if got != want {
			t.Errorf("%s: %d, want %d", flag, got, want)
		}
		if err := r.shutdown(); err != nil {
			t.Error(err)
		}
	}
}

// What --addr says and where that turns out to be are two things.
func TestListeningElsewhereThanItSeems(t *testing.T) {
	c := load(t, "--data-dir", t.TempDir())
	c.Addr = "0.0.0.0:0" // as if localhost stood for it
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	err := Run(ctx, Options{Config: c, Logger: slog.New(slog.DiscardHandler), Ready: func(string) { cancel() }})
	if err == nil || !strings.Contains(err.Error(), "there are no API keys") {
		t.Errorf("got %v", err)
	}
}

// writeCertificate makes a self-signed certificate for 127.0.0.1, and a pool
// that trusts it.
func writeCertificate(t *testing.T, certFile, keyFile string) *x509.CertPool {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<33, 0), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	for name, content := range map[string][]byte{
		certFile: certPEM, keyFile: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}),
	} {
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(certPEM)
	return pool
}

func TestHTTPS(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "c.pem"), filepath.Join(dir, "k.pem")
	pool := writeCertificate(t, certFile, keyFile)
	r := start(t, load(t, "--addr=127.0.0.1:0", "--data-dir", dir, "--tls-cert", certFile, "--tls-key", keyFile))
	if !strings.HasPrefix(r.base, "https://") {
		t.Fatalf("announced as %s", r.base)
	}
	client := func(c *tls.Config) *http.Client {
		c.RootCAs = pool
		transport := &http.Transport{TLSClientConfig: c, ForceAttemptHTTP2: true}
		t.Cleanup(transport.CloseIdleConnections)
		return &http.Client{Transport: transport}
	}
	modern := client(&tls.Config{})
	if got := r.status(modern, "/v1/topics", ""); got != http.StatusOK {
		t.Errorf("over TLS: %d", got)
	}
	resp, err := modern.Get(r.base + "/livez")
	if err != nil || resp.ProtoMajor != 2 {
		t.Errorf("%v, %v; want HTTP/2", resp, err)
	} else {
		_ = resp.Body.Close()
	}
	// Without HTTP, as HTTP/2 would refuse it on its own.
	old := tls.Dialer{Config: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}}
	if conn, err := old.DialContext(t.Context(), "tcp", strings.TrimPrefix(r.base, "https://")); err == nil {
		_ = conn.Close()
		t.Error("TLS 1.1 was accepted")
	}
	modern.CloseIdleConnections()
	if err := r.shutdown(); err != nil {
		t.Error(err)
	}
}

func TestCertificateThatCannotBeUsed(t *testing.T) {
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	writeCertificate(t, file("a.pem"), file("a.key"))
	writeCertificate(t, file("b.pem"), file("b.key"))
	for name, c := range map[string]*config.Config{
		"--tls-cert": load(t, "--tls-cert", file("none"), "--tls-key", file("a.key")),
		"--tls-key":  load(t, "--tls-cert", file("a.pem"), "--tls-key", file("none")),
		"match":      load(t, "--tls-cert", file("a.pem"), "--tls-key", file("b.key")),
	} {
		err := Run(t.Context(), Options{Config: c, Logger: slog.New(slog.DiscardHandler)})
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A renewed certificate is used without a restart, and a broken one is not.
func TestCertificateIsReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		certFile, keyFile := filepath.Join(dir, "c.pem"), filepath.Join(dir, "k.pem")
		writeCertificate(t, certFile, keyFile)
		var log bytes.Buffer
		c, err := openCertificate(certFile, keyFile, job.SystemClock(), slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- c.run(ctx) }()
		served := func() *tls.Certificate {
			time.Sleep(2 * certificatePause) //nolint:forbidigo // the bubble's time
			synctest.Wait()
			cert, err := c.config().GetCertificate(nil)
			if err != nil {
				t.Fatal(err)
			}
			return cert
		}

		first := served()
		writeCertificate(t, certFile, keyFile)
		second := served()
		if second == first || strings.Count(log.String(), "new certificate") != 1 {
			t.Errorf("the new certificate is not used: %s", &log)
		}
		writeCertificate(t, certFile, filepath.Join(dir, "other"))
		if third := served(); third != second || strings.Count(log.String(), "reloading the API's certificate failed") != 1 {
			t.Errorf("a certificate without its key is used, or its failure not logged once: %s", &log)
		}
		writeCertificate(t, certFile, keyFile)
		if fourth := served(); fourth == second || strings.Count(log.String(), "new certificate") != 2 {
			t.Errorf("the repaired certificate is not used: %s", &log)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
