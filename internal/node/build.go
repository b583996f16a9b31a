package node

import (
	"context"
	"net"
	"os"
	"time"

	v1 "github.com/duehook/duehook/httpapi/v1"
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
)

// build returns the parts, in the stages in which they stop: first the ones that accept,
// send or change jobs, then the ones that those need.
func (n *node) build(ctx context.Context, ln net.Listener) (stages [][]part, err error) {
	c := n.Config
	n.time = storetime.New(n.store, n.clock)
	n.leader = n.newLeader()
	secrets, err := n.newSecrets()
	if err != nil {
		return nil, err
	}
	topicSettings, err := topics.New(topics.Options{Store: n.store, Clock: n.clock, Logger: n.Logger, Metrics: n.metrics, Emit: n.events.Emit})
	if err != nil {
		return nil, err
	}
	contracts, kept := n.contracts(ln)
	dispatch, err := n.newDispatcher(secrets, contracts, topicSettings)
	if err != nil {
		return nil, err
	}
	guard := app.Guard(n.guard.CheckURL)
	members := groups.New(n.store, guard.Check, nil)
	jobBounds := job.Bounds{MaxBody: c.MaxBody, MaxTimeout: c.MaxTimeout}
	jobs, err := app.New(app.Options{
		Store: n.store, Clock: n.clock, Pace: job.SystemClock(), Metrics: n.metrics, Recent: n.recent, Topics: topicSettings, Groups: members, Endpoints: dispatch,
		Bounds: jobBounds, Policy: n.policy, Guard: guard,
		Carry: n.carrying(),
	})
	if err != nil {
		return nil, err
	}
	n.jobs = jobs
	recurring, err := n.newSchedules(jobs)
	if err != nil {
		return nil, err
	}
	bulk, err := operations.New(operations.Options{
		Store: n.store, Jobs: jobs, ID: n.id, Leader: n.leader, Bounds: jobBounds, Clock: n.clock, Time: n.time, Logger: n.Logger, Metrics: n.metrics,
	})
	if err != nil {
		return nil, err
	}
	inboxes, err := n.newInboxes(jobs)
	if err != nil {
		return nil, err
	}
	carry, err := n.newCarrier(recurring.MayPurge, dispatch.ShowWaiting)
	if err != nil {
		return nil, err
	}
	if n.Dev != nil {
		parts := dev.Parts{Store: n.store, InFlight: n.disk.InFlight, Schedules: recurring, Deliveries: dispatch, Inboxes: inboxes}
		if secrets != nil {
			parts.Signer = secrets
		}
		n.Dev.Attach(parts)
	}
	registry := n.newRegistry()
	watch, err := n.newAlerts(jobs, registry, inboxes)
	if err != nil {
		return nil, err
	}
	fetch, err := pulls.New(pulls.Options{
		Store: n.store, ID: n.id, Idle: !c.Deliver, Policy: n.policy, TopicLimits: c.TopicConcurrency, Clock: n.clock, Time: n.time, Logger: n.Logger, Metrics: n.metrics,
	})
	if err != nil {
		return nil, err
	}
	calls := v1.Options{App: jobs, Nodes: registry, Operations: bulk, Schedules: recurring, Groups: members, Pulls: fetch, Alerts: watch, Inboxes: inboxes, Events: n.events}
	if secrets == nil {
		close(n.signs)
	} else {
		calls.Signing = secrets
		if err := n.sign(ctx, secrets); err != nil {
			return nil, err
		}
	}
	fronts := n.fronts(&services{jobs: jobs, pulls: fetch, operations: bulk, schedules: recurring, groups: members, topics: topicSettings})
	api, secured, err := n.newAPI(ln, calls, fronts, dispatch.Stuck)
	if err != nil {
		return nil, err
	}
	// The embedded store, and one that was filled with a copy of another one, have no limits until they are set: a paused topic would resume.
	limited := func(run func(context.Context) error) func(context.Context) error {
		return n.delivering(func(ctx context.Context) error {
			topicSettings.AwaitLoad(ctx)
			return run(ctx)
		})
	}
	working := []part{{"carrier", limited(carry.Run)}, {"dispatcher", func(ctx context.Context) error {
		if secrets != nil {
			if err := n.ensureSecret(ctx, secrets); err != nil {
				return err
			}
		}
		return limited(dispatch.Run)(ctx)
	}}, {"api", func(ctx context.Context) error {
		loads, cancel := context.WithTimeout(ctx, startWithin)
		topicSettings.AwaitLoad(loads) // a job that is registered before would not have the url and the defaults of its topic
		if n.keys != nil {
			_ = n.keys.Load(loads) // without them the node serves, and is not ready until its part has read them
		}
		cancel()
		return api.Serve(ctx, ln)
	}}, {"inboxes", n.delivering(inboxes.Run)}, {"operations", bulk.Run}, {"schedules", n.delivering(n.released(recurring.Run))}, {"alerts", n.delivering(watch.Run)}}
	if n.disk != nil {
		working = append(working, part{"store", n.watchDisk})
		if ln := n.listenControl(ctx); ln != nil {
			working = append(working, part{"control", func(ctx context.Context) error { return n.control(ctx, ln) }})
		}
	}
	if n.watch != nil {
		working = append(working, part{"server", func(ctx context.Context) error { return n.watch.run(ctx, n.clock) }})
	}
	operating, err := n.forOperators(ctx)
	if err != nil {
		return nil, err
	}
	working = append(working, operating...)
	needed := append(append(secured, kept...), part{"leader", n.leader.Run}, part{"time", n.time.Run}, part{"events", n.events.Run}, part{"topics", topicSettings.Run}, part{"pulls", fetch.Run}, part{"attempts", n.recent.Run}, part{"runs", n.runs.Run}, part{"nodes", registry.Run})
	if secrets != nil {
		needed = append(needed, part{"secrets", secrets.Run})
	}
	if n.hold != nil {
		needed = append(needed, part{"hold", n.hold.Run})
	}
	return [][]part{working, needed}, nil
}

