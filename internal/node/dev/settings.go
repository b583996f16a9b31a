package dev

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/duehook/duehook/internal/node/config"
)

// Secret signs the deliveries of a dev server without --signing-secret. It is public.
var Secret = "whsec_" + base64.StdEncoding.EncodeToString([]byte("duehook-dev-secret-known-to-all!"))

// forever outlasts every request, however fast the clock runs: no worker dies here, whose lease
// would have to end.
const forever = 10 * 365 * 24 * time.Hour

// Environ are the settings that a dev server has by default, in place of those of the environment: variables of a
// server may be set there.
var Environ = []string{
	"DUEHOOK_ALLOW_CIDRS=127.0.0.0/8,::1/128",
	"DUEHOOK_RETRY_JITTER=0", // so that tests know the times
	"DUEHOOK_RETENTION=30d",
	"DUEHOOK_CATCH_UP_RATE=100000",
	"DUEHOOK_LOG_LEVEL=warn",
}

// Settings are those of a dev server with flags of serve.
func Settings(args []string) (*config.Config, error) {
	c, err := config.Load(args, Environ)
	if err != nil {
		return nil, err
	}
	return c, Complete(c)
}

// Complete has a server with settings, read with Environ, keep everything in memory.
func Complete(c *config.Config) error {
	if !c.Embedded() || !c.Open() || c.DataDir != config.Default().DataDir {
		return &config.UsageError{Message: "duehook dev keeps everything in memory and needs no keys: leave out --redis-url, --data-dir and --api-keys"}
	}
	if c.StartPaused {
		return &config.UsageError{Message: "--start-paused is for restored databases: use duehook dev --frozen to look first"}
	}
	if c.Signed() {
		c.SigningSecret = cmp.Or(c.SigningSecret, Secret)
		c.MasterKey = cmp.Or(c.MasterKey, strings.TrimPrefix(Secret, "whsec_"))
	}
	c.DataDir = "" // in memory
	c.Lease, c.Visibility = forever, forever
	return nil
}

// Announce writes what to do next.
func Announce(w io.Writer, version, base string) {
	_, _ = fmt.Fprintf(w, `
duehook dev %[1]s: %[2]s (API, and the dashboard for your browser)
Everything is in memory. No key is needed, and receivers on this machine are allowed.

  Register a job:      curl %[2]s/v1/jobs -H 'Content-Type: application/json' -d '{"topic":"orders","id":"1","url":"http://sink/shop/paid","delay":"30m"}'
  Turn the clock:      curl %[2]s/v1/dev/clock -H 'Content-Type: application/json' -d '{"advance":"30m"}'
  See the delivery:    curl %[2]s/v1/dev/sinks/shop
  Have it fail once:   curl -X PUT %[2]s/v1/dev/sinks/shop -H 'Content-Type: application/json' -d '{"answers":[{"status":503},{"status":200}]}'
  Run 240 × as fast:   curl %[2]s/v1/dev/clock -H 'Content-Type: application/json' -d '{"speed":240}'
  Verify signatures:   %[3]s
  More: docs/testing.md, and %[2]s/v1/dev/openapi.json

`, version, base, Secret)
}
