package config

import (
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/duehook/duehook/dispatcher"
	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/retrypolicy"
	"github.com/duehook/duehook/store/redisstore"
)

// setting is one row of the table.
type setting struct {
	name  string // of the flag; the other names follow from it
	group string
	hint  string // what the value looks like, for help
	def   string // the default as one would write it; empty: worked out by derive, or none
	// shown replaces an empty def in help.
	shown string
	help  string
	// secret values are masked when shown and can be read from a file that
	// <ENV>_FILE names.
	secret bool
	list   bool // a comma-separated list; its flag may be repeated
	yesNo  bool // its flag may stand without a value
	bind   func(*Config) pflag.Value
}

// env is the name of the setting's environment variable.
func (s *setting) env() string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(s.name, "-", "_"))
}

// key is the setting's name in the YAML file.
func (s *setting) key() string { return strings.ReplaceAll(s.name, "-", "_") }

const (
	envPrefix  = "DUEHOOK_"
	fileSuffix = "_FILE"
	configFlag = "config"
)

const (
	groupAPI      = "API"
	groupStorage  = "Storage"
	groupDelivery = "Delivery"
	groupLogging  = "Logging"
)

var groups = []string{groupAPI, groupStorage, groupDelivery, groupLogging}

// The choices of --ledger-down.
const (
	ledgerRefuse = "refuse"
	ledgerAccept = "accept"
)

// The choices of --signing.
const (
	signingOn  = "on"
	signingOff = "off"
)

// ledgerFile is the embedded store's journal in the data directory.
const ledgerFile = "duehook.db"

// defaultLedgerRetention covers backups of Redis that are made daily.
const defaultLedgerRetention = 48 * time.Hour

