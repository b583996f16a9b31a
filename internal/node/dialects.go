package node

import (
	"net"
	"slices"

	"github.com/duehook/duehook/httpapi"
	"github.com/duehook/duehook/httpapi/camellia"
	"github.com/duehook/duehook/httpapi/mykit"
	"github.com/duehook/duehook/httpapi/qstash"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/job/contract"
	"github.com/duehook/duehook/internal/kit/feed"
	"github.com/duehook/duehook/internal/services/access"
)

// dialects are what the dialects of other systems keep in a node.
type dialects struct {
	monitor *camellia.Monitor // nil: the node does not speak the dialect
	keys    qstash.Keys       // of deliveries; nil: nothing signs
}

// speaks reports whether --dialects has a dialect.
func (n *node) speaks(dialect string) bool { return slices.Contains(n.Config.Dialects, dialect) }

// fronts are the dialects of --dialects.
func (n *node) fronts(s *services) (all []httpapi.Dialect) {
	for name, dialect := range map[string]func() httpapi.Dialect{
		camellia.Name: func() httpapi.Dialect {
			return camellia.New(camellia.Options{App: s.jobs, Pulls: s.pulls, Monitor: n.dialects.monitor, Clock: n.time})
		},
		mykit.Name: func() httpapi.Dialect {
			return mykit.New(mykit.Options{App: s.jobs, Operations: s.operations, Clock: n.time})
		},
		qstash.Name: func() httpapi.Dialect {
			return qstash.New(qstash.Options{App: s.jobs, Schedules: s.schedules, Groups: s.groups, Topics: s.topics, Keys: n.dialects.keys, Clock: n.time})
		},
	} {
		if n.speaks(name) {
			all = append(all, dialect())
		}
	}
	return all
}

// contracts are what holds for the deliveries of dialects, and the parts for it. They hold without --dialects, too:
// other nodes may have registered their jobs. Until one is delivered, they cost nothing.
func (n *node) contracts(ln net.Listener) (map[string]*contract.Dialect, []part) {
	kept := n.dialects.newKeys(n, ln)
	return map[string]*contract.Dialect{qstash.Name: qstash.Contract(n.dialects.keys)}, kept
}

// dialectSubscribers watch the changes of jobs for dialects.
func (n *node) dialectSubscribers() []feed.Subscriber {
	if !n.speaks(camellia.Name) {
		return nil
	}
	n.dialects.monitor = camellia.NewMonitor(n.clock)
	return []feed.Subscriber{n.dialects.monitor.Subscriber()}
}

// newKeys sets the keys of QStash, and returns their part. A server for development has the public keys, which the SDKs
// look for.
func (d *dialects) newKeys(n *node, ln net.Listener) []part {
	switch {
	case n.seal == nil:
		return nil
	case n.Config.Open() && access.Loopback(ln.Addr().String()):
		d.keys = qstash.DevKeys{}
		return nil
	}
	keys := qstash.NewKeys(n.store, n.seal, job.SystemClock(), n.Logger)
	d.keys = keys
	return []part{{"qstash keys", keys.Run}}
}
