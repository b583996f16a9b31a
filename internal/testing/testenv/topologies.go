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

// StartRedisCluster starts a Redis Cluster of n masters without replicas, which
// share the slots equally, and waits until it serves all of them.
func StartRedisCluster(t testing.TB, n int, opts ...RedisOption) []*Redis {
	t.Helper()
	const slots = 16384
	nodes := make([]*Redis, n)
	for i := range nodes {
		nodes[i] = startClusterNode(t, opts)
		nodes[i].command("CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(i*slots/n), strconv.Itoa((i+1)*slots/n-1))
		if i > 0 {
			nodes[i].meet(nodes[0])
		}
	}
	awaitCluster(t, nodes)
	return nodes
}

// AddClusterReplicas gives each master of a Redis Cluster a replica, in the
// same order, and waits until they have caught up.
func AddClusterReplicas(t testing.TB, masters []*Redis, opts ...RedisOption) []*Redis {
	t.Helper()
	replicas := make([]*Redis, len(masters))
	for i := range masters {
		replicas[i] = startClusterNode(t, opts)
		replicas[i].meet(masters[0])
	}
	awaitCluster(t, append(append([]*Redis{}, masters...), replicas...))
	for i, r := range replicas {
		r.command("CLUSTER", "REPLICATE", masters[i].command("CLUSTER", "MYID"))
	}
	for i, r := range replicas {
		r.awaitLink(masters[i])
	}
	return replicas
}

func startClusterNode(t testing.TB, opts []RedisOption) *Redis {
	t.Helper()
	return StartRedis(t, append(append([]RedisOption{}, opts...), func(r *Redis) { r.clustered = true })...)
}

// meet makes r a node of other's cluster.
func (r *Redis) meet(other *Redis) {
	r.t.Helper()
	r.command("CLUSTER", "MEET", "127.0.0.1", strconv.Itoa(other.port), strconv.Itoa(other.bus))
}

// awaitCluster waits until all nodes know each other and serve all slots.
func awaitCluster(t testing.TB, nodes []*Redis) {
	t.Helper()
	for _, r := range nodes {
		Eventually(t, Patience, func() bool {
			info := r.command("CLUSTER", "INFO")
			// Nodes that need no full coverage are "ok" before they know all slots.
			return strings.Contains(info, "cluster_state:ok") && strings.Contains(info, "cluster_slots_ok:16384") && strings.Contains(info, "cluster_known_nodes:"+strconv.Itoa(len(nodes)))
		}, "the cluster to be complete")
	}
}

// awaitLink waits until a replica has caught up and its master counts on it.
func (r *Redis) awaitLink(master *Redis) {
	r.t.Helper()
	Eventually(r.t, Patience, func() bool {
		return strings.Contains(r.command("INFO", "replication"), "master_link_status:up") &&
			strings.Contains(master.command("INFO", "replication"), fmt.Sprintf("port=%d,state=online", r.port))
	}, "the replica to catch up")
}

// StartReplica starts a replica of a server, and waits until it has caught up.
func StartReplica(t testing.TB, master *Redis, opts ...RedisOption) *Redis {
	t.Helper()
	r := StartRedis(t, append(opts, WithArgs("--replicaof", "127.0.0.1", strconv.Itoa(master.port)))...)
	r.awaitLink(master)
	return r
}

// StartSentinels starts n sentinels, most of which have to agree on the
// failover of a master that they know by name, and waits until they know each
// other and its replicas. A master that is silent for a second is down.
func StartSentinels(t testing.TB, n int, name string, master *Redis, replicas int) []*Redis {
	t.Helper()
	sentinels := make([]*Redis, n)
	for i := range sentinels {
		sentinels[i] = StartRedis(t, func(r *Redis) {
			r.sentinel = fmt.Sprintf("sentinel monitor %[1]s 127.0.0.1 %[2]d %[3]d\nsentinel down-after-milliseconds %[1]s 3000\nsentinel failover-timeout %[1]s 3000\n",
				name, master.port, n/2+1)
		})
	}
	for _, r := range sentinels {
		Eventually(t, Patience, func() bool {
			return strings.Contains(r.command("INFO", "sentinel"), fmt.Sprintf("slaves=%d,sentinels=%d", replicas, n))
		}, "the sentinels to find each other and the replicas")
	}
	return sentinels
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
