package redisstore

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestParseURLHosts(t *testing.T) {
	for _, c := range []struct {
		url  string
		want []string // nil: refused
	}{
		{"redis://", []string{"localhost:6379"}},
		{"redis://[::1]", []string{"[::1]:6379"}},
		{"redis-cluster://[::1],[::2]:7", []string{"[::1]:6379", "[::2]:7"}},
		{"redis-sentinel://m@[fe80::1%25eth0],b.example", []string{"[fe80::1%25eth0]:26379", "b.example:26379"}},
		{"redis-cluster://u:p@a:65535/", []string{"a:65535"}},
		{"redis-cluster://u:p@a/0", []string{"a:6379"}},
		{"redis-cluster://::1", nil},
		{"redis-cluster://[::1", nil},
		{"redis-cluster://a:", nil},
		{"redis-cluster://:6379", nil},
		{"redis-cluster://a:65536", nil},
		{"redis-cluster://a:port", nil},
		{"redis-cluster://a,", nil},
		{"redis-cluster://", nil},
		{"redis-sentinel://m@", nil},
		{"redis-sentinel://m@a:-1", nil},
	} {
		o, err := parseURL(c.url)
		switch {
		case c.want == nil && err == nil:
			t.Errorf("%s: %q, want an error", c.url, o.Addrs)
		case c.want != nil && (err != nil || !slices.Equal(o.Addrs, c.want)):
			t.Errorf("%s: %+v, %v; want %q", c.url, o, err, c.want)
		}
	}
}

// TestParseURLKeepsSecrets: what is wrong with a URL must not be told by
// quoting the password, which is often what is wrong with it.
func TestParseURLKeepsSecrets(t *testing.T) {
	for _, url := range []string{
		"redis://u:se/cret@h:1", "redis://u:se#cret@h:1", "redis://u:se?cret@h:1", "redis://:1/cret@h:1", "redis://:1?cret@h:1",
		"redis://u:cret%zz@h:1", "rediss://u:cret@h:port", "redis://u:cret@h/db",
		"redis-sentinel://u:cret%zz@m@h:1", "redis-sentinel://cret%zz:p@m@h:1", "redis-sentinel://u:cret@@h:1", "redis-sentinel://u:cret@m@h:x",
		"redis-sentinel://u:/cret@m@h:1", "redis-sentinel://u:cret@m@h/20000",
		"redis-cluster://u:cret%zz@h:1", "redis-cluster://cret%zz@h:1", "redis-cluster://u:cret@h/1", "redis-cluster://u:/cret@h",
	} {
		_, err := parseURL(url)
		if err == nil || strings.Contains(err.Error(), "cret") || !strings.HasPrefix(err.Error(), "redis URL: ") {
			t.Errorf("%s: %v", url, err)
		}
		if _, err := prepare(Options{URL: url}, true); err == nil {
			t.Errorf("Open took %s", url)
		}
	}
}

// TestParseURLOptions: an option behind the question mark is honoured or
// refused, never dropped.
func TestParseURLOptions(t *testing.T) {
	const all = "?pool_size=7&min_idle_conns=2&conn_max_idle_time=5m&conn_max_lifetime=1h30m&client_name=a%20b"
	for _, url := range []string{"rediss://h:1/2", "redis-sentinel://m@h/2", "redis-cluster://h"} {
		o, err := parseURL(url + all)
		if err != nil || o.PoolSize != 7 || o.MinIdleConns != 2 || o.ConnMaxIdleTime != 5*time.Minute ||
			o.ConnMaxLifetime != 90*time.Minute || o.ClientName != "a b" || o.ReadTimeout == 0 {
			t.Errorf("%s: %+v, %v", url, o, err)
		}
		if p := popOptions(o, 3); p.PoolSize != 5 || p.MinIdleConns != 0 {
			t.Errorf("%s: connections for pops: %+v", url, p)
		}
	}
	for value, want := range map[string]bool{"true": true, "false": false} {
		if o, err := parseURL("rediss://h?skip_verify=" + value); err != nil || o.TLSConfig.InsecureSkipVerify != want {
			t.Errorf("skip_verify=%s: %+v, %v", value, o, err)
		}
	}
	for _, query := range []string{
		"read_timeout=1s", "db=2", "pool_size=0", "pool_size=many", "pool_size=1&pool_size=2", "min_idle_conns=-1",
		"conn_max_idle_time=5", "conn_max_lifetime=-1s", "skip_verify=true", "protocol=3", "max_retries=0", "nonsense", "%zz", "a;b",
	} {
		if o, err := parseURL("redis://h:1/2?" + query); err == nil || !strings.HasPrefix(err.Error(), "redis URL: ") {
			t.Errorf("%s: %+v, %v", query, o, err)
		}
	}
	if _, err := parseURL("rediss://h?skip_verify=1"); err == nil {
		t.Error("skip_verify=1 was taken")
	}
}

func TestOpenDefaults(t *testing.T) {
	s, err := prepare(Options{URL: "redis://127.0.0.1:1"}, true)
	ok(t, "Open", err)
	defer s.Close()
	if s.Shards() != 1 || !strings.HasPrefix(s.shards[0].prefix, "duehook:{default:0") {
		t.Errorf("%d shards, the first is %s", s.Shards(), s.shards[0].prefix)
	}
}
