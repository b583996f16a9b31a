package job

import (
	"errors"
	"net/netip"
	"strings"
)

// Destination is the URL of a delivery, or PullQueue. Check defines the valid URLs.
type Destination string

// Endpoint is the scheme://host:port of the destination: the unit of circuits and
// of concurrency limits. It is in lower case, without a final dot, with the
// shortest form of an IPv6 address and with the default port written out, so
// that one receiver is one endpoint. The destination must be valid.
func (d Destination) Endpoint() (string, error) {
	if d.Pulled() {
		return string(d), nil
	}
	scheme, rest, _ := strings.Cut(string(d), "://")
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		rest = rest[:end]
	}
	host, port := rest[strings.LastIndexByte(rest, '@')+1:], ""
	if colon := strings.LastIndexByte(host, ':'); colon > strings.LastIndexByte(host, ']') {
		host, port = host[:colon], host[colon+1:]
	}
	scheme, host = strings.ToLower(scheme), strings.TrimSuffix(strings.ToLower(host), ".")
	if scheme == "" || host == "" {
		return "", errors.New("URL has no host")
	}
	if strings.HasPrefix(host, "[") {
		addr, err := netip.ParseAddr(strings.Trim(host, "[]"))
		if err != nil {
			return "", err
		}
		host = "[" + addr.String() + "]"
	}
	switch {
	case port != "":
	case scheme == "https":
		port = "443"
	default:
		port = "80"
	}
	return scheme + "://" + host + ":" + port, nil
}
