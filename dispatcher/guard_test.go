package dispatcher

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/testing/hostile"
)

func mustGuard(t testing.TB, allow ...netip.Prefix) *Guard {
	t.Helper()
	g, err := NewGuard(allow)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// TestCheckURLRefuses: every URL in the corpus that is to be refused at
// registration is refused by the guard alone, too, and all in the same words.
func TestCheckURLRefuses(t *testing.T) {
	g := mustGuard(t)
	targets := hostile.Targets(t, "../testdata/destinations/forbidden.json", hostile.Places{
		Port: 8080, Public: netip.MustParseAddr("8.8.8.8"),
	})
	refused := 0
	for _, target := range targets {
		if u, err := url.Parse(target.URL); target.Answer == "accepted" || err == nil && u.Hostname() == "receiver.example" {
			continue // found out when it is called, or leads elsewhere
		}
		refused++
		if err := g.CheckURL(target.URL); !errors.Is(err, ErrBlocked) {
			t.Errorf("%s: %s: %v, want ErrBlocked", target.Why, target.URL, err)
		} else if target.Answer == hostile.Blocked && err.Error() != ErrBlocked.Error() {
			t.Errorf("%s: %q tells too much", target.URL, err)
		}
	}
	if refused < 60 {
		t.Errorf("only %d targets", refused)
	}
	for _, host := range []string{"", ":80", "[::1"} {
		if err := g.CheckURL("http://" + host); !errors.Is(err, ErrBlocked) {
			t.Errorf("host %q: %v, want ErrBlocked", host, err)
		}
	}
}

func TestCheckURLPermits(t *testing.T) {
	g := mustGuard(t)
	for _, host := range []string{
		"shop.example", "shop.example:8443", "8.8.8.8", "1.1.1.1:8080", "[2606:4700::1111]", "[::ffff:8.8.8.8]",
		"localhost.example", "mylocalhost", "127.0.0.1.nip.example", "bücher.example", "4ever.example", "0x.example",
		"x1.example", "a-1", "deadbeef", "beef.face",
	} {
		if err := g.CheckURL("https://" + host + "/hook"); err != nil {
			t.Errorf("%s: %v", host, err)
		}
	}
}

func TestAllowedRangesAreOpened(t *testing.T) {
	for _, tt := range []struct {
		allow  string
		opened []string
		closed []string
	}{
		{"127.0.0.0/8", []string{"127.0.0.1", "127.1.2.3", "localhost", "[::ffff:127.0.0.1]"}, []string{"[::1]", "10.0.0.1", "127.1"}},
		{"::1/128", []string{"[::1]", "localhost"}, []string{"127.0.0.1"}},
		{"10.1.0.0/16", []string{"10.1.2.3"}, []string{"10.2.0.1", "localhost"}},
		{"::ffff:10.1.0.0/112", []string{"10.1.2.3", "[::ffff:10.1.2.3]"}, []string{"10.2.0.1"}},
		{"fd00::/8", []string{"[fd12::1]"}, []string{"[fc00::1]"}},
		{"64:ff9b::/96", []string{"[64:ff9b::808:808]"}, []string{"[fd00::1]"}},
		{"168.63.129.16/32", []string{"168.63.129.16"}, []string{"169.254.169.254"}},
	} {
		g := mustGuard(t, netip.MustParsePrefix(tt.allow))
		for _, host := range tt.opened {
			if err := g.CheckURL("http://" + host); err != nil {
				t.Errorf("%s with %s: %v", host, tt.allow, err)
			}
		}
		for _, host := range tt.closed {
			if err := g.CheckURL("http://" + host); !errors.Is(err, ErrBlocked) {
				t.Errorf("%s with %s: %v, want ErrBlocked", host, tt.allow, err)
			}
		}
	}
}

func TestNewGuardRefusesAnInvalidRange(t *testing.T) {
	if _, err := NewGuard([]netip.Prefix{{}}); err == nil {
		t.Error("no error")
	}
	if _, err := New(Options{Store: newFakeStore(), AllowCIDRs: []netip.Prefix{{}}}); err == nil {
		t.Error("no error from New")
	}
}

func TestOwnAddressesAreRefused(t *testing.T) {
	own, err := ownAddresses()
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(own, netip.MustParsePrefix("127.0.0.1/32")) {
		t.Errorf("own addresses %v lack loopback", own)
	}
	// Most machines have private addresses only, which are refused anyway.
	public4, public6 := netip.MustParsePrefix("8.8.4.4/32"), netip.MustParsePrefix("2606:4700::1111/128")
	g := newGuard(nil, []netip.Prefix{public4, public6})
	for _, address := range []string{"8.8.4.4:80", "[2606:4700::1111]:80"} {
		if err := g.Control("tcp4", address, nil); !errors.Is(err, ErrBlocked) {
			t.Errorf("%s: %v, want ErrBlocked", address, err)
		}
	}
	if err := newGuard([]netip.Prefix{public4}, []netip.Prefix{public4}).Control("tcp4", "8.8.4.4:80", nil); err != nil {
		t.Errorf("not even when allowed: %v", err)
	}
}

func TestControlRefusesOtherNetworksAndNonsense(t *testing.T) {
	g := mustGuard(t)
	for _, tt := range [][2]string{{"udp4", "8.8.8.8:53"}, {"tcp4", "nonsense"}, {"tcp6", "[fe80::1%eth0]:80"}} {
		if err := g.Control(tt[0], tt[1], nil); !errors.Is(err, ErrBlocked) {
			t.Errorf("%v: %v, want ErrBlocked", tt, err)
		}
	}
	if err := g.Control("tcp4", "8.8.8.8:80", nil); err != nil {
		t.Error(err)
	}
}

// countingServer counts its connections.
func countingServer(t *testing.T) (url string, accepted *atomic.Int32) {
	t.Helper()
	accepted = new(atomic.Int32)
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	srv.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			accepted.Add(1)
		}
	}
	srv.Start()
	t.Cleanup(srv.Close)
	return srv.URL, accepted
}

