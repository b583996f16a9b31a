package config

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/duehook/duehook/dispatcher"
	"github.com/duehook/duehook/internal/inbox"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/retrypolicy"
	"github.com/duehook/duehook/store/redisstore"
	"github.com/duehook/duehook/store/sqlstore"
)

// setting is one row of the table.
type setting struct {
	name  string // of the flag; the other names derive from it
	group string
	hint  string // placeholder for the value, in help
	def   string // the default in text form; empty: derive computes it, or there is none
	// shown replaces an empty def in help.
	shown string
	help  string
	// secret values can be read from a file that <ENV>_FILE names, and are shown
	// without passwords; hidden ones are not shown at all.
	secret, hidden bool
	list           bool // a comma-separated list; its flag can be repeated
	yesNo          bool // its flag needs no value
	// choices are the permitted texts; nil: all. least and most bound a number.
	choices     []string
	least, most string
	at          func(*Config) any // a pointer to the value
}

// set sets the value of the setting.
func (s *setting) set(c *Config, text string) error {
	if s.choices != nil && !slices.Contains(s.choices, text) {
		return fmt.Errorf("write one of %s", strings.Join(s.choices, ", "))
	}
	return parse(s.at(c), text)
}

// show returns the text of the value without secrets.
func (s *setting) show(c *Config) string {
	text := format(s.at(c))
	switch {
	case s.hidden && text != "":
		return "***"
	case s.secret && !s.list: // format masks the items of lists
		return Redact(text)
	}
	return text
}

// checkRange reports a number that is out of its range.
func (s *setting) checkRange(c *Config) error {
	if s.least == "" {
		return nil
	}
	at := s.at(c)
	bound := func(text string) any {
		p := reflect.New(reflect.TypeOf(at).Elem()).Interface()
		if err := parse(p, text); err != nil {
			panic(fmt.Sprintf("config: the range of %s: %v", s.name, err)) // a bug in the table
		}
		return p
	}
	if n := number(at); n < number(bound(s.least)) || n > number(bound(s.most)) {
		return fmt.Errorf("--%s must be between %s and %s", s.name, s.least, s.most)
	}
	return nil
}

// number returns the number that of points to; durations are in nanoseconds.
func number(of any) float64 {
	v := reflect.ValueOf(of).Elem()
	if v.CanInt() {
		return float64(v.Int())
	}
	return v.Float()
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
	groupInboxes  = "Inboxes"
	groupDelivery = "Delivery"
	groupLogging  = "Logging"
)

var groups = []string{groupAPI, groupStorage, groupInboxes, groupDelivery, groupLogging}

// The choices of --signing.
const (
	signingOn  = "on"
	signingOff = "off"
)

// Dialects are the values of --dialects.
var Dialects = []string{"camellia", "mykit", "qstash"}

