package receiver

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/duehook/duehook/internal/job"
)

// readyWord begins the line that Serve prints when it serves; its URLs follow.
const readyWord = "receiver"

// ParseReady reads the line that Serve prints.
func ParseReady(line string) (c Client, ok bool) {
	n, err := fmt.Sscanf(line, readyWord+" %s %s", &c.Base, &c.SecureBase)
	return c, err == nil && n == 2
}

// Serve runs a receiver until ctx ends, by HTTP and by HTTPS. The certificate
// that clients have to trust is written to the file.
func Serve(ctx context.Context, certFile string, out io.Writer) error {
	clock := job.SystemClock()
	config, err := selfSigned(clock.Now(), certFile)
	if err != nil {
		return err
	}
	var listen net.ListenConfig
	plain, err := listen.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	secure, err := listen.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return errors.Join(err, plain.Close())
	}
	server := &http.Server{Handler: New(clock).Handler(), ReadHeaderTimeout: time.Minute}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if _, err := fmt.Fprintf(out, "%s http://%s https://%s\n", readyWord, plain.Addr(), secure.Addr()); err != nil {
		return err
	}
	var both errgroup.Group
	both.Go(func() error { return server.Serve(plain) })
	both.Go(func() error { return server.Serve(tls.NewListener(secure, config)) })
	if err := both.Wait(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// selfSigned makes a certificate for loopback.
func selfSigned(now time.Time, file string) (*tls.Config, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	if err := os.WriteFile(file, certificate, 0o600); err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion:   tls.VersionTLS12,
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
	}, nil
}