func TestMalformedRedirectIsAFailure(t *testing.T) {
	srv := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "http://[::1")
		w.WriteHeader(http.StatusFound)
	})
	o, _ := realSender(t, Options{AllowCIDRs: loopback()}).send(t.Context(), claimOf(newJob("r", srv)))
	if o.Kind != job.OutcomeFailed || o.Attempt.Error != classInvalid {
		t.Errorf("%+v, attempt %+v", o, o.Attempt)
	}
}

func TestProxiesAreIgnored(t *testing.T) {
	proxy, proxied := countingServer(t)
	for _, name := range []string{"HTTP_PROXY", "http_proxy", "ALL_PROXY", "HTTPS_PROXY"} {
		t.Setenv(name, proxy)
	}
	// Loopback is never proxied by net/http, so the target must have a name
	// and an address that would be. It is refused when dialled; a proxy would not be.
	s := realSender(t, Options{Timeout: time.Second})
	o, health := s.send(t.Context(), claimOf(newJob("p", "http://10.11.12.13/")))
	if o.Kind != job.OutcomeRefused {
		t.Errorf("%+v, attempt %+v", o, o.Attempt)
	}
	if !errors.Is(health, errExcluded) {
		t.Errorf("health %v; a refusal says nothing of the endpoint", health)
	}
	if tr := newTransport(mustGuard(t), 1); tr.Proxy != nil {
		t.Error("the transport has a proxy function")
	}
	if n := proxied.Load(); n != 0 {
		t.Errorf("%d connections to the proxy", n)
	}
}

// nameServer answers every question for an IPv4 address with what addrs gives
// for it, and makes g ask it.
func nameServer(t *testing.T, g *Guard, addrs func(name string) []netip.Addr) {
	t.Helper()
	g.resolver = hostile.Resolver(t, func(l hostile.Lookup) hostile.Reply {
		if l.IPv6 {
			return hostile.Reply{}
		}
		return hostile.Reply{Addrs: addrs(l.Name + ".")}
	})
}
