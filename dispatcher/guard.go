package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"syscall"

	"code.dny.dev/ssrf"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/net/idna"

	"github.com/duehook/duehook/internal/kit/metered"
)

// ErrBlocked reports a destination that the guard refuses. It has no details, because
// clients could explore our network with them.
var ErrBlocked = errors.New("destination not allowed")

// errNoPermitted: a name has refused and permitted addresses, and none of the permitted
// ones can be reached.
var errNoPermitted = errors.New("no permitted address of the host could be reached")

// azureWire is the address of the Azure platform's services (DNS, agent). It is public by
// number, but only reachable from inside.
const azureWire = "168.63.129.16/32"

// Guard decides which addresses deliveries may reach. By default it refuses private,
// loopback, link-local and other reserved addresses, and this machine's own.
type Guard struct {
	rules    *ssrf.Guardian
	resolver *net.Resolver
	// Dials by verdict.
	permitted, refused atomic.Uint64
}

// NewGuard returns a guard that permits the public internet and the ranges allow. It reads
// the machine's own addresses once.
func NewGuard(allow []netip.Prefix) (*Guard, error) {
	own, err := ownAddresses()
	if err != nil {
		return nil, fmt.Errorf("list own addresses: %w", err)
	}
	for _, p := range allow {
		if !p.IsValid() {
			return nil, errors.New("an allowed range is not valid")
		}
	}
	return newGuard(allow, append(own, netip.MustParsePrefix(azureWire))), nil
}

// newGuard also refuses deny; allow takes precedence.
func newGuard(allow, deny []netip.Prefix) *Guard {
	allow4, allow6 := splitFamilies(allow)
	deny4, deny6 := splitFamilies(deny)
	return &Guard{
		rules: ssrf.New(
			ssrf.WithAnyPort(),
			ssrf.WithAllowedV4Prefixes(allow4...), ssrf.WithAllowedV6Prefixes(allow6...),
			ssrf.WithDeniedV4Prefixes(deny4...), ssrf.WithDeniedV6Prefixes(deny6...),
		),
		// Go's own resolver holds no thread and ends with its context.
		resolver: &net.Resolver{PreferGo: true},
	}
}

func ownAddresses() ([]netip.Prefix, error) {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	var own []netip.Prefix
	for _, a := range addrs {
		ipNet, ok := a.(*net.IPNet)
		if !ok {
			continue
		}
		if ip, ok := netip.AddrFromSlice(ipNet.IP); ok {
			ip = ip.Unmap()
			own = append(own, netip.PrefixFrom(ip, ip.BitLen()))
		}
	}
	return own, nil
}

// splitFamilies sorts prefixes into IPv4 and IPv6; IPv4-mapped ones are IPv4,
// as the dialler writes them.
func splitFamilies(prefixes []netip.Prefix) (v4, v6 []netip.Prefix) {
	const mappedBits = 96
	for _, p := range prefixes {
		switch {
		case p.Addr().Is4():
			v4 = append(v4, p)
		case p.Addr().Is4In6() && p.Bits() >= mappedBits:
			v4 = append(v4, netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-mappedBits))
		default:
			v6 = append(v6, p)
		}
	}
	return v4, v6
}

// Control is for net.Dialer.Control: it checks the address of the connection itself,
// whatever its name or notation was.
func (g *Guard) Control(network, address string, c syscall.RawConn) error {
	if err := g.rules.Safe(network, address, c); err != nil {
		g.refused.Add(1)
		return fmt.Errorf("%w: %w", ErrBlocked, err)
	}
	g.permitted.Add(1)
	return nil
}

// register registers the guard's counters with r, unless that is nil.
func (g *Guard) register(r prometheus.Registerer) error {
	var dials []prometheus.Collector
	for verdict, count := range map[string]*atomic.Uint64{"permitted": &g.permitted, "refused": &g.refused} {
		dials = append(dials, prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "duehook_dials_total", Help: "Addresses before connecting, by the verdict of the address guard.",
			ConstLabels: prometheus.Labels{"verdict": verdict},
		}, func() float64 { return float64(count.Load()) }))
	}
	return metered.Register(r, "the guard", dials...)
}

// CheckURL returns ErrBlocked for a URL with a refused address or a name for loopback.
// Other names are checked when dialled.
func (g *Guard) CheckURL(rawURL string) error {
	u, err := url.Parse(rawURL)
	if err != nil {
		return fmt.Errorf("%w: not a URL", ErrBlocked)
	}
	host := u.Hostname()
	// The transport does the same; it also turns wide digits into plain ones.
	if ascii, err := idna.Lookup.ToASCII(host); err == nil {
		host = ascii
	}
	host = strings.ToLower(strings.TrimRight(host, "."))
	switch addr, err := netip.ParseAddr(host); {
	case err == nil:
		return g.checkAddr(addr)
	case host == "", endsInNumber(host):
		// Resolvers may take 127.1 or 0x7f000001 for addresses. Public names do not
		// end in a number.
		return ErrBlocked
	case isLoopbackName(host):
		if g.checkAddr(netip.AddrFrom4([4]byte{127, 0, 0, 1})) == nil {
			return nil
		}
		return g.checkAddr(netip.IPv6Loopback())
	}
	return nil
}

func (g *Guard) checkAddr(a netip.Addr) error {
	if g.rules.SafeAddr(a.Unmap()) != nil {
		return ErrBlocked
	}
	return nil
}

// endsInNumber reports whether the last label is a decimal, octal or
// hexadecimal number.
func endsInNumber(host string) bool {
	last := host[strings.LastIndexByte(host, '.')+1:]
	if hex, ok := strings.CutPrefix(last, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return last != "" && strings.Trim(last, "0123456789") == ""
}

func isLoopbackName(host string) bool {
	switch host {
	case "localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback":
		return true
	}
	return strings.HasSuffix(host, ".localhost")
}

// dial only connects to permitted addresses. The error wraps ErrBlocked if all addresses of
// the host are refused. If only some are, the host counts as unreachable, which may pass.
func (g *Guard) dial(ctx context.Context, network, address string) (net.Conn, error) {
	var permitted atomic.Bool // the dialler tries two families at a time
	dialer := net.Dialer{
		Timeout:  dialTimeout,
		Resolver: g.resolver,
		Control: func(network, address string, c syscall.RawConn) error {
			err := g.Control(network, address, c)
			if err == nil {
				permitted.Store(true)
			}
			return err
		},
	}
	conn, err := dialer.DialContext(ctx, network, address)
	if permitted.Load() && errors.Is(err, ErrBlocked) {
		return nil, errNoPermitted
	}
	return conn, err
}
