package job

import (
	"errors"
	"net/netip"
	"net/url"
	"strings"
)

// Destination is the URL of a callback. Check defines the valid URLs.
type Destination string

// Endpoint is the scheme://host:port of the destination: the unit of circuits and
// of concurrency limits. It is in lower case, without a final dot, with the
// shortest form of an IPv6 address and with the default port written out, so
// that one receiver is one endpoint.
func (d Destination) Endpoint() (string, error) {
	if endpoint := plainEndpoint(string(d)); endpoint != "" {
		return endpoint, nil
	}
	u, err := url.Parse(string(d))
	if err != nil {
		return "", err
	}
	host, port := strings.TrimSuffix(strings.ToLower(u.Hostname()), "."), u.Port()
	if host == "" {
		return "", errors.New("URL has no host")
	}
	scheme := strings.ToLower(u.Scheme)
	if port == "" {
		switch scheme {
		case "https":
			port = "443"
		default:
			port = "80"
		}
	}
	if strings.Contains(host, ":") {
		if addr, err := netip.ParseAddr(host); err == nil {
			host = addr.String()
		}
		host = "[" + host + "]"
	}
	return scheme + "://" + host + ":" + port, nil
}

// plainEndpoint is the endpoint of a URL that needs no parser: scheme and host are
// in lower case, and nothing is escaped. It is empty for other URLs. Most URLs are
// plain, and every attempt needs the endpoint.
func plainEndpoint(rawURL string) string {
	port, at := ":80", len("http://")
	if !strings.HasPrefix(rawURL, "http://") {
		port, at = ":443", len("https://")
		if !strings.HasPrefix(rawURL, "https://") {
			return ""
		}
	}
	end := after(rawURL, at, plainHost)
	if end == at || rawURL[end-1] == '.' {
		return ""
	}
	if end < len(rawURL) && rawURL[end] == ':' {
		first := end + 1
		if end = after(rawURL, first, digit); end == first {
			return ""
		}
		port = ""
	}
	if end < len(rawURL) && !strings.ContainsRune("/?#", rune(rawURL[end])) || after(rawURL, end, unescaped) < len(rawURL) {
		return ""
	}
	if port == "" {
		return strings.Clone(rawURL[:end]) // the endpoint must not keep the URL in memory
	}
	return rawURL[:end] + port
}

// after is the end of the run of such bytes that begins at from.
func after(s string, from int, such func(byte) bool) int {
	for from < len(s) && such(s[from]) {
		from++
	}
	return from
}

func digit(c byte) bool     { return '0' <= c && c <= '9' }
func plainHost(c byte) bool { return 'a' <= c && c <= 'z' || digit(c) || c == '.' || c == '-' }
func unescaped(c byte) bool { return c >= ' ' && c != 0x7f && c != '%' }
