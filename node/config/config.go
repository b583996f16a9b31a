// Package config gathers duehook's settings from flags, the environment, a
// YAML file and defaults, in that order of precedence, and refuses what cannot
// work before anything is started. One table, in settings.go, is behind all of
// them and behind the help text and docs/settings.md.
package config

import (
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	"github.com/duehook/duehook/internal/services/access"
)

// Config is every setting, checked.
type Config struct {
	Addr    string        // where the API listens, host:port
	MaxBody int           // bytes of a callback's body
	Grace   time.Duration // how long requests under way may take to end at shutdown
	// DrainDelay is how long requests are still taken after readiness ended.
	DrainDelay time.Duration

	Dashboard bool // serve pages for browsers

	APIKeys           []access.Key // that callers may have
	InsecureNoAPIKeys bool         // listen beyond loopback without keys
	APIRate           access.Rate  // of keys without a rate of their own; zero: no limit
	// TLSCert and TLSKey are PEM files; with them the API is served over HTTPS.
	TLSCert, TLSKey string

	DataDir   string // of the embedded store
	RedisURL  string // empty: the embedded store
	LedgerURL string // empty: no ledger
	// LedgerDown says what becomes of registrations while the ledger is down:
	// refuse or accept.
	LedgerDown string
	Namespace  string        // keeps several duehooks on one Redis apart
	Shards     int           // parts that jobs are spread over on Redis
	Retention  time.Duration // how long a finished job can be looked up
	// LedgerRetention is how long the journal keeps one, at least Retention.
	LedgerRetention time.Duration
	// RedisMinReplicas is how many replicas must have what a client is told of;
	// RedisReplicaWait is how long they are waited for.
	RedisMinReplicas int
	RedisReplicaWait time.Duration

	Signing       string // on or off
	SigningSecret string // of deliveries; empty: made and kept
	MasterKey     string // seals the secrets that are kept

	AllowCIDRs  []netip.Prefix // refused address ranges that may be delivered to
	Timeout     time.Duration  // of one attempt of a job that names none
	MaxTimeout  time.Duration  // most that a job may name
	RetrySteps  []time.Duration
	RetryJitter float64       // share of a step by which it is varied, 0..1
	Workers     int           // concurrent attempts
	Lease       time.Duration // of a claimed job without a timeout of its own
	Visibility  time.Duration // until a carried job that nobody claims is due again
	// EndpointConcurrency is the most carried and claimed jobs of one endpoint;
	// TopicConcurrency is the same of single topics for one endpoint.
	EndpointConcurrency int
	TopicConcurrency    map[string]int
	ConnectRetries      int           // of one attempt; 0: none
	CatchUpRate         int           // jobs/s brought forward after an outage; 0: none
	ReadyCap            int           // most hints on one shard's ready list
	BreakerFailures     int           // failures in a row that open an endpoint's breaker; 0: no breakers
	BreakerOpen         time.Duration // how long it stays open

	LogLevel  slog.Level
	LogFormat string // auto, text or json

	origins map[string]string
}

// LeaseMargin is what is left of a lease when a request has used up all its
// time: it covers writing down the outcome, with retries.
func (c *Config) LeaseMargin() time.Duration { return c.Lease - c.Timeout }

// Embedded reports whether jobs are kept in this process, without Redis.
func (c *Config) Embedded() bool { return c.RedisURL == "" }

// AcceptWithoutLedger reports whether jobs are taken while the ledger is down.
func (c *Config) AcceptWithoutLedger() bool { return c.LedgerDown == ledgerAccept }

// Signed reports whether deliveries are signed.
func (c *Config) Signed() bool { return c.Signing == signingOn }

// Open reports whether the API asks nobody for a key.
func (c *Config) Open() bool { return len(c.APIKeys) == 0 }

// Origin says where the named setting's value came from.
func (c *Config) Origin(name string) string { return c.origins[name] }

// Default is the configuration of a server that was told nothing.
func Default() *Config {
	c, err := Load(nil, nil)
	if err != nil {
		panic(fmt.Sprintf("config: the defaults are refused: %v", err)) // a bug in the table
	}
	return c
}

// A UsageError is a command line, environment or file that cannot be
// followed. Its message says what to do.
type UsageError struct{ Message string }

func (e *UsageError) Error() string { return e.Message }

func usagef(format string, args ...any) *UsageError {
	return &UsageError{Message: fmt.Sprintf(format, args...)}
}
