package job

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// Check checks the URL of a job. It must be an absolute http
// or https URL of at most MaxURL ASCII characters without userinfo and
// fragment. Its host is a DNS name (underscores are allowed), an IPv4 address
// in dotted decimal, or an IPv6 address in brackets without a zone. The
// dispatcher's guard decides whether the address may be called.
func (d Destination) Check() error {
	raw := string(d)
	switch {
	case raw == "":
		return errors.New("must not be empty")
	case len(raw) > MaxURL:
		return fmt.Errorf("must have at most %d characters", MaxURL)
	}
	u, err := url.Parse(raw)
	if err != nil {
		if parse := (*url.Error)(nil); errors.As(err, &parse) {
			err = parse.Err // the rest repeats the URL
		}
		return fmt.Errorf("is not a URL: %.200s", err.Error())
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return errors.New("must start with http:// or https://")
	case u.User != nil:
		return errors.New("must not contain a user name or password; send an authorization header")
	case u.Hostname() == "":
		return errors.New("has no host")
	case strings.Contains(raw, "#"):
		return errors.New("must not have a fragment")
	}
	if err := checkHost(u.Hostname()); err != nil {
		return err
	}
	if strings.ContainsFunc(raw, notVisibleASCII) {
		return errors.New("must contain visible ASCII characters only; percent-encode the others")
	}
	return checkPort(u)
}

// notInURLs are the visible ASCII characters that RFC 3986 has no place for.
const notInURLs = "\"<>\\^`{|}"

// Sent returns the URL as requests have it: the characters of notInURLs are percent-encoded, and everything else
// stays byte for byte. net/url would decode a path with one of them and encode it anew: "/a|b%2Fc" would
// become "/a%7Cb/c". The destination must be valid.
func (d Destination) Sent() string {
	raw := string(d)
	if !strings.ContainsAny(raw, notInURLs) {
		return raw
	}
	var b strings.Builder
	for i := range len(raw) {
		if strings.IndexByte(notInURLs, raw[i]) < 0 {
			b.WriteByte(raw[i])
		} else {
			fmt.Fprintf(&b, "%%%02X", raw[i])
		}
	}
	return b.String()
}

func notVisibleASCII(r rune) bool { return r <= ' ' || r > '~' }

func notASCII(r rune) bool { return r > '~' }

// checkPort accepts only one form of each port, so that equal endpoints have equal
// names.
func checkPort(u *url.URL) error {
	port := u.Port()
	if port == "" {
		if strings.HasSuffix(u.Host, ":") {
			return errors.New("has a colon but no port after its host")
		}
		return nil
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil || port[0] == '0' {
		return errors.New("must have a port from 1 to 65535, without leading zeros")
	}
	return nil
}

func checkHost(host string) error {
	switch {
	case strings.ContainsFunc(host, notASCII):
		return errors.New(`must have its host in ASCII; write an international name in punycode ("xn--…")`)
	case strings.Contains(host, "%"):
		return errors.New("must not have a zone in its IPv6 address")
	case strings.Contains(host, ":"):
		if _, err := netip.ParseAddr(host); err != nil {
			return errors.New("has an invalid IPv6 address")
		}
		return nil
	}
	name := strings.TrimSuffix(host, ".")
	labels := strings.Split(name, ".")
	if len(name) > 253 {
		return errors.New("has a host of more than 253 characters")
	}
	for _, l := range labels {
		if !isLabel(l) {
			return errors.New("has a host that is neither a DNS name nor an IP address")
		}
	}
	// Some resolvers read "127.1", "0177.0.0.1" or "0x7f000001" as addresses.
	// Refuse them, so that every host has one meaning.
	if looksNumeric(labels[len(labels)-1]) {
		if _, err := netip.ParseAddr(host); err != nil {
			return errors.New("has a host that ends like a number but is not an IPv4 address in dotted decimal")
		}
	}
	return nil
}

func isLabel(l string) bool {
	for i := range len(l) {
		if !isAlphanumeric(l[i]) && l[i] != '-' && l[i] != '_' {
			return false
		}
	}
	return l != "" && len(l) <= 63 && l[0] != '-' && l[len(l)-1] != '-'
}

func isAlphanumeric(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

func looksNumeric(label string) bool {
	if strings.Trim(label, "0123456789") == "" {
		return true
	}
	hex, ok := strings.CutPrefix(strings.ToLower(label), "0x")
	return ok && strings.Trim(hex, "0123456789abcdef") == ""
}
