package node

import (
	"net"
	"time"

	"github.com/duehook/duehook/carrier"
	"github.com/duehook/duehook/dispatcher"
	"github.com/duehook/duehook/internal/jobjson"
	"github.com/duehook/duehook/store"
)

// carrying are the terms of all carriers.
func (n *node) carrying() store.CarryOptions {
	c := n.Config
	return store.CarryOptions{
		Cap: c.ReadyCap, Visibility: c.Visibility,
		FlightLimits: store.FlightLimits{
			Longest:       max(c.Visibility, c.Lease, c.MaxTimeout+c.LeaseMargin()),
			EndpointLimit: c.EndpointConcurrency, TopicLimits: c.TopicConcurrency, HalfOpenLimit: dispatcher.DefaultBreakerProbes,
		},
	}
}

func (n *node) newCarrier(mayPurge func() bool, waiting func(*store.Backlogs)) (*carrier.Carrier, error) {
	return carrier.New(carrier.Options{
		Store: n.store, Lists: n.lists, Clock: n.clock, Logger: n.Logger, Metrics: n.metrics, CarryOptions: n.carrying(),
		LockTTL: carrierLock, Poll: carrierPoll, Housekeeping: carrierHousekeeping,
		MayPurge: mayPurge, Waiting: waiting,
	})
}

// newDispatcher returns the dispatcher, made of the secrets and topics of s. It adds the parts that dialects need for deliveries.
func (n *node) newDispatcher(s *services, ln net.Listener) (*dispatcher.Dispatcher, error) {
	c := n.Config
	contracts, kept := n.contracts(ln)
	s.kept = kept
	o := dispatcher.Options{
		Store: n.store, Clock: n.clock, Logger: n.Logger, Metrics: n.metrics, ID: n.id, Version: n.Version,
		Limits: n.carrying().FlightLimits, Workers: c.Workers, Weight: s.topics.Weight, TopicTimeout: s.topics.Timeout, Timeout: c.Timeout, Lease: c.Lease, LeaseMargin: c.LeaseMargin(),
		Policy: n.policy, Grace: c.DrainDelay + n.drainTime(), AllowCIDRs: c.AllowCIDRs,
		BreakerFailures: orOff(c.BreakerFailures), BreakerOpen: c.BreakerOpen,
		CatchUpRate: orOff(c.CatchUpRate), ConnectRetries: orOff(c.ConnectRetries), Tracer: n.traces.Tracer(),
		RenderCallback: jobjson.CallbackBody(n.policy), CallbackResponse: orOff(c.CallbackResponse),
		Contracts: contracts,
	}
	if s.secrets != nil {
		o.Signer = s.secrets
	}
	if n.Dev != nil {
		o.Layer = n.Dev
	}
	return dispatcher.New(o)
}

// drainTime is the part of the grace for requests in flight.
func (n *node) drainTime() time.Duration { return n.Config.Grace - closing(n.Config.Grace) }

// Defaults of the carrier.
const (
	carrierLock         = 15 * time.Second
	carrierPoll         = time.Second
	carrierHousekeeping = 30 * time.Second
)

// orOff turns "0: off" of a setting into an option's form of it.
func orOff(n int) int {
	if n == 0 {
		return -1
	}
	return n
}
