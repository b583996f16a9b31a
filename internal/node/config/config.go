// Package config reads duehook's settings from flags, the environment, a YAML file
// and defaults, in that order of precedence. It rejects settings that cannot work
// before the node starts. One table, in settings.go, defines all of this, the help
// text and docs/settings.md.
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
	Addr         string        // where the API listens, host:port
	DebugAddr    string        // of profiles; empty: there are none
	MaxBody      int           // bytes of a job's body
	MemoryBudget int           // bytes that requests hold
	Grace        time.Duration // for requests in flight to finish at shutdown
	// DrainDelay is how long the API accepts requests after readiness ended.
	DrainDelay time.Duration

	Dashboard bool     // serve pages for browsers
	Dialects  []string // of the API, besides v1

	APIKeys           []access.Key
	InsecureNoAPIKeys bool        // listen beyond loopback without keys
	APIRate           access.Rate // of keys without their own rate; zero: no limit
	// TLSCert and TLSKey are PEM files; with them the API is served over HTTPS.
	TLSCert, TLSKey string

	DataDir   string        // of the embedded store
	RedisURL  string        // empty: jobs are not in Redis
	Namespace string        // separates several duehooks on one Redis
	Shards    int           // on Redis
	Retention time.Duration // how long an ended job can be looked up
	// RedisMinReplicas is how many replicas must confirm a change before a client
	// does; RedisReplicaWait is how long a change waits for them.
	RedisMinReplicas int
	RedisReplicaWait time.Duration

	PostgresURL         string // empty: jobs are not in PostgreSQL
	PostgresDirectURL   string // of the same database, past a pooler; empty: PostgresURL is direct
	PostgresSchema      string // separates several duehooks in one database
	PostgresConnections int    // most connections of the node

	Inboxes     []Named       // their names and URLs
	InboxTopics []Named       // patterns of topics that an inbox may use; none of an inbox: all
	InboxPoll   time.Duration // longest pause between looks at an idle inbox

	Signing       string // on or off
	SigningSecret string // of deliveries; empty: a node creates and stores one
	MasterKey     string // encrypts stored secrets

	AllowCIDRs []netip.Prefix // ranges that the guard would refuse
	Timeout    time.Duration  // of one attempt, for jobs without their own
	MaxTimeout time.Duration  // largest timeout of a job
	// ScheduleRate bounds the jobs that schedules register, per second; 0: no bound.
	ScheduleRate int
	RetrySteps   []time.Duration
	RetryJitter  float64       // random variation of a step, as a share from 0 to 1
	Deliver      bool          // otherwise the node only answers calls
	StartPaused  bool          // no node on the store delivers until an operator resumes
	Workers      int           // concurrent attempts
	Lease        time.Duration // of jobs without their own timeout
	Visibility   time.Duration // until a carried, unclaimed job is due again
	// EndpointConcurrency is the most jobs in flight of one endpoint;
	// TopicConcurrency is that of a topic at one endpoint.
	EndpointConcurrency int
	TopicConcurrency    map[string]int
	ConnectRetries      int           // of one attempt; 0: none
	TZData              string        // a file with time zones; empty: those of the program
	CallbackResponse    int           // bytes of an answer that a callback contains; 0: none
	CatchUpRate         int           // jobs/s brought forward after an outage; 0: none
	ReadyCap            int           // most hints on one shard's ready list
	BreakerFailures     int           // failures in a row that open an endpoint's circuit; 0: no circuits
	BreakerOpen         time.Duration // how long a circuit stays open

	LogLevel  slog.Level
	LogFormat string // auto, text or json

	origins map[string]string
}

// Named is a value with a name.
type Named struct{ Name, Value string }

// LeaseMargin is the rest of a lease after a request that took its whole timeout. It
// covers storing the outcome, with retries.
func (c *Config) LeaseMargin() time.Duration { return c.Lease - c.Timeout }

// The stores.
const (
	StoreEmbedded = "embedded"
	StoreRedis    = "redis"
	StorePostgres = "postgres"
)

// Store returns which store keeps the jobs.
func (c *Config) Store() string {
	switch {
	case c.RedisURL != "":
		return StoreRedis
	case c.PostgresURL != "":
		return StorePostgres
	}
	return StoreEmbedded
}

// Embedded reports whether this process stores the jobs, without a server.
func (c *Config) Embedded() bool { return c.Store() == StoreEmbedded }

// Signed reports whether deliveries are signed.
func (c *Config) Signed() bool { return c.Signing == signingOn }

// Open reports whether the API requires no keys.
func (c *Config) Open() bool { return len(c.APIKeys) == 0 }

// Origin returns the source of a setting's value.
func (c *Config) Origin(name string) string { return c.origins[name] }

// Default returns the configuration without any settings.
func Default() *Config {
	c, err := Load(nil, nil)
	if err != nil {
		panic(fmt.Sprintf("config: the defaults are invalid: %v", err)) // a bug in the table
	}
	return c
}

// A UsageError reports an invalid command line, environment or settings file. Its
// message says what to do.
type UsageError struct{ Message string }

func (e *UsageError) Error() string { return e.Message }

func usagef(format string, args ...any) *UsageError {
	return &UsageError{Message: fmt.Sprintf(format, args...)}
}
