package app

import "github.com/duehook/duehook/internal/job"

// checkDestinations checks the destination of a job, and those of its callbacks. The field is
// that of the job.
func (s *App) checkDestinations(field job.Field, spec *job.Spec) error {
	if !spec.Destination.Pulled() {
		if err := s.CheckDestination(job.Field("url").Within(field), spec.Destination); err != nil {
			return err
		}
	}
	return s.checkCallbacks(field, spec.Callbacks)
}

// checkCallbacks returns a *BlockedError for callbacks that the server must not call.
func (s *App) checkCallbacks(field job.Field, c *job.Callbacks) error {
	if c == nil {
		return nil
	}
	for _, e := range job.CallbackEvents {
		of := c.On(e)
		if of == nil {
			continue
		}
		if err := s.CheckDestination(job.Field("callbacks").Within(field).In(string(e)).In("url"), of.Destination); err != nil {
			return err
		}
	}
	return nil
}

// DefaultCallbacks reports whether jobs of the topic have callbacks by default.
func (s *App) DefaultCallbacks(topic string) bool {
	d := s.defaults(topic)
	return d != nil && d.Callbacks != nil
}

// checkDraftedCallbacks is checkCallbacks of a draft. It leaves invalid URLs to the validation.
func (s *App) checkDraftedCallbacks(field job.Field, d *job.CallbacksDraft) error {
	if d == nil {
		return nil
	}
	var c job.Callbacks
	for e, of := range d.On {
		if of.Destination != nil && of.Destination.Check() == nil {
			c.Set(e, &job.Callback{Destination: *of.Destination})
		}
	}
	return s.checkCallbacks(field, &c)
}
