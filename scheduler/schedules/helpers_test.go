package schedules

import (
	"github.com/duehook/duehook/internal/kit/leader"
	"github.com/duehook/duehook/job"
)

func newLead(r *rig, node string) *leader.Leader {
	return leader.New(leader.Options{Store: r.store, Task: channel, Node: node, Clock: job.SystemClock(), Lease: leaseTime})
}