var settings = []setting{
	{
		name: "addr", group: groupAPI, hint: "host:port", def: "127.0.0.1:7788",
		help: "address of the API; port 0 selects a free port",
		bind: func(c *Config) pflag.Value { return (*stringValue)(&c.Addr) },
	},
	{
		name: "api-keys", group: groupAPI, hint: "key,…", shown: "none", secret: true, list: true,
		help: "API keys, as printed by duehook apikey new; required to listen beyond loopback",
		bind: func(c *Config) pflag.Value { return (*keysValue)(&c.APIKeys) },
	},
	{
		name: "insecure-no-api-keys", group: groupAPI, def: "false", yesNo: true,
		help: "require no keys, even beyond loopback: every client has full access",
		bind: func(c *Config) pflag.Value { return (*boolValue)(&c.InsecureNoAPIKeys) },
	},
	{
		name: "api-rate", group: groupAPI, hint: "rate", shown: "no limit",
		help: "most requests of a key without a rate of its own, such as 100/1s",
		bind: func(c *Config) pflag.Value { return (*rateValue)(&c.APIRate) },
	},
	{
		name: "tls-cert", group: groupAPI, hint: "file", shown: "none: plain HTTP",
		help: "certificate chain in PEM, for HTTPS with TLS 1.2 or later; reloaded when the file changes",
		bind: func(c *Config) pflag.Value { return (*stringValue)(&c.TLSCert) },
	},
	{
		name: "tls-key", group: groupAPI, hint: "file", shown: "none",
		help: "private key of --tls-cert in PEM",
		bind: func(c *Config) pflag.Value { return (*stringValue)(&c.TLSKey) },
	},
	{
		name: "dashboard", group: groupAPI, def: "true", yesNo: true,
		help: "serve the dashboard at /",
		bind: func(c *Config) pflag.Value { return (*boolValue)(&c.Dashboard) },
	},
	{
		name: "max-body", group: groupAPI, hint: "size", def: "256KiB",
		help: "largest body of a callback",
		bind: func(c *Config) pflag.Value { return (*bytesValue)(&c.MaxBody) },
	},
	{
		name: "grace", group: groupAPI, hint: "duration", def: job.FormatDuration(dispatcher.DefaultGrace),
		help: "time for a shutdown, in which requests in flight, to the API and to receivers, finish; --drain-delay comes on top",
		bind: func(c *Config) pflag.Value { return (*durationValue)(&c.Grace) },
	},
	{
		name: "drain-delay", group: groupAPI, hint: "duration", def: "0s",
		help: "at shutdown, how long the API still accepts requests while /readyz answers 503, so that a load balancer notices",
		bind: func(c *Config) pflag.Value { return (*durationValue)(&c.DrainDelay) },
	},
	{
		name: "data-dir", group: groupStorage, hint: "directory", def: "./duehook-data",
		help: "directory of the embedded store's journal, and of the master key and signing secret that a node makes; created with access for the owner only",
		bind: func(c *Config) pflag.Value { return (*stringValue)(&c.DataDir) },
	},
	{
		name: "redis-url", group: groupStorage, hint: "url", shown: "none: the embedded store", secret: true,
		help: "keep jobs in Redis: redis://host:port/db, rediss://…, redis-sentinel://master@host,host, redis-cluster://host,host; user:password@ comes first",
		bind: func(c *Config) pflag.Value { return (*stringValue)(&c.RedisURL) },
	},
	{
		name: "redis-min-replicas", group: groupStorage, hint: "n", def: "0",
		help: "number of Redis replicas that must confirm a registration or a change before it is acknowledged, so that a failover cannot lose it; with fewer the answer is 503",
		bind: func(c *Config) pflag.Value { return (*intValue)(&c.RedisMinReplicas) },
	},
	{
		name: "redis-replica-wait", group: groupStorage, hint: "duration", def: job.FormatDuration(redisstore.DefaultReplicaWait),
		help: "how long to wait for these replicas",
		bind: func(c *Config) pflag.Value { return (*durationValue)(&c.RedisReplicaWait) },
	},
	{
		name: "ledger-url", group: groupStorage, hint: "url", shown: "embedded: sqlite:<data-dir>/" + ledgerFile + "; with Redis: none", secret: true,
		help: "journal of jobs and their changes: sqlite:path for a single node, postgres:// or mysql://user:password@host:port/database",
		bind: func(c *Config) pflag.Value { return (*stringValue)(&c.LedgerURL) },
	},
	{
		name: "ledger-down", group: groupStorage, hint: "refuse|accept", def: ledgerRefuse,
		help: "registrations and changes while the ledger is down: refuse answers 503; accept stores them in Redis alone and journals them later, so that losing Redis meanwhile loses them",
		bind: func(c *Config) pflag.Value { return &choiceValue{&c.LedgerDown, []string{ledgerRefuse, ledgerAccept}} },
	},
	{
		name: "namespace", group: groupStorage, hint: "name", def: "default",
		help: "separates several duehooks on one Redis",
		bind: func(c *Config) pflag.Value { return (*stringValue)(&c.Namespace) },
	},
	{
		name: "shards", group: groupStorage, hint: "n", def: "1",
		help: "number of shards on Redis, 1 to 1024; the same on every node; duehook reshard changes it",
		bind: func(c *Config) pflag.Value { return (*intValue)(&c.Shards) },
	},
	{
		name: "retention", group: groupStorage, hint: "duration", def: "1h",
		help: "how long an ended job can be looked up; 0 deletes it at once; dead letters stay until replayed, discarded or replaced",
		bind: func(c *Config) pflag.Value { return (*durationValue)(&c.Retention) },
	},
	{
		name: "ledger-retention", group: groupStorage, hint: "duration", shown: "--retention; with Redis at least " + job.FormatDuration(defaultLedgerRetention),
		help: "how long the journal keeps an ended job; set it longer than the age of any Redis backup that you may restore, otherwise ended jobs of the backup are sent again",
		bind: func(c *Config) pflag.Value { return (*durationValue)(&c.LedgerRetention) },
	},
	{
		name: "allow-cidrs", group: groupDelivery, hint: "cidr,…", shown: "none", list: true,
		help: "permitted destination ranges that are private, loopback or link-local",
		bind: func(c *Config) pflag.Value { return (*cidrsValue)(&c.AllowCIDRs) },
	},
	{
		name: "signing", group: groupDelivery, hint: "on|off", def: signingOn,
		help: "whether deliveries are signed; off is for receivers that verify nothing",
		bind: func(c *Config) pflag.Value { return &choiceValue{&c.Signing, []string{signingOn, signingOff}} },
	},
	{
		name: "signing-secret", group: groupDelivery, hint: "secret", shown: "made on first run, <data-dir>/signing-secret", secret: true,
		help: "secret that signs deliveries (Standard Webhooks, whsec_…); new,old signs with both",
		bind: func(c *Config) pflag.Value { return (*hiddenValue)(&c.SigningSecret) },
	},
	{
		name: "master-key", group: groupDelivery, hint: "key,…", shown: "made on first run, <data-dir>/master.key", secret: true,
		help: "key that encrypts the stored signing secrets: 32 bytes or more in base64; the same on every node; of several, the first encrypts",
		bind: func(c *Config) pflag.Value { return (*hiddenValue)(&c.MasterKey) },
	},
	{
		name: "timeout", group: groupDelivery, hint: "duration", def: job.FormatDuration(dispatcher.DefaultTimeout),
		help: "timeout of one attempt, for jobs without their own",
		bind: func(c *Config) pflag.Value { return (*durationValue)(&c.Timeout) },
	},
	{
		name: "max-timeout", group: groupDelivery, hint: "duration", def: "60s",
		help: "largest timeout of a job",
		bind: func(c *Config) pflag.Value { return (*durationValue)(&c.MaxTimeout) },
	},
	{
		name: "retry-steps", group: groupDelivery, hint: "duration,…", def: defaultSteps(), list: true,
		help: "retry ladder: delays between attempts, for jobs without their own",
		bind: func(c *Config) pflag.Value { return (*ladderValue)(&c.RetrySteps) },
	},
	{
		name: "retry-jitter", group: groupDelivery, hint: "share", def: strconv.FormatFloat(retrypolicy.DefaultJitter, 'g', -1, 64),
		help: "random variation of each delay, as a share from 0 to 1; 0 turns it off",
		bind: func(c *Config) pflag.Value { return (*floatValue)(&c.RetryJitter) },
	},
	{
		name: "workers", group: groupDelivery, hint: "n", def: strconv.Itoa(dispatcher.DefaultWorkers),
		help: "most concurrent attempts of this node",
		bind: func(c *Config) pflag.Value { return (*intValue)(&c.Workers) },
	},
	{
		name: "endpoint-concurrency", group: groupDelivery, hint: "n", def: "256",
		help: "most jobs of one endpoint in flight, on all nodes together",
		bind: func(c *Config) pflag.Value { return (*intValue)(&c.EndpointConcurrency) },
	},
	{
		name: "topic-concurrency", group: groupDelivery, hint: "topic=n,…", list: true,
		help: "most jobs of a topic in flight at one endpoint; a number above --endpoint-concurrency replaces that for the topic",
		bind: func(c *Config) pflag.Value { return (*limitsValue)(&c.TopicConcurrency) },
	},
	{
		name: "connect-retries", group: groupDelivery, hint: "n", def: strconv.Itoa(dispatcher.DefaultConnectRetries),
		help: "how often an attempt connects again at once if the receiver refuses or resets the connection before the request is sent, or DNS does not answer; at most 2; 0 turns it off",
		bind: func(c *Config) pflag.Value { return (*intValue)(&c.ConnectRetries) },
	},
	{
		name: "catch-up-rate", group: groupDelivery, hint: "n", def: strconv.Itoa(dispatcher.DefaultCatchUpRate),
		help: "after an outage of an endpoint, retries per second that are brought forward; 0 leaves them to their ladder",
		bind: func(c *Config) pflag.Value { return (*intValue)(&c.CatchUpRate) },
	},
	{
		name: "ready-cap", group: groupDelivery, hint: "n", def: "1000",
		help: "most jobs on the ready list of a shard",
		bind: func(c *Config) pflag.Value { return (*intValue)(&c.ReadyCap) },
	},
	{
		name: "lease", group: groupDelivery, hint: "duration", shown: "timeout + " + job.FormatDuration(dispatcher.DefaultLeaseMargin),
		help: "how long a worker may hold a job; after it, another worker takes over a dead worker's job",
		bind: func(c *Config) pflag.Value { return (*durationValue)(&c.Lease) },
	},
	{
		name: "visibility", group: groupDelivery, hint: "duration", def: "15s",
		help: "how long a ready job may wait for a worker before it is put on the ready list again",
		bind: func(c *Config) pflag.Value { return (*durationValue)(&c.Visibility) },
	},
	{
		name: "breaker-failures", group: groupDelivery, hint: "n", def: strconv.Itoa(dispatcher.DefaultBreakerFailures),
		help: "failures in a row that open the circuit of an endpoint; 0 disables circuits",
		bind: func(c *Config) pflag.Value { return (*intValue)(&c.BreakerFailures) },
	},
	{
		name: "breaker-open", group: groupDelivery, hint: "duration", def: job.FormatDuration(dispatcher.DefaultBreakerOpen),
		help: "how long a circuit stays open before it is half-open; jobs of the endpoint wait without using attempts",
		bind: func(c *Config) pflag.Value { return (*durationValue)(&c.BreakerOpen) },
	},
	{
		name: "log-level", group: groupLogging, hint: "level", def: "info",
		help: "debug, info, warn or error",
		bind: func(c *Config) pflag.Value { return (*levelValue)(&c.LogLevel) },
	},
	{
		name: "log-format", group: groupLogging, hint: "format", def: "auto",
		help: "text, json, or auto: text on a terminal, else json",
		bind: func(c *Config) pflag.Value { return &choiceValue{&c.LogFormat, []string{"auto", "text", "json"}} },
	},
}

func defaultSteps() string {
	steps := ladderValue(retrypolicy.Default().Steps)
	return steps.String()
}

// derive fills in what follows from other settings.
func (c *Config) derive() {
	if c.Lease == 0 && c.origins["lease"] == "" {
		c.Lease = c.Timeout + dispatcher.DefaultLeaseMargin
		c.origins["lease"] = originDefault + " (timeout + " + job.FormatDuration(dispatcher.DefaultLeaseMargin) + ")"
	}
	if c.LedgerURL == "" && c.Embedded() {
		c.LedgerURL = sqliteScheme + filepath.Join(c.DataDir, ledgerFile)
		c.origins["ledger-url"] = originDefault + " (in the data directory)"
	}
	if c.origins["ledger-retention"] == "" {
		c.LedgerRetention = defaultLedgerRetention
		c.origins["ledger-retention"] = originDefault
		if c.Embedded() || c.Retention > defaultLedgerRetention {
			c.LedgerRetention = c.Retention
			c.origins["ledger-retention"] = originDefault + " (--retention)"
		}
	}
}
