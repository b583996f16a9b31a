package access

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
)

// RequireKeys returns an error unless a node may listen on addr (host:port) with a number
// of keys in its settings. Beyond loopback it needs a key, or insecure; both together are a
// contradiction. Stored keys do not count: their number is unknown before the store
// answers, and the last one can be revoked.
func RequireKeys(addr string, keys int, insecure bool) error {
	switch {
	case insecure && keys > 0:
		return errors.New("--insecure-no-api-keys and --api-keys contradict each other: leave one of them out")
	case keys == 0 && !insecure && !Loopback(addr):
		return fmt.Errorf("--addr %q can be reached from other machines, and there are no API keys: "+
			"create one with \"duehook apikey new --scope admin\" and set --api-keys, or listen on 127.0.0.1; "+
			"--insecure-no-api-keys allows every caller", addr)
	}
	return nil
}

// Loopback reports whether only this machine can reach addr (host:port).
func Loopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}

// LocalHost reports whether a Host header is localhost or an IP address. A node that
// listens on loopback without keys must refuse other names: by DNS rebinding, the name of a
// web page can resolve to 127.0.0.1, and the browser takes the node for the page's origin.
func LocalHost(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	} else {
		host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	_, err := netip.ParseAddr(host)
	return err == nil
}
