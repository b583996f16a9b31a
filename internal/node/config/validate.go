package config

import (
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/duehook/duehook/dispatcher"
	"github.com/duehook/duehook/internal/documents"
	"github.com/duehook/duehook/internal/inbox"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/services/access"
	"github.com/duehook/duehook/internal/services/signing"
	"github.com/duehook/duehook/store/redisstore"
	"github.com/duehook/duehook/store/sqlstore"
)

// problems collects all problems, for one report.
type problems []error

func (p *problems) check(ok bool, format string, args ...any) {
	if !ok {
		*p = append(*p, fmt.Errorf(format, args...))
	}
}

func (c *Config) validate() error {
	var p problems
	for i := range settings {
		if err := settings[i].checkRange(c); err != nil {
			p = append(p, err)
		}
	}
	c.validateAPI(&p)
	c.validateStorage(&p)
	c.validateInboxes(&p)
	c.validateSigning(&p)
	c.validateDelivery(&p)
	return errors.Join(p...)
}

func (c *Config) validateAPI(p *problems) {
	_, port, err := net.SplitHostPort(c.Addr)
	p.check(err == nil, "--addr %q: write host:port, such as 127.0.0.1:7788, [::1]:7788 or :7788", c.Addr)
	if err == nil {
		n, err := strconv.Atoi(port)
		p.check(err == nil && 0 <= n && n <= 65535, "--addr %q: the port must be a number from 0 to 65535", c.Addr)
		if err := access.RequireKeys(c.Addr, len(c.APIKeys), c.InsecureNoAPIKeys); err != nil {
			*p = append(*p, err)
		}
	}
	for _, name := range c.Dialects {
		p.check(slices.Contains(Dialects, name), "--dialects %q: there is none of this name; write some of %s", name, strings.Join(Dialects, ", "))
	}
	p.check((c.TLSCert == "") == (c.TLSKey == ""), "--tls-cert and --tls-key belong together: set both, or neither for plain HTTP")
}

var nameForm = regexp.MustCompile(`^[A-Za-z0-9._@-]{1,64}$`)

func (c *Config) validateStorage(p *problems) {
	p.check(c.DataDir != "", "--data-dir is empty; name a directory")
	if c.RedisURL != "" {
		if err := redisstore.CheckURL(c.RedisURL); err != nil {
			p.check(false, "--redis-url: %w", err)
		}
	}
	p.check(nameForm.MatchString(c.Namespace), "--namespace %q: use up to 64 letters, digits and . _ @ -", c.Namespace)
	p.check(c.Shards == 1 || c.RedisURL != "", "--shards is for Redis; leave it out, or set --redis-url")
	p.check(c.RedisMinReplicas == 0 || c.RedisURL != "", "--redis-min-replicas is for Redis; leave it out, or set --redis-url")
	c.validatePostgres(p)
}

func (c *Config) validatePostgres(p *problems) {
	p.check(c.RedisURL == "" || c.PostgresURL == "", "--redis-url and --postgres-url exclude each other: jobs are in one store; leave one out")
	for _, u := range []struct{ flag, url string }{{"--postgres-url", c.PostgresURL}, {"--postgres-direct-url", c.PostgresDirectURL}} {
		if u.url != "" {
			err := sqlstore.CheckURL(u.url)
			p.check(err == nil, "%s: %w", u.flag, err)
		}
	}
	p.check(c.PostgresDirectURL == "" || c.PostgresURL != "", "--postgres-direct-url goes with --postgres-url; leave it out, or set both")
	err := sqlstore.CheckSchema(c.PostgresSchema)
	p.check(err == nil, "--postgres-schema: %w", err)
}

func (c *Config) validateInboxes(p *problems) {
	p.check(len(c.Inboxes) <= inbox.MaxInboxes, "--inbox-url has %d databases; at most %d are possible", len(c.Inboxes), inbox.MaxInboxes)
	names := map[string]bool{}
	for _, in := range c.Inboxes {
		p.check(!names[in.Name], "--inbox-url names %s twice; give each database a name of its own", in.Name)
		names[in.Name] = true
		err := inbox.CheckURL(in.Value)
		p.check(err == nil, "--inbox-url %s: %w", in.Name, err)
	}
	for _, t := range c.InboxTopics {
		p.check(names[t.Name], "--inbox-topics names %s, and --inbox-url does not; correct one of them", t.Name)
		err := job.CheckTopicPattern(t.Value)
		p.check(err == nil, "--inbox-topics %s=%s: the topic %w", t.Name, t.Value, err)
	}
}

func (c *Config) validateSigning(p *problems) {
	p.check(c.Signed() || c.SigningSecret == "" && c.MasterKey == "",
		"--signing off uses neither --signing-secret nor --master-key; leave them out, or --signing off")
	if c.SigningSecret != "" {
		_, err := signing.ParseSecrets(c.SigningSecret)
		p.check(err == nil, "--signing-secret: %w", err)
	}
	for _, key := range c.MasterKeys() {
		_, err := documents.ParseMasterKey(key)
		p.check(err == nil, "--master-key: %w", err)
	}
}

// MasterKeys are the texts of --master-key.
func (c *Config) MasterKeys() []string {
	return strings.FieldsFunc(c.MasterKey, func(r rune) bool { return r == ',' })
}

// maxConcurrency bounds the limits on jobs of one endpoint.
const maxConcurrency = 1_000_000

func (c *Config) validateDelivery(p *problems) {
	p.check(c.Timeout >= job.MinTimeout && c.Timeout <= c.MaxTimeout,
		"--timeout must be between %s and --max-timeout (%s)", job.FormatDuration(job.MinTimeout), job.FormatDuration(c.MaxTimeout))
	p.check(c.LeaseMargin() >= dispatcher.MinLeaseMargin,
		"--lease %s is too short: it must outlast --timeout (%s) by %s at least, or two workers could send the same attempt; raise it to %s, or leave it out",
		job.FormatDuration(c.Lease), job.FormatDuration(c.Timeout), job.FormatDuration(dispatcher.MinLeaseMargin), job.FormatDuration(c.Timeout+dispatcher.MinLeaseMargin))
	p.check(c.Lease <= 24*time.Hour, "--lease must be 1d at most: a dead worker's jobs wait that long")
}