var settings = []setting{
	{
		name: "addr", group: groupAPI, hint: "host:port", def: "127.0.0.1:7788",
		help: "address of the API; port 0 selects a free port. Without it, the variable PORT names the port: of all addresses with API keys, else of loopback",
		at:   func(c *Config) any { return &c.Addr },
	},
	{
		name: "debug-addr", group: groupAPI, hint: "host:port", shown: "off",
		help: "address of profiles, /debug/pprof/, for operators; without a host, on loopback. Profiles need no key and show what is in memory",
		at:   func(c *Config) any { return &c.DebugAddr },
	},
	{
		name: "api-keys", group: groupAPI, hint: "key,…", shown: "none", secret: true, list: true,
		help: "API keys, as printed by duehook apikey new; required to listen beyond loopback",
		at:   func(c *Config) any { return &c.APIKeys },
	},
	{
		name: "insecure-no-api-keys", group: groupAPI, def: "false", yesNo: true,
		help: "require no keys, even beyond loopback: every client has full access",
		at:   func(c *Config) any { return &c.InsecureNoAPIKeys },
	},
	{
		name: "api-rate", group: groupAPI, hint: "rate", shown: "no limit",
		help: "most requests of a key without a rate of its own, such as 100/1s",
		at:   func(c *Config) any { return &c.APIRate },
	},
	{
		name: "tls-cert", group: groupAPI, hint: "file", shown: "none: plain HTTP",
		help: "certificate chain in PEM, for HTTPS with TLS 1.2 or later; reloaded when the file changes",
		at:   func(c *Config) any { return &c.TLSCert },
	},
	{
		name: "tls-key", group: groupAPI, hint: "file", shown: "none",
		help: "private key of --tls-cert in PEM",
		at:   func(c *Config) any { return &c.TLSKey },
	},
	{
		name: "dashboard", group: groupAPI, def: "true", yesNo: true,
		help: "serve the dashboard at /",
		at:   func(c *Config) any { return &c.Dashboard },
	},
	{
		name: "dialects", group: groupAPI, hint: "name,…", shown: "none", list: true,
		help: "also answer calls of clients of other systems: " + strings.Join(Dialects, ", ") + "; see docs/migrate",
		at:   func(c *Config) any { return &c.Dialects },
	},
	{
		name: "max-body", group: groupAPI, hint: "size", def: "256KiB", least: "1KiB", most: "8MiB",
		help: "largest body of a job",
		at:   func(c *Config) any { return (*size)(&c.MaxBody) },
	},
	{
		name: "memory-budget", group: groupAPI, hint: "size", def: "128MiB", least: "32MiB", most: "1GiB",
		help: "memory for what clients send and are sent, of which a connection may have an eighth and an API key a half; beyond it, calls wait for a second and are then refused",
		at:   func(c *Config) any { return (*size)(&c.MemoryBudget) },
	},
	{
		name: "grace", group: groupAPI, hint: "duration", def: job.FormatDuration(dispatcher.DefaultGrace), least: "1s", most: "1h",
		help: "time for a shutdown, in which requests in flight, to the API and to receivers, finish; --drain-delay comes on top",
		at:   func(c *Config) any { return &c.Grace },
	},
	{
		name: "drain-delay", group: groupAPI, hint: "duration", def: "0s", least: "0", most: "1h",
		help: "at shutdown, how long the API still accepts requests while /readyz answers 503, so that a load balancer notices",
		at:   func(c *Config) any { return &c.DrainDelay },
	},
	{
		name: "data-dir", group: groupStorage, hint: "directory", def: "./duehook-data",
		help: "directory of the embedded store, and of the master key and signing secret that a node makes; created with access for the owner only",
		at:   func(c *Config) any { return &c.DataDir },
	},
	{
		name: "redis-url", group: groupStorage, hint: "url", shown: "none: the embedded store", secret: true,
		help: "keep jobs in Redis: redis://host:port/db, rediss://…, redis-sentinel://master@host,host, redis-cluster://host,host; user:password@ comes first",
		at:   func(c *Config) any { return &c.RedisURL },
	},
	{
		name: "redis-min-replicas", group: groupStorage, hint: "n", def: "0", least: "0", most: "5",
		help: "number of Redis replicas that must confirm a registration or a change before it is acknowledged, so that a failover cannot lose it; with fewer the answer is 503",
		at:   func(c *Config) any { return &c.RedisMinReplicas },
	},
	{
		name: "redis-replica-wait", group: groupStorage, hint: "duration", def: job.FormatDuration(redisstore.DefaultReplicaWait), least: "1ms", most: "10s",
		help: "how long to wait for these replicas",
		at:   func(c *Config) any { return &c.RedisReplicaWait },
	},
	{
		name: "namespace", group: groupStorage, hint: "name", def: "default",
		help: "separates several duehooks on one Redis",
		at:   func(c *Config) any { return &c.Namespace },
	},
	{
		name: "shards", group: groupStorage, hint: "n", def: "1", least: "1", most: "1024",
		help: "number of shards on Redis; the same on every node; duehook reshard changes it",
		at:   func(c *Config) any { return &c.Shards },
	},
	{
		name: "postgres-url", group: groupStorage, hint: "url", shown: "none: the embedded store", secret: true,
		help: "keep jobs in PostgreSQL: postgres://user:password@host:port/database; sslmode and other parameters of libpq may follow",
		at:   func(c *Config) any { return &c.PostgresURL },
	},
	{
		name: "postgres-direct-url", group: groupStorage, hint: "url", shown: "--postgres-url", secret: true,
		help: "the same database without the pooler that --postgres-url names, such as PgBouncer in transaction mode: one connection of the node waits there for notifications",
		at:   func(c *Config) any { return &c.PostgresDirectURL },
	},
	{
		name: "postgres-schema", group: groupStorage, hint: "name", def: "duehook",
		help: "schema of the tables; a node makes and migrates it. It separates several duehooks in one database",
		at:   func(c *Config) any { return &c.PostgresSchema },
	},
	{
		name: "postgres-connections", group: groupStorage, hint: "n", def: strconv.Itoa(sqlstore.DefaultConnections), least: "4", most: "1000",
		help: "most connections of this node to PostgreSQL, and one more for notifications",
		at:   func(c *Config) any { return &c.PostgresConnections },
	},
	{
		name: "retention", group: groupStorage, hint: "duration", def: "1h", least: "0", most: job.FormatDuration(job.MaxDelay),
		help: "how long an ended job can be looked up; 0 deletes it at once; dead letters stay until replayed, discarded or replaced",
		at:   func(c *Config) any { return &c.Retention },
	},
	{
		name: "inbox-url", group: groupInboxes, hint: "name=url,…", shown: "none", secret: true, list: true,
		help: "databases with a table of jobs to register: name=postgres://user:password@host:port/database or name=mysql://…; the same on every node. The name stays: uids of jobs are made of it",
		at:   func(c *Config) any { return &c.Inboxes },
	},
	{
		name: "inbox-topics", group: groupInboxes, hint: "name=topic,…", shown: "all", list: true,
		help: "topics that an inbox may use, or their beginnings such as order-*; name=topic is repeated for each",
		at:   func(c *Config) any { return &c.InboxTopics },
	},
	{
		name: "inbox-poll", group: groupInboxes, hint: "duration", def: job.FormatDuration(inbox.DefaultPoll), least: "50ms", most: "1m",
		help: "longest pause between two looks at an idle inbox; a notification of PostgreSQL ends it",
		at:   func(c *Config) any { return &c.InboxPoll },
	},
	{
		name: "deliver", group: groupDelivery, def: "true", yesNo: true,
		help: "whether this node delivers jobs, fires schedules and alerts, reads inboxes, and gives jobs to consumers; false to look at a restored copy first",
		at:   func(c *Config) any { return &c.Deliver },
	},
	{
		name: "start-paused", group: groupDelivery, def: "false", yesNo: true,
		help: "hold the deliveries of all nodes on the store from the start, and leave rows in inboxes, until duehook resume; to look after a database was restored to an older point",
		at:   func(c *Config) any { return &c.StartPaused },
	},
	{
		name: "allow-cidrs", group: groupDelivery, hint: "cidr,…", shown: "none", list: true,
		help: "permitted destination ranges that are private, loopback or link-local",
		at:   func(c *Config) any { return &c.AllowCIDRs },
	},
	{
		name: "signing", group: groupDelivery, hint: "on|off", def: signingOn,
		help: "whether deliveries are signed; off is for receivers that verify nothing",
		at:   func(c *Config) any { return &c.Signing }, choices: []string{signingOn, signingOff},
	},
	{
		name: "signing-secret", group: groupDelivery, hint: "secret", shown: "made on first run, <data-dir>/signing-secret", secret: true,
		help:   "secret that signs deliveries (Standard Webhooks, whsec_…); new,old signs with both",
		at:     func(c *Config) any { return &c.SigningSecret },
		hidden: true,
	},
	{
		name: "master-key", group: groupDelivery, hint: "key,…", shown: "made on first run, <data-dir>/master.key", secret: true,
		help:   "key that encrypts the stored signing secrets: 32 bytes or more in base64; the same on every node; of several, the first encrypts",
		at:     func(c *Config) any { return &c.MasterKey },
		hidden: true,
	},
	{
		name: "timeout", group: groupDelivery, hint: "duration", def: job.FormatDuration(dispatcher.DefaultTimeout),
		help: "timeout of one attempt, for jobs without their own",
		at:   func(c *Config) any { return &c.Timeout },
	},
	{
		name: "max-timeout", group: groupDelivery, hint: "duration", def: "60s", least: "1s", most: "10m",
		help: "largest timeout of a job",
		at:   func(c *Config) any { return &c.MaxTimeout },
	},
	{
		name: "retry-steps", group: groupDelivery, hint: "duration,…", def: defaultSteps(), list: true,
		help: "retry ladder: delays between attempts, for jobs without their own",
		at:   func(c *Config) any { return &c.RetrySteps },
	},
	{
		name: "retry-jitter", group: groupDelivery, hint: "share", def: strconv.FormatFloat(retrypolicy.DefaultJitter, 'g', -1, 64), least: "0", most: "1",
		help: "random variation of each delay, as a share from 0 to 1; 0 turns it off",
		at:   func(c *Config) any { return &c.RetryJitter },
	},
	{
		name: "workers", group: groupDelivery, hint: "n", def: strconv.Itoa(dispatcher.DefaultWorkers), least: "1", most: "100000",
		help: "most concurrent attempts of this node; a topic may have eight for each free worker, so one topic alone has eight of nine",
		at:   func(c *Config) any { return &c.Workers },
	},
	{
		name: "endpoint-concurrency", group: groupDelivery, hint: "n", def: "256", least: "1", most: strconv.Itoa(maxConcurrency),
		help: "most jobs of one endpoint in flight, on all nodes together",
		at:   func(c *Config) any { return &c.EndpointConcurrency },
	},
	{
		name: "topic-concurrency", group: groupDelivery, hint: "topic=n,…", shown: "none", list: true,
		help: "most jobs of a topic in flight at one endpoint; a number above --endpoint-concurrency replaces that for the topic",
		at:   func(c *Config) any { return &c.TopicConcurrency },
	},
	{
		name: "connect-retries", group: groupDelivery, hint: "n", def: strconv.Itoa(dispatcher.DefaultConnectRetries), least: "0", most: strconv.Itoa(dispatcher.MaxConnectRetries),
		help: "how often an attempt connects again at once if the receiver refuses or resets the connection before the request is sent, or DNS does not answer; at most 2; --breaker-failures 0 turns it off. 0 turns it off, too, and never sends the request of an attempt twice",
		at:   func(c *Config) any { return &c.ConnectRetries },
	},
	{
		name: "schedule-rate", group: groupDelivery, hint: "n", def: "1000", least: "0", most: "1000000",
		help: "most jobs per second that all schedules together may register, and half of it those of one topic, by their busiest minute; 0: no bound",
		at:   func(c *Config) any { return &c.ScheduleRate },
	},
	{
		name: "tzdata", group: groupDelivery, hint: "file", shown: "the release in the program",
		help: "time zones of schedules: a zip of a zoneinfo directory, such as /usr/share/zoneinfo, with its tzdata.zi or +VERSION",
		at:   func(c *Config) any { return &c.TZData },
	},
	{
		name: "callback-response", group: groupDelivery, hint: "size", def: "4KiB", least: "0", most: "256KiB",
		help: "how much of the answer to an attempt the callbacks of a job contain; 0 leaves it out",
		at:   func(c *Config) any { return (*size)(&c.CallbackResponse) },
	},
	{
		name: "catch-up-rate", group: groupDelivery, hint: "n", def: strconv.Itoa(dispatcher.DefaultCatchUpRate), least: "0", most: "100000",
		help: "after an outage of an endpoint, retries per second that are brought forward; 0 leaves them to their ladder",
		at:   func(c *Config) any { return &c.CatchUpRate },
	},
	{
		name: "ready-cap", group: groupDelivery, hint: "n", def: "1000", least: "1", most: "1000000",
		help: "on Redis: most jobs of a topic on the ready list of a shard; with weights more or fewer, and all topics together twice as many at most",
		at:   func(c *Config) any { return &c.ReadyCap },
	},
	{
		name: "lease", group: groupDelivery, hint: "duration", shown: "timeout + " + job.FormatDuration(dispatcher.DefaultLeaseMargin),
		help: "how long a worker may hold a job; after it, another worker takes over a dead worker's job",
		at:   func(c *Config) any { return &c.Lease },
	},
	{
		name: "visibility", group: groupDelivery, hint: "duration", def: "15s", least: "1s", most: "1h",
		help: "on Redis: how long a ready job may wait for a worker before it is put on the ready list again",
		at:   func(c *Config) any { return &c.Visibility },
	},
	{
		name: "breaker-failures", group: groupDelivery, hint: "n", def: strconv.Itoa(dispatcher.DefaultBreakerFailures), least: "0", most: "1000000",
		help: "failures in a row that open the circuit of an endpoint; 0 disables circuits",
		at:   func(c *Config) any { return &c.BreakerFailures },
	},
	{
		name: "breaker-open", group: groupDelivery, hint: "duration", def: job.FormatDuration(dispatcher.DefaultBreakerOpen), least: "1s", most: "1h",
		help: "how long a circuit stays open before it is half-open; jobs of the endpoint wait without using attempts",
		at:   func(c *Config) any { return &c.BreakerOpen },
	},
	{
		name: "log-level", group: groupLogging, hint: "level", def: "info",
		help: "debug, info, warn or error",
		at:   func(c *Config) any { return &c.LogLevel },
	},
	{
		name: "log-format", group: groupLogging, hint: "format", def: "auto",
		help: "text, json, or auto: text on a terminal, else json",
		at:   func(c *Config) any { return &c.LogFormat }, choices: []string{"auto", "text", "json"},
	},
}

func defaultSteps() string {
	steps := retrypolicy.Default().Steps
	return format(&steps)
}

// derive sets the values that depend on other settings.
func (c *Config) derive() {
	if c.Lease == 0 && c.origins["lease"] == "" {
		c.Lease = c.Timeout + dispatcher.DefaultLeaseMargin
		c.origins["lease"] = originDefault + " (timeout + " + job.FormatDuration(dispatcher.DefaultLeaseMargin) + ")"
	}
}
