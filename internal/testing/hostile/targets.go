package hostile

import (
	"bytes"
	"encoding/json"
	"net"
	"net/netip"
	"net/url"
	"os"
	"strconv"
	"strings"
	"testing"
)

// Target is a destination that must not be called, as testdata/destinations
// has it.
type Target struct {
	Why string `json:"why"`
	// URL is the destination, or where the receiver redirects to.
	URL string `json:"url"`
	// Redirect is the status with which a permitted receiver names URL; zero:
	// the job itself has it.
	Redirect int `json:"redirect"`
	// Answer is what the API answers to a registration: a code of its errors,
	// or "accepted".
	Answer string `json:"answer"`
	// Names are the names in URL with what a name server says to each look-up
	// in turn, over and over: addresses, or another name.
	Names map[string][][]string `json:"names"`
	// Attempts is how many it takes to find out; zero: one.
	Attempts int `json:"attempts"`
	// Ends is what an accepted job ends with: "delivered" to a permitted
	// address, or the class of its last error; empty: Blocked.
	Ends string `json:"ends"`
	// Here says that the URL leads to this machine.
	Here bool `json:"here"`
}

// Blocked is the word for what the guard refuses.
const Blocked = "destination_blocked"

// Places are the real values of what stands in braces in the corpus.
type Places struct {
	// Port is where a listener counts connections, on all addresses of this
	// machine.
	Port int
	// Public plays a permitted address, with a receiver at Port. It answers a
	// path /fail with 500, and /redirect/<status>?to=<URL> so; and closes the
	// connection. Nobody listens at port 1.
	Public netip.Addr
}

// Targets reads the corpus. In names, {own} stands for all addresses of the
// machine's interfaces; a line with it in its URL comes once for each. A
// machine that has none leaves these lines out.
func Targets(t testing.TB, path string, p Places) []Target {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	hostname, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	var lines []json.RawMessage
	if err := json.Unmarshal(text, &lines); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	own := OwnAddresses(t)
	places := strings.NewReplacer("{port}", strconv.Itoa(p.Port), "{hostname}", hostname,
		"{public}", p.Public.String(), `"{own}"`, quoted(own))
	var targets []Target
	for _, line := range lines {
		if len(own) == 0 && bytes.Contains(line, []byte("{own}")) {
			continue
		}
		d := json.NewDecoder(strings.NewReader(places.Replace(string(line))))
		d.DisallowUnknownFields()
		var target Target
		if err := d.Decode(&target); err != nil {
			t.Fatalf("%s: %s: %v", path, line, err)
		}
		targets = append(targets, target.each(own)...)
	}
	return targets
}

// each is the target, or one for each of own if these are in its URL.
func (t Target) each(own []netip.Addr) []Target {
	pattern := t.URL
	if !strings.Contains(pattern, "{own}") {
		return []Target{t}
	}
	var all []Target
	for _, a := range own {
		t.URL = strings.ReplaceAll(pattern, "{own}", inURL(a))
		all = append(all, t)
	}
	return all
}

// quoted is addrs as the elements of a list in JSON.
func quoted(addrs []netip.Addr) string {
	var all []string
	for _, a := range addrs {
		all = append(all, strconv.Quote(a.String()))
	}
	return strings.Join(all, ", ")
}

// OwnAddresses are the addresses of this machine that others know it by.
func OwnAddresses(t testing.TB) []netip.Addr {
	t.Helper()
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	var own []netip.Addr
	for _, a := range addrs {
		prefix, err := netip.ParsePrefix(a.String())
		if addr := prefix.Addr(); err == nil && !addr.IsLoopback() && !addr.IsLinkLocalUnicast() {
			own = append(own, addr.WithZone(""))
		}
	}
	return own
}

func inURL(a netip.Addr) string {
	if a.Is6() {
		return "[" + a.String() + "]"
	}
	return a.String()
}

// JobURL is the URL of a job that comes to call the target.
func (t Target) JobURL(p Places) string {
	if t.Redirect == 0 {
		return t.URL
	}
	return "http://" + net.JoinHostPort(p.Public.String(), strconv.Itoa(p.Port)) +
		"/redirect/" + strconv.Itoa(t.Redirect) + "?to=" + url.QueryEscape(t.URL)
}
