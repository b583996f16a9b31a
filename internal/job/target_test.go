package job_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/duehook/duehook/internal/job"
)

var goodURLs = []string{
	"http://a", "https://shop.example/hooks/timeout", "HTTP://Shop.Example:8080/", "http://shop.example./x",
	"http://a_b.example?q=1&r=%20", "http://localhost:65535", "https://xn--bcher-kva.example/",
	"http://10.0.0.1", "http://[::1]:80/x", "http://[2001:DB8::1]", "http://[::ffff:10.0.0.1]/",
	"http://1.example", "http://0x7f.example", "http://a/x:y@z?u=http://b|c{d}",
	"http://" + strings.Repeat(strings.Repeat("a", 62)+".", 4) + "b",
	"http://a/" + strings.Repeat("x", 2039),
}

var badURLs = map[string][]string{ // by a part of the message
	"must not be empty":     {""},
	"at most 2048":          {"http://a/" + strings.Repeat("x", 2040)},
	"http:// or https://":   {"ftp://a", "file:///etc/passwd", "//a/b", "/a", "a", "gopher://a", "javascript:alert(1)", "unix:/x", "a:80"},
	"user name or password": {"http://u@a", "http://u:p@a/", "http://@a/", "https://a:80@b"},
	"has no host":           {"http://", "http:///x", "http:a", "http:/a", "http://:80/", "http://?q", "http://#f"},
	"must not have a fragment": {
		"http://a/#", "http://a#f", "http://a/?q#f",
	},
	"is not a URL": {
		"http://a\n", "http://a/\x00", "http://a b/", "http://[::1", "http://::1/", "http://a:b", "http://a:80:80/", "http://a:-1",
		"http://%41/", "http://a/%zz", "://a", "http://a\\b/", "http://[fe80::1%25e n]/", "http://a|b/", "http://[10.0.0.1]/", "http://[fe80::1%eth0]/",
	},
	"visible ASCII": {"http://a/b c", "http://a/?q=b c", "http://a/é", "http://a/?é", "http://a/\xff"},
	"punycode":      {"http://bücher.example", "http://b%C3%BCcher.example", "http://ａ/", "http://a。b/", "http://%FF/"},
	"zone":          {"http://[fe80::1%25eth0]/", "http://[fe80::1%2525]/"},
	"from 1 to 65535": {
		"http://a:0/", "http://a:65536", "http://a:99999999999999999999", "http://a:080/", "http://a:00080",
	},
	"no port after": {"http://a:/", "http://[::1]:"},
	"neither a DNS name nor": {
		"http://.", "http://a..b", "http://.a", "http://a,b", "http://a$b", "http://-a", "http://a-.b", "http://a*b", "http://'a'", "http://a;b", "http://(a)", "http://a..",
		"http://" + strings.Repeat("a", 64), "http://a&b", "http://a!b", "http://a=b", "http://a+b", "http://~a", `http://"a"`, "http://<a>/",
	},
	"more than 253": {"http://" + strings.Repeat(strings.Repeat("a", 62)+".", 4) + "bc"},
	"ends like a number": {
		"http://127.1", "http://2130706433", "http://0x7f000001", "http://0177.0.0.1", "http://10.0.0.256", "http://1.2.3.4.5", "http://10.0.0.1.", "http://a.0x1F", "http://a.1", "http://0x",
	},
}

func TestCheckURL(t *testing.T) {
	for _, raw := range goodURLs {
		if err := job.Destination(raw).Check(); err != nil {
			t.Errorf("CheckURL(%.80q): %v", raw, err)
		}
		if _, err := job.Destination(raw).Endpoint(); err != nil {
			t.Errorf("Endpoint(%.80q): %v", raw, err)
		}
	}
	for want, raws := range badURLs {
		for _, raw := range raws {
			if err := job.Destination(raw).Check(); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("CheckURL(%.80q) = %v; want an error with %q", raw, err, want)
			}
		}
	}
}

// Whoever loosens Go's parser by GODEBUG loosens no rule of ours.
func TestCheckURLWithLooseParser(t *testing.T) {
	t.Setenv("GODEBUG", "urlstrictcolons=0")
	for _, raw := range []string{"http://a:b:80/", "http://::1/"} {
		if err := job.Destination(raw).Check(); err == nil || strings.Contains(err.Error(), "is not a URL") {
			t.Errorf("CheckURL(%q) = %v; want a refusal of our own", raw, err)
		}
	}
}

