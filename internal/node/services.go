package node

import (
	"net"

	"github.com/duehook/duehook/carrier"
	"github.com/duehook/duehook/dispatcher"
	"github.com/duehook/duehook/internal/app"
	"github.com/duehook/duehook/internal/app/groups"
	"github.com/duehook/duehook/internal/app/operations"
	"github.com/duehook/duehook/internal/app/pulls"
	"github.com/duehook/duehook/internal/app/schedules"
	"github.com/duehook/duehook/internal/app/topics"
	"github.com/duehook/duehook/internal/inbox"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/kit/storetime"
	"github.com/duehook/duehook/internal/node/dev"
	"github.com/duehook/duehook/internal/schedule"
	"github.com/duehook/duehook/internal/services/alerts"
	"github.com/duehook/duehook/internal/services/leader"
	"github.com/duehook/duehook/internal/services/nodes"
	"github.com/duehook/duehook/internal/services/signing"
)

// services are what a node runs over its store. Its parts run them, and calls ask them.
type services struct {
	secrets    *signing.Secrets // nil: nothing is signed
	kept       []part           // of dialects
	topics     *topics.Manager
	dispatcher *dispatcher.Dispatcher
	groups     *groups.Manager
	jobs       *app.App
	schedules  *schedules.Manager
	operations *operations.Manager
	inboxes    *inbox.Manager
	carrier    *carrier.Carrier
	nodes      *nodes.Registry
	alerts     *alerts.Manager
	pulls      *pulls.Manager
}

// newServices returns the services, each made of those before it.
func (n *node) newServices(ln net.Listener) (s *services, err error) {
	n.time = storetime.New(n.store, n.clock)
	n.leader = n.newLeader()
	s = &services{nodes: n.newRegistry()}
	if s.secrets, err = n.newSecrets(); err != nil {
		return nil, err
	}
	if s.topics, err = topics.New(topics.Options{Store: n.store, Clock: n.clock, Logger: n.Logger, Metrics: n.metrics, Emit: n.events.Emit}); err != nil {
		return nil, err
	}
	if s.dispatcher, err = n.newDispatcher(s, ln); err != nil {
		return nil, err
	}
	guard, bounds := app.Guard(n.guard.CheckURL), job.Bounds{MaxBody: n.Config.MaxBody, MaxTimeout: n.Config.MaxTimeout}
	s.groups = groups.New(n.store, guard.Check, nil)
	if s.jobs, err = app.New(app.Options{
		Store: n.store, Clock: n.clock, Pace: job.SystemClock(), Metrics: n.metrics, Recent: n.recent, Topics: s.topics, Groups: s.groups, Endpoints: s.dispatcher,
		Bounds: bounds, Policy: n.policy, Guard: guard, Carry: n.carrying(),
	}); err != nil {
		return nil, err
	}
	n.jobs = s.jobs
	if s.schedules, err = schedules.New(schedules.Options{
		Store: n.store, Jobs: s.jobs, RunLog: n.runs, ID: n.id, MaxRate: n.Config.ScheduleRate, Leader: n.leader, Clock: n.clock, Logger: n.Logger, Metrics: n.metrics, Emit: n.events.Emit,
	}); err != nil {
		return nil, err
	}
	if s.operations, err = operations.New(operations.Options{
		Store: n.store, Jobs: s.jobs, ID: n.id, Leader: n.leader, Bounds: bounds, Clock: n.clock, Time: n.time, Logger: n.Logger, Metrics: n.metrics,
	}); err != nil {
		return nil, err
	}
	if s.inboxes, err = n.newInboxes(s.jobs); err != nil {
		return nil, err
	}
	if s.carrier, err = n.newCarrier(s.schedules.MayPurge, s.dispatcher.ShowWaiting); err != nil {
		return nil, err
	}
	if s.alerts, err = n.newAlerts(s); err != nil {
		return nil, err
	}
	if s.pulls, err = pulls.New(pulls.Options{
		Store: n.store, ID: n.id, Idle: !n.Config.Deliver, Ready: s.topics.Ready, Policy: n.policy, TopicLimits: n.Config.TopicConcurrency,
		Clock: n.clock, Time: n.time, Logger: n.Logger, Metrics: n.metrics,
	}); err != nil {
		return nil, err
	}
	n.attachDev(s)
	return s, nil
}

// attachDev shows the services to the dev server, if this is one.
func (n *node) attachDev(s *services) {
	if n.Dev == nil {
		return
	}
	parts := dev.Parts{Store: n.store, InFlight: n.disk.InFlight, Schedules: s.schedules, Deliveries: s.dispatcher, Inboxes: s.inboxes}
	if s.secrets != nil {
		parts.Signer = s.secrets
	}
	n.Dev.Attach(parts)
}

// newLeader returns the node's part in the election for schedules, operations and alerts; nil: there are no other nodes.
// A node with newer time zones goes first, and one that delivers nothing last: they are no obstacle for the others.
func (n *node) newLeader() *leader.Leader {
	if n.Config.Embedded() {
		return nil
	}
	rank := ""
	if n.Config.Deliver {
		rank = schedule.TZData()
	}
	return leader.New(leader.Options{Store: n.store, Node: n.id, Rank: rank, Clock: n.clock, Logger: n.Logger})
}

func (n *node) newAlerts(s *services) (*alerts.Manager, error) {
	o := alerts.Options{
		Store: n.store, Jobs: s.jobs, Counts: n.counts, Leader: n.leader,
		Silent: s.nodes.Silent, Troubles: map[string]alerts.Troubles{alerts.InboxTrouble: s.inboxes.Troubles}, Clock: n.clock, Logger: n.Logger, Metrics: n.metrics,
	}
	if n.watch != nil {
		o.Troubles[alerts.ServerTrouble] = n.watch.troubles
	}
	return alerts.New(o)
}
