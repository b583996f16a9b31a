package node

import (
	"context"

	v1 "github.com/duehook/duehook/httpapi/v1"
	"github.com/duehook/duehook/internal/app"
	"github.com/duehook/duehook/internal/inbox"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/node/config"
)

// newInboxes returns what reads the inboxes of --inbox-url.
func (n *node) newInboxes(jobs *app.App) (*inbox.Manager, error) {
	topics := map[string]job.TopicSet{}
	for _, t := range n.Config.InboxTopics {
		topics[t.Name] = append(topics[t.Name], t.Value)
	}
	var inboxes []inbox.Inbox
	for _, in := range n.Config.Inboxes {
		inboxes = append(inboxes, inbox.Inbox{Name: in.Name, URL: in.Value, Topics: topics[in.Name]})
	}
	o := inbox.Options{
		Inboxes: inboxes, Jobs: jobs,
		Prepare: func(ctx context.Context, request []byte, id string, from app.Origin) (inbox.Registration, error) {
			return v1.PrepareRow(ctx, jobs, request, id, from)
		},
		Explain: v1.ExplainRow, MaxRequest: v1.MaxRequest(jobs.Bounds()), Poll: n.Config.InboxPoll, FromNow: n.Dev != nil,
		Leader: n.leader, Logger: n.Logger, Metrics: n.metrics,
	}
	if n.hold != nil {
		o.Free = n.hold.Free
	}
	return inbox.New(o)
}

// inboxes examines the databases of --inbox-url.
func (d *doctor) inboxes(ctx context.Context) {
	const check = "inboxes"
	for _, in := range d.c.Inboxes {
		switch missing, err := inbox.Examine(ctx, in.Value); {
		case err != nil:
			d.found(check, FoundUnreachable, "%s, %s: %v", in.Name, config.Redact(in.Value), err)
		case missing != nil:
			d.found(check, FoundProblem, "%s, %s: duehook cannot work with the table duehook_inbox: %v", in.Name, config.Redact(in.Value), missing)
		default:
			d.found(check, FoundOK, "%s: %s has the table duehook_inbox", in.Name, config.Redact(in.Value))
		}
	}
}
