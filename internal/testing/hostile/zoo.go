package hostile

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"testing"
	"time"
)

// Kind is one way to misbehave, with the expected outcome of a delivery.
type Kind struct {
	Name string
	// Expect is the expect.body of the jobs, without which few bodies matter.
	Expect string
	// Error is the class that the attempt log is to show; empty: none.
	Error string
	// Fate is the expected outcome of the attempt.
	Fate Fate
	// Endless says that nothing but its deadline ends the attempt.
	Endless bool
	// After is when the next attempt is to follow; zero: when the job's own
	// policy says so.
	After time.Duration
	// Healthy says that the endpoint is to count as alive.
	Healthy bool
	// TLS says that the server is called over HTTPS.
	TLS bool
	// Chain says that the server's certificates cost a client more than an
	// answer can.
	Chain bool
	// URL is where it serves, once it does.
	URL string

	serve speech
}

// Fate is the outcome of an attempt.
type Fate string

// The fates of attempts.
const (
	Delivered Fate = "delivered"
	Failed    Fate = "failed"
	Snoozed   Fate = "snoozed"
)

func kinds() []Kind {
	var all []Kind
	for _, group := range [][]Kind{connections(), heads(), bodies(), retryTimes(), handshakes(), certificates(), floodsOverTLS()} {
		all = append(all, group...)
	}
	return all
}

// process is the environment variable that makes a process the zoo.
const process = "DUEHOOK_TEST_ZOO"

// Zoo is the whole zoo at work.
type Zoo struct {
	Kinds []Kind
	// RootsPEM are the certificates that a client has to trust so that it gets
	// to see what the kinds do after a handshake.
	RootsPEM []byte
}

// Start starts the zoo in a process of its own, so that what a delivery costs
// can be told from what misbehaving costs. It ends with the test. The package's
// TestMain has to call Main.
func Start(t testing.TB) *Zoo {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), process+"=1")
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe() // its end reports to the zoo that we have ended
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = stdin.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("the zoo ended: %v", err)
		}
	})
	var z Zoo
	if err := json.NewDecoder(stdout).Decode(&z); err != nil {
		t.Fatalf("the zoo does not say where it is: %v", err)
	}
	return &z
}

// Main turns the process into the zoo if Start started it for that; it then
// does not return. Otherwise it does nothing.
func Main() {
	if os.Getenv(process) == "" {
		return
	}
	if err := serve(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "zoo:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// serve runs the zoo until in ends. It writes its addresses to out.
func serve(in io.Reader, out io.Writer) error {
	z := Zoo{Kinds: kinds(), RootsPEM: authority().pem()}
	for i := range z.Kinds {
		k := &z.Kinds[i]
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		scheme := "http://"
		if k.TLS {
			scheme = "https://"
		}
		k.URL = scheme + l.Addr().String() + "/hook"
		go accept(l, k.serve) // as long as the process
	}
	if err := json.NewEncoder(out).Encode(z); err != nil {
		return err
	}
	_, err := io.Copy(io.Discard, in)
	return err
}

// accept serves connections until l is closed.
func accept(l net.Listener, serve speech) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer func() { _ = c.Close() }()
			serve(context.Background(), c)
		}()
	}
}
