// Package successors turns the callbacks of outcomes into registrations, and reads their reports.
package successors

import (
	"fmt"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/encoding"
)

// Of returns the registrations of the successors of the job with a uid. Equal calls return
// equal registrations.
func Of(uid string, all []job.Successor) []store.Registration {
	regs := make([]store.Registration, len(all))
	for i := range all {
		n := &all[i]
		regs[i] = store.Registration{Key: n.Key, UID: store.OrderUID(store.SuccessorUID(uid, n.Key), n.Key.Topic, n.Spec.OrderKey), Spec: n.Spec}
		SetReport(&regs[i].Spec, n.Report)
	}
	return regs
}

// SetReport makes a report the content of a callback.
func SetReport(callback *job.Spec, r *job.Report) {
	callback.Body = encoding.AppendReport(make([]byte, 0, 512+store.SizeOf(&r.Job)), r)
}

// Report returns the report of a callback.
func Report(callback *job.Job) (job.Report, error) {
	var r job.Report
	if err := encoding.DecodeReport(callback.Spec.Body, &r); err != nil {
		return r, fmt.Errorf("decode the report of %s: %w", callback.Key, err)
	}
	r.At(callback.CreatedAt)
	return r, nil
}
