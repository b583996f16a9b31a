package access

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
)

// RequireKeys says whether a server may listen on addr (host:port) with so many
// keys in its settings. Beyond loopback it needs one, unless insecure says that
// callers without keys are wanted; to want that and to give keys is a
// contradiction. Stored keys do not count: whether there are any is not known
// before the store answers, and the last of them can be revoked.
func RequireKeys(addr string, keys int, insecure bool) error {
	switch {
	case insecure && keys > 0:
		return errors.New("--insecure-no-api-keys and --api-keys contradict each other: leave one of them out")
	case keys == 0 && !insecure && !Loopback(addr):
		return fmt.Errorf("--addr %q can be reached from other machines, and there are no API keys: "+
			"make one with \"duehook apikey new --scope admin\" and set --api-keys, or listen on 127.0.0.1; "+
			"--insecure-no-api-keys lets everybody in", addr)
	}
	return nil
}

// Loopback reports whether addr (host:port) can be reached from this machine
// only.
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

// LocalHost reports whether a Host header is localhost or an IP address. A
// server that listens on loopback and asks for no keys must refuse any other:
// a web page can have its own name resolve to 127.0.0.1 (DNS rebinding), and
// is then, for the browser, of the same origin as the server.
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
