package node

import (
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"strings"

	"github.com/duehook/duehook/internal/node/config"
)

// Announce reports that the node serves its API at base, where its parts are, and a first call to
// try: as a banner for people, or as one log line.
func Announce(c *config.Config, version, base string, w io.Writer, log *slog.Logger) {
	if TextLogs(c, w) {
		_, _ = io.WriteString(w, Banner(c, version, base)) // an error cannot be reported
	} else {
		log.Info("duehook is serving", "version", version, "api", base, "jobs", jobsAre(c), "try", tryIt(c, base))
	}
	if !c.Deliver {
		log.Warn("the node delivers nothing, fires no schedules and gives consumers no jobs; start it without --deliver=false to deliver")
	}
	if c.InsecureNoAPIKeys {
		log.Warn("the API requires no keys: every client that reaches it can register, read and cancel jobs; "+
			"protect it with a firewall or proxy, or replace --insecure-no-api-keys by --api-keys", "addr", c.Addr)
	}
}

// AnnounceWaiting reports that the API is at base, and that the node cannot serve
// until its store answers; err is the last error of the store.
func AnnounceWaiting(c *config.Config, version, base string, log *slog.Logger, err error) {
	log.Warn("duehook waits for its store: until it answers, no job is accepted or delivered",
		"version", version, "api", base, "jobs", jobsAre(c), "error", err)
}

// Banner is the text shown on a terminal when duehook serves.
func Banner(c *config.Config, version, base string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\nduehook %s\n\n", version)
	fmt.Fprintf(&b, "  API       %s  (metrics: /metrics, description: /openapi.json)\n", base)
	if c.Dashboard {
		fmt.Fprintf(&b, "  Dashboard %s/\n", base)
	}
	fmt.Fprintf(&b, "  Callers   %s\n", callersAre(c))
	fmt.Fprintf(&b, "  Jobs      %s\n", jobsAre(c))
	if !c.Deliver {
		b.WriteString("  Delivers  nothing, because of --deliver=false\n")
	} else if len(c.AllowCIDRs) > 0 {
		fmt.Fprintf(&b, "  Delivers  to the internet and to %s\n", prefixList(c.AllowCIDRs))
	} else {
		b.WriteString("  Delivers  to the internet only; to reach receivers on this machine: --allow-cidrs 127.0.0.0/8\n")
	}
	fmt.Fprintf(&b, "\n  Try it:\n  %s\n\n", tryIt(c, base))
	return b.String()
}

func callersAre(c *config.Config) string {
	switch {
	case !c.Open():
		return "need an API key"
	case c.InsecureNoAPIKeys:
		return "any client that reaches it"
	}
	return "any program on this machine"
}

func jobsAre(c *config.Config) string {
	where := "in " + c.DataDir
	switch c.Store() {
	case config.StorePostgres:
		where = fmt.Sprintf("in %s, schema %s", config.Redact(c.PostgresURL), c.PostgresSchema)
	case config.StoreRedis:
		where = fmt.Sprintf("in %s, namespace %s", config.Redact(c.RedisURL), c.Namespace)
		if c.Shards > 1 {
			where += fmt.Sprintf(", %d shards", c.Shards)
		}
	}
	return where
}

func prefixList(prefixes []netip.Prefix) string {
	texts := make([]string, len(prefixes))
	for i, p := range prefixes {
		texts[i] = p.String()
	}
	return strings.Join(texts, ", ")
}

// tryIt is a command that registers a job. Its receiver is on this machine if
// the settings permit deliveries to it.
func tryIt(c *config.Config, base string) string {
	target := "https://example.com/hook"
	for _, p := range c.AllowCIDRs {
		if p.Contains(netip.AddrFrom4([4]byte{127, 0, 0, 1})) {
			target = "http://127.0.0.1:8080/hook"
		}
	}
	key := ""
	if !c.Open() {
		key = ` -H "Authorization: Bearer $TOKEN"`
	}
	return fmt.Sprintf(`curl %s/v1/jobs%s -H 'Content-Type: application/json' -d '{"url":"%s","delay":"5s","body":{"hello":"world"}}'`, base, key, target)
}
