package redisstore

import (
	"slices"
	"strings"
	"testing"
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
		o, err := ParseURL(c.url)
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
		_, err := ParseURL(url)
		if err == nil || strings.Contains(err.Error(), "cret") || !strings.HasPrefix(err.Error(), "redis URL: ") {
			t.Errorf("%s: %v", url, err)
		}
		if _, err := Open(t.Context(), Options{URL: url}); err == nil {
			t.Errorf("Open took %s", url)
		}
	}
}

func TestOpenDefaults(t *testing.T) {
	s, err := Open(t.Context(), Options{URL: "redis://127.0.0.1:1"})
	ok(t, "Open", err)
	defer s.Close()
	if s.Shards() != 1 || !strings.HasPrefix(s.shards[0].prefix, "duehook:{default:0") {
		t.Errorf("%d shards, the first is %s", s.Shards(), s.shards[0].prefix)
	}
}
