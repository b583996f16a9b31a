package hostile

import (
	"context"
	"maps"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// Lookup is a question to a name server: one of the two that a look-up asks.
type Lookup struct {
	Name string // in lower case, without the final dot
	IPv6 bool   // asks for IPv6 addresses rather than for IPv4 ones
}

// Reply is a name server's answer.
type Reply struct {
	Aliases []string // a chain of names that leads from the one asked for
	Addrs   []netip.Addr
	Fails   bool // SERVFAIL instead
}

// Resolver asks a name server on loopback that replies as reply says, until the
// test ends. reply is called by one goroutine.
func Resolver(t testing.TB, reply func(Lookup) Reply) *net.Resolver {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		buf := make([]byte, 512)
		for {
			n, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			if out, err := respond(buf[:n], reply); err == nil {
				_, _ = conn.WriteTo(out, from)
			}
		}
	})
	t.Cleanup(func() {
		_ = conn.Close()
		wg.Wait()
	})
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}

func respond(question []byte, reply func(Lookup) Reply) ([]byte, error) {
	var m dnsmessage.Message
	if err := m.Unpack(question); err != nil {
		return nil, err
	}
	m.Response, m.RecursionAvailable, m.Additionals = true, true, nil
	q := m.Questions[0]
	if q.Type != dnsmessage.TypeA && q.Type != dnsmessage.TypeAAAA {
		return m.Pack()
	}
	l := Lookup{strings.TrimSuffix(strings.ToLower(q.Name.String()), "."), q.Type == dnsmessage.TypeAAAA}
	r := reply(l)
	if r.Fails {
		m.RCode = dnsmessage.RCodeServerFailure
		return m.Pack()
	}
	name := q.Name
	for _, alias := range r.Aliases {
		next, err := dnsmessage.NewName(alias + ".")
		if err != nil {
			return nil, err
		}
		m.Answers = append(m.Answers, resource(name, dnsmessage.TypeCNAME, &dnsmessage.CNAMEResource{CNAME: next}))
		name = next
	}
	for _, a := range r.Addrs {
		switch {
		case a.Is4() && !l.IPv6:
			m.Answers = append(m.Answers, resource(name, q.Type, &dnsmessage.AResource{A: a.As4()}))
		case a.Is6() && l.IPv6:
			m.Answers = append(m.Answers, resource(name, q.Type, &dnsmessage.AAAAResource{AAAA: a.As16()}))
		}
	}
	return m.Pack()
}

func resource(name dnsmessage.Name, kind dnsmessage.Type, body dnsmessage.ResourceBody) dnsmessage.Resource {
	return dnsmessage.Resource{Header: dnsmessage.ResourceHeader{Name: name, Type: kind, Class: dnsmessage.ClassINET}, Body: body}
}

// Zone replies as the names of targets say. Every other name is loopback, as if
// all the notations in the corpus that some take for addresses were names.
func Zone(targets []Target) func(Lookup) Reply {
	names := map[string][][]string{}
	for _, t := range targets {
		maps.Copy(names, t.Names)
	}
	asked := map[Lookup]int{}
	var resolve func(l Lookup) Reply
	resolve = func(l Lookup) Reply {
		turns, ok := names[l.Name]
		if !ok {
			return Reply{Addrs: []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.IPv6Loopback()}}
		}
		turn := turns[asked[l]%len(turns)]
		asked[l]++
		var r Reply
		for _, entry := range turn {
			if a, err := netip.ParseAddr(entry); err == nil {
				r.Addrs = append(r.Addrs, a)
				continue
			}
			further := resolve(Lookup{entry, l.IPv6})
			r.Aliases = append(append(r.Aliases, entry), further.Aliases...)
			r.Addrs = append(r.Addrs, further.Addrs...)
		}
		return r
	}
	return resolve
}
