package access

import (
	"strings"
	"testing"
)

func TestRequireKeys(t *testing.T) {
	for _, c := range []struct {
		addr     string
		keys     int
		insecure bool
		want     string // part of the error; empty: none
	}{
		{"127.0.0.1:7788", 0, false, ""},
		{"127.0.0.1:7788", 2, false, ""},
		{"[::1]:7788", 0, false, ""},
		{"0.0.0.0:7788", 1, false, ""},
		{"0.0.0.0:7788", 0, true, ""},
		{"127.0.0.1:7788", 0, true, ""},
		{"0.0.0.0:7788", 0, false, `--addr "0.0.0.0:7788" can be reached from other machines`},
		{":7788", 0, false, "duehook apikey new"},
		{"[::]:7788", 0, false, "--insecure-no-api-keys"},
		{"192.168.1.5:7788", 0, false, "no API keys"},
		{"duehook.internal:7788", 0, false, "no API keys"},
		{"0.0.0.0:7788", 1, true, "contradict"},
		{"127.0.0.1:7788", 1, true, "contradict"},
	} {
		err := RequireKeys(c.addr, c.keys, c.insecure)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s, %d keys, insecure %v: %v, want %q", c.addr, c.keys, c.insecure, err, c.want)
		}
	}
}

func TestLoopback(t *testing.T) {
	for addr, want := range map[string]bool{
		"127.0.0.1:1": true, "127.8.9.10:1": true, "localhost:1": true, "LocalHost:1": true, "[::1]:1": true,
		"[::ffff:127.0.0.1]:1": true, "[::1%lo]:1": true,
		":1": false, "0.0.0.0:1": false, "[::]:1": false, "10.0.0.1:1": false, "[fe80::1]:1": false,
		"localhost.example.com:1": false, "127.1:1": false, "0x7f000001:1": false, "127.0.0.1.example.com:1": false,
		"127.0.0.1": false, "": false, "localhost": false,
	} {
		if got := Loopback(addr); got != want {
			t.Errorf("Loopback(%q) = %v", addr, got)
		}
	}
}

func TestLocalHost(t *testing.T) {
	for host, want := range map[string]bool{
		"localhost": true, "localhost:7788": true, "LOCALHOST:1": true, "127.0.0.1": true, "127.0.0.1:7788": true,
		"[::1]": true, "[::1]:7788": true, "192.168.1.5:7788": true,
		"": false, ":7788": false, "evil.example": false, "evil.example:7788": false, "127.0.0.1.nip.io:7788": false,
		"localhost.evil.example": false, "localhost.": false, "2130706433": false, "0x7f.1": false, "[evil.example]": false,
	} {
		if got := LocalHost(host); got != want {
			t.Errorf("LocalHost(%q) = %v", host, got)
		}
	}
}
