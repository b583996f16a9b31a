package dispatcher

import (
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/job/contract"
)

// own is the contract of jobs whose dialect has none.
var own = &contract.Dialect{}

// contractOf returns the contract of a job.
func (o *Options) contractOf(j *job.Job) *contract.Dialect {
	if d := o.Contracts[j.Spec.DialectName()]; d != nil {
		return d
	}
	return own
}
