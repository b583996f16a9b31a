package testenv

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
)

// PretendRedis is the address of something that answers INFO with info, GET with
// stored, and all else with OK, as a Redis of another version or make might.
func PretendRedis(t testing.TB, info, stored string) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer func() { _ = conn.Close() }()
				answer(conn, info, stored)
			})
		}
	})
	t.Cleanup(func() {
		_ = ln.Close()
		wg.Wait()
	})
	return ln.Addr().String()
}

// answer answers commands until the client has gone.
func answer(conn io.ReadWriter, info, stored string) {
	in := bufio.NewReader(conn)
	for {
		var words, size int
		if _, err := fmt.Fscanf(in, "*%d\r\n", &words); err != nil {
			return
		}
		command := make([]string, words)
		for i := range command {
			if _, err := fmt.Fscanf(in, "$%d\r\n", &size); err != nil {
				return
			}
			word := make([]byte, size+2)
			if _, err := io.ReadFull(in, word); err != nil {
				return
			}
			command[i] = strings.ToLower(string(word[:size]))
		}
		reply := "+OK\r\n"
		switch command[0] {
		case "hello", "config":
			reply = "-ERR unknown command\r\n"
		case "get":
			reply = fmt.Sprintf("$%d\r\n%s\r\n", len(stored), stored)
		case "info":
			reply = fmt.Sprintf("$%d\r\n%s\r\n", len(info), info)
		}
		if _, err := io.WriteString(conn, reply); err != nil {
			return
		}
	}
}
