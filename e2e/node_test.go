package e2e

import (
	"strings"
	"sync"
	"testing"

	"github.com/duehook/duehook/e2e/rig"
)

// node is a process of duehook; see rig.Node.
type node struct {
	*rig.Node
	t testing.TB
}

func (n *node) base() string { return n.Base() }
func (n *node) pid() int     { return n.PID() }
func (n *node) start()       { n.Start() }
func (n *node) stop() int    { return n.Stop() }
func (n *node) alive() bool  { return n.Alive() }
func (n *node) awaitReady()  { n.AwaitReady() }

// newNode is a node that is not started yet. flags come on top of those that
// every test needs.
func newNode(t testing.TB, binary func() (string, error), name string, flags ...string) *node {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	return &node{rig.NewNode(t, path, name, flags...), t}
}

// startEmbedded starts a node on the embedded store in a directory of its own.
func startEmbedded(t testing.TB, binary func() (string, error), flags ...string) *node {
	t.Helper()
	n := newNode(t, binary, "node", append([]string{"--data-dir", t.TempDir()}, flags...)...)
	n.start()
	return n
}

// startNodes starts nodes that share a Redis.
func startNodes(t testing.TB, binary func() (string, error), names string, redisURL string, flags ...string) []*node {
	t.Helper()
	return startNodesOn(t, binary, names, "--redis-url", redisURL, flags...)
}

// startNodesOn starts nodes that share the server that a flag names.
func startNodesOn(t testing.TB, binary func() (string, error), names, flag, url string, flags ...string) []*node {
	t.Helper()
	var nodes []*node
	for _, name := range strings.Fields(names) {
		n := newNode(t, binary, name, append([]string{flag, url}, flags...)...)
		n.start()
		nodes = append(nodes, n)
	}
	return nodes
}

// bases gives the addresses of the nodes that are up now.
type bases struct {
	mu    sync.Mutex
	nodes []*node
	next  int
}

// pick is the address of one node after the other, or empty when all are down.
func (b *bases) pick() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	for range b.nodes {
		b.next++
		if base := b.nodes[b.next%len(b.nodes)].base(); base != "" {
			return base
		}
	}
	return ""
}