// delivering is a part that is idle with --deliver=false.
func (n *node) delivering(run func(context.Context) error) func(context.Context) error {
	if n.Config.Deliver {
		return run
	}
	return func(ctx context.Context) error {
		<-ctx.Done()
		return nil
	}
}

// released is a part that begins when deliveries are not held.
func (n *node) released(run func(context.Context) error) func(context.Context) error {
	if n.hold == nil {
		return run
	}
	return func(ctx context.Context) error {
		select {
		case <-n.hold.Free():
			return run(ctx)
		case <-ctx.Done():
			return nil
		}
	}
}

// forOperators are the parts that only operators need.
func (n *node) forOperators(ctx context.Context) ([]part, error) {
	systemd := newSupervisor(os.Getenv, os.Getpid())
	parts := []part{{"systemd", func(ctx context.Context) error { return n.supervise(ctx, systemd) }}}
	debug, err := n.listenDebug(ctx)
	if debug != nil {
		parts = append(parts, part{"profiles", func(ctx context.Context) error { return n.debug(ctx, debug) }})
	}
	return parts, err
}

// startWithin is how long a node that starts reads topics and keys before it serves: without a store, it answers 503.
const startWithin = 2 * time.Second

// watchDisk ends the node when the embedded store fails: it must be opened anew.
func (n *node) watchDisk(ctx context.Context) error {
	select {
	case <-n.disk.Failed():
		return n.disk.Failure()
	case <-ctx.Done():
		return nil
	}
}

func (n *node) newSchedules(jobs *app.App) (*schedules.Manager, error) {
	return schedules.New(schedules.Options{
		Store: n.store, Jobs: jobs, RunLog: n.runs, ID: n.id, MaxRate: n.Config.ScheduleRate, Leader: n.leader, Clock: n.clock, Logger: n.Logger, Metrics: n.metrics, Emit: n.events.Emit,
	})
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

func (n *node) newAlerts(jobs *app.App, registry *nodes.Registry, inboxes *inbox.Manager) (*alerts.Manager, error) {
	o := alerts.Options{
		Store: n.store, Jobs: jobs, Counts: n.counts, Leader: n.leader,
		Silent: registry.Silent, Troubles: map[string]alerts.Troubles{alerts.InboxTrouble: inboxes.Troubles}, Clock: n.clock, Logger: n.Logger, Metrics: n.metrics,
	}
	if n.watch != nil {
		o.Troubles[alerts.ServerTrouble] = n.watch.troubles
	}
	return alerts.New(o)
}
