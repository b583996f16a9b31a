package node

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/duehook/duehook/internal/job"
)

// certificatePause is how long a renewed certificate may go unnoticed.
const certificatePause = 10 * time.Second

// certificate is the API's certificate, reloaded when its files change.
type certificate struct {
	certFile, keyFile string
	clock             job.Clock
	log               *slog.Logger
	current           atomic.Pointer[tls.Certificate]

	// Of the last reading, used by run alone.
	certPEM, keyPEM []byte
	failure         string
}

func openCertificate(certFile, keyFile string, clock job.Clock, log *slog.Logger) (*certificate, error) {
	c := &certificate{certFile: certFile, keyFile: keyFile, clock: clock, log: log}
	if _, err := c.read(); err != nil {
		return nil, err
	}
	return c, nil
}

func (c *certificate) config() *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.current.Load(), nil },
	}
}

// run looks for changes until ctx ends. It compares contents, because files are
// renewed in many ways: written over, renamed, or by a link to their directory.
func (c *certificate) run(ctx context.Context) error {
	for job.Sleep(ctx, c.clock, certificatePause) == nil {
		changed, err := c.read()
		if err != nil {
			if err.Error() != c.failure { // one of the files may be written before the other
				c.failure = err.Error()
				c.log.Warn("reloading the API's certificate failed; the old one stays in use", "error", err)
			}
			continue
		}
		c.failure = ""
		if changed {
			c.log.Info("the API has a new certificate", "expires", c.current.Load().Leaf.NotAfter)
		}
	}
	return nil
}

// read reads the files and reports whether they changed.
func (c *certificate) read() (changed bool, err error) {
	certPEM, err := os.ReadFile(c.certFile)
	if err != nil {
		return false, fmt.Errorf("--tls-cert: %w", err)
	}
	keyPEM, err := os.ReadFile(c.keyFile)
	if err != nil {
		return false, fmt.Errorf("--tls-key: %w", err)
	}
	if bytes.Equal(certPEM, c.certPEM) && bytes.Equal(keyPEM, c.keyPEM) {
		return false, nil
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return false, fmt.Errorf("--tls-cert and --tls-key: %w", err)
	}
	c.certPEM, c.keyPEM = certPEM, keyPEM
	c.current.Store(&pair)
	return true, nil
}