func TestCheckName(t *testing.T) {
	for _, s := range []string{"a", "A-Z.a_z:0@9", "...", ".a", "-", strings.Repeat("x", 128), "é", "e\u0301", "订单", "заказ-1", "ऑर्डर", "طلب", "٣", "می\u200cخواهم", "क्\u200cष", "a\u200cb", strings.Repeat("订", 42) + "ab"} {
		if err := job.CheckName(s); err != nil {
			t.Errorf("CheckName(%q): %v", s, err)
		}
	}
	for _, s := range []string{
		"", ".", "..", "a/b", "a b", "{a}", "a|b", "a\n", "\xff", "a\xc3", "\uFFFD", "\u0301e",
		"a\u00a0b", "a\u200db", "a\u202eb", "\u200ca", "a\u200c", "a\u200c\u200cb", "a\u200c1", "1\u200ca", "a-\u200cb", "a\u200c\u0301",
		"\u3164", "a\ufe0f", "a\u115fb", "a\u034fb", "a\u180bb", "a\U000e0100b", "½", "😀", "，", "／", "％", strings.Repeat("x", 129), strings.Repeat("订", 43),
	} {
		if job.CheckName(s) == nil {
			t.Errorf("CheckName(%q) is content", s)
		}
	}
}

func TestValidTraceparent(t *testing.T) {
	const (
		trace  = "4bf92f3577b34da6a3ce929d0e0e4736"
		parent = "00f067aa0ba902b7"
		valid  = "00-" + trace + "-" + parent + "-01"
	)
	for _, s := range []string{valid, "01-" + trace + "-" + parent + "-00", "cc-" + trace + "-" + parent + "-01-beef"} {
		if !job.ValidTraceparent(s) {
			t.Errorf("%q is refused", s)
		}
	}
	for _, s := range []string{
		"", "00", valid[:54], valid + "-", valid + "-00", "ff" + valid[2:], "0g" + valid[2:], strings.ToUpper(valid),
		"01" + valid[2:] + "00", "01" + valid[2:] + "-é", "01" + valid[2:] + "-" + strings.Repeat("0", 60),
		"00-" + strings.Repeat("0", 32) + "-" + parent + "-01", "00-" + trace + "-" + strings.Repeat("0", 16) + "-01",
		"00_" + trace + "-" + parent + "-01", "00-" + trace + "_" + parent + "-01", "00-" + trace + "-" + parent + "_01",
		"00-" + trace[1:] + "x-" + parent + "-01", "00-" + trace + "-" + parent[1:] + "x-01", "00-" + trace + "-" + parent + "-0x",
		" " + valid[1:], valid[:54] + "\n",
	} {
		if job.ValidTraceparent(s) {
			t.Errorf("%q is taken", s)
		}
	}
}

// A path and a query keep their bytes, but for characters that RFC 3986 has no place for.
func TestURLsAreSentByteForByte(t *testing.T) {
	for from, want := range map[job.Destination]string{
		"https://a.example":              "https://a.example",
		"https://a.example/a|b%2Fc":      "https://a.example/a%7Cb%2Fc",
		"https://a.example/a^b/%2e%2e/x": "https://a.example/a%5Eb/%2e%2e/x",
		"https://a.example/{id}/%7e?q=`": "https://a.example/%7Bid%7D/%7e?q=%60",
		`https://a.example/"<>\|?a="[1]`: "https://a.example/%22%3C%3E%5C%7C?a=%22[1]",
		"https://a.example//a;b=c/./..?": "https://a.example//a;b=c/./..?",
	} {
		if got := from.Sent(); got != want {
			t.Errorf("%s is sent as %s, want %s", from, got, want)
		}
	}
	for c := rune('!'); c <= '~'; c++ {
		if c == '#' || c == '%' {
			continue
		}
		for _, raw := range []job.Destination{"https://a.example/x%2F" + job.Destination(c) + "%2e/y%2f", "https://a.example/?%2F" + job.Destination(c) + "%2e%2f"} {
			if err := raw.Check(); err != nil {
				t.Errorf("%s: %v", raw, err)
			}
			u, err := url.Parse(raw.Sent())
			if err != nil || u.String() != raw.Sent() {
				t.Errorf("%s is sent as %v, %v, want %s", raw, u, err, raw.Sent())
			}
		}
	}
}

func TestTracestates(t *testing.T) {
	long := "k=" + strings.Repeat("v", 300)
	for want, lines := range map[string][]string{
		"vendor=a:1,t@v=b": {" vendor=a:1 ,, t@v=b\t"},
		"a=1,b=2":          {"a=1", "b=2"},
		long:               {long},
		"":                 {"a"},
	} {
		if got := job.TracestateOf(lines); got != want {
			t.Errorf("%q: %q, want %q", lines, got, want)
		}
	}
	for _, lines := range [][]string{nil, {"a=1,b"}, {"=1"}, {"a="}, {"a=1=2"}, {"a=\x7f"}, {long, long}} {
		if got := job.TracestateOf(lines); got != "" {
			t.Errorf("%q: %q", lines, got)
		}
	}
}
