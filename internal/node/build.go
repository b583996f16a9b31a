package node

import (
	"context"
	"net"
	"os"
	"time"

	"github.com/duehook/duehook/httpapi"
)

// build returns the parts, in the stages in which they stop: first the ones that accept,
// send or change jobs, then the ones that those need.
func (n *node) build(ctx context.Context, ln net.Listener) (stages [][]part, err error) {
	s, err := n.newServices(ln)
	if err != nil {
		return nil, err
	}
	if err := n.sign(ctx, s.secrets); err != nil {
		return nil, err
	}
	api, secured, err := n.newAPI(ln, s)
	if err != nil {
		return nil, err
	}
	operating, err := n.forOperators(ctx)
	if err != nil {
		return nil, err
	}
	working := []part{
		{"carrier", n.limited(s, s.carrier.Run)},
		{"dispatcher", n.signed(s, n.limited(s, s.dispatcher.Run))},
		{"api", n.serving(s, ln, api)},
		{"inboxes", n.delivering(s.inboxes.Run)},
		{"operations", s.operations.Run},
		{"schedules", n.delivering(n.released(s.schedules.Run))},
		{"alerts", n.delivering(s.alerts.Run)},
	}
	working = append(append(working, n.ofStore(ctx)...), operating...)
	needed := append(secured, s.kept...)
	needed = append(needed, []part{
		{"leader", n.leader.Run},
		{"time", n.time.Run},
		{"events", n.events.Run},
		{"topics", s.topics.Run},
		{"pulls", s.pulls.Run},
		{"attempts", n.recent.Run},
		{"runs", n.runs.Run},
		{"nodes", s.nodes.Run},
	}...)
	if s.secrets != nil {
		needed = append(needed, part{"secrets", s.secrets.Run})
	}
	if n.hold != nil {
		needed = append(needed, part{"hold", n.hold.Run})
	}
	return [][]part{working, needed}, nil
}

// limited is a part of deliveries that begins when the store has the limits of topics. The embedded store, and one that was filled
// with a copy of another one, have none until they are set: a paused topic would resume.
func (n *node) limited(s *services, run func(context.Context) error) func(context.Context) error {
	return n.delivering(func(ctx context.Context) error {
		s.topics.AwaitLoad(ctx)
		return run(ctx)
	})
}

// signed is a part that begins when deliveries can be signed.
func (n *node) signed(s *services, run func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		if err := n.ensureSecret(ctx, s.secrets); err != nil {
			return err
		}
		return run(ctx)
	}
}

// startWithin is how long a node that starts reads topics and keys before it serves: without a store, it answers 503.
const startWithin = 2 * time.Second

// serving is the part of the API.
func (n *node) serving(s *services, ln net.Listener, api *httpapi.Server) func(context.Context) error {
	return func(ctx context.Context) error {
		loads, cancel := context.WithTimeout(ctx, startWithin)
		s.topics.AwaitLoad(loads) // a job that is registered before would not have the url and the defaults of its topic
		if n.keys != nil {
			_ = n.keys.Load(loads) // without them the node serves, and is not ready until its part has read them
		}
		cancel()
		return api.Serve(ctx, ln)
	}
}

// ofStore are the parts that only some stores need.
func (n *node) ofStore(ctx context.Context) (parts []part) {
	if n.disk != nil {
		parts = append(parts, part{"store", n.watchDisk})
		if ln := n.listenControl(ctx); ln != nil {
			parts = append(parts, part{"control", func(ctx context.Context) error { return n.control(ctx, ln) }})
		}
	}
	if n.watch != nil {
		parts = append(parts, part{"server", func(ctx context.Context) error { return n.watch.run(ctx, n.clock) }})
	}
	return parts
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

// watchDisk ends the node when the embedded store fails: it must be opened anew.
func (n *node) watchDisk(ctx context.Context) error {
	select {
	case <-n.disk.Failed():
		return n.disk.Failure()
	case <-ctx.Done():
		return nil
	}
}
