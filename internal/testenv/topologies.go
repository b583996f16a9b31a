package testenv

import (
	"bufio"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"
)

// topologyLimit is how long servers may take to find each other.
const topologyLimit = 30 * time.Second

// StartRedisCluster starts a Redis Cluster of n masters without replicas, and
// waits until it serves all slots.
func StartRedisCluster(t testing.TB, n int) []*Redis {
	t.Helper()
	const slots = 16384
	nodes := make([]*Redis, n)
	buses := make([]string, n)
	for i := range nodes {
		bus, err := freePort()
		if err != nil {
			t.Fatal(err)
		}
		buses[i] = strconv.Itoa(bus)
		nodes[i] = StartRedis(t, WithArgs("--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf", "--cluster-port", buses[i]))
		nodes[i].command("CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(i*slots/n), strconv.Itoa((i+1)*slots/n-1))
	}
	for i := range nodes[1:] {
		nodes[0].command("CLUSTER", "MEET", "127.0.0.1", strconv.Itoa(nodes[i+1].port), buses[i+1])
	}
	for _, r := range nodes {
		Eventually(t, topologyLimit, func() bool {
			info := r.command("CLUSTER", "INFO")
			return strings.Contains(info, "cluster_state:ok") && strings.Contains(info, "cluster_known_nodes:"+strconv.Itoa(n))
		}, "the cluster to be complete")
	}
	return nodes
}

// StartReplica starts a replica of a server, and waits until it has caught up.
func StartReplica(t testing.TB, master *Redis, opts ...RedisOption) *Redis {
	t.Helper()
	r := StartRedis(t, append(opts, WithArgs("--replicaof", "127.0.0.1", strconv.Itoa(master.port)))...)
	Eventually(t, topologyLimit, func() bool {
		return strings.Contains(r.command("INFO", "replication"), "master_link_status:up")
	}, "the replica to catch up")
	return r
}

// StartSentinel starts a sentinel that alone decides on the failover of a
// master, which it knows by name, and waits until it knows of its replicas.
func StartSentinel(t testing.TB, name string, master *Redis, replicas int) *Redis {
	t.Helper()
	r := StartRedis(t, func(r *Redis) {
		r.sentinel = fmt.Sprintf("sentinel monitor %[1]s 127.0.0.1 %[2]d 1\nsentinel down-after-milliseconds %[1]s 1000\nsentinel failover-timeout %[1]s 5000\n",
			name, master.port)
	})
	Eventually(t, topologyLimit, func() bool {
		return strings.Contains(r.command("INFO", "sentinel"), "slaves="+strconv.Itoa(replicas))
	}, "the sentinel to find the replicas")
	return r
}

// command runs one command and gives its answer, without the quoting of its
// kind. An error fails the test.
func (r *Redis) command(args ...string) string {
	r.t.Helper()
	conn, err := net.DialTimeout("tcp", r.Addr(), startLimit)
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(startLimit)) //nolint:forbidigo // a deadline of the network
	if _, err := fmt.Fprintf(conn, "%s\r\n", strings.Join(args, " ")); err != nil {
		r.t.Fatal(err)
	}
	in := bufio.NewReader(conn)
	line, err := in.ReadString('\n')
	if err != nil {
		r.t.Fatal(err)
	}
	line = strings.TrimSpace(line)
	switch line[0] {
	case '-':
		r.t.Fatalf("%s: %s", strings.Join(args, " "), line)
	case '$':
		size, err := strconv.Atoi(line[1:])
		if err != nil {
			r.t.Fatal(err)
		}
		text := make([]byte, max(0, size))
		for n := 0; n < len(text); {
			m, err := in.Read(text[n:])
			if err != nil {
				r.t.Fatal(err)
			}
			n += m
		}
		return string(text)
	}
	return line[1:]
}
