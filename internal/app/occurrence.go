package app

import (
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/services/alerts"
	"github.com/duehook/duehook/store"
)

// Occurrence is the part of a recurring schedule's job that its template lacks.
type Occurrence struct {
	Key job.Key
	UID string
	Of  job.Occurrence
	Due job.Instant
	Now job.Instant // by the store's clock
}

// CheckTemplate checks a draft from which jobs of a schedule are made. Errors are those
// of Prepare, within the field job.
func (s *App) CheckTemplate(d *job.Draft) error {
	request, err := d.Registration(s.o.Bounds, job.InstantOf(s.o.Clock.Now()))
	if err != nil {
		return err
	}
	if request.Key.Topic == alerts.Topic {
		return errReservedTopic()
	}
	return s.checkDestinations("job", &request.Spec)
}

// Occurrence makes the registration of an occurrence from a template, with the defaults
// of its topic. Stores count its TTL from when the job is due.
func (s *App) Occurrence(d *job.Draft, o Occurrence) (store.Registration, error) {
	request, err := d.Registration(s.o.Bounds, o.Now)
	if err != nil {
		return store.Registration{}, err
	}
	spec := request.Spec
	s.fill(d, request.Key.Topic, &spec)
	spec.When, spec.Occurrence = job.When{At: o.Due}, &o.Of
	return store.Registration{Key: o.Key, UID: store.OrderUID(o.UID, o.Key.Topic, spec.OrderKey), Spec: ownBody(spec), OnConflict: job.ConflictRenew}, nil
}
