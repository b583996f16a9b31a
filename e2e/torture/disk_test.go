package torture

import (
	"context"
	"errors"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/diskstore"
	"github.com/duehook/duehook/store/listing"
)

// onDisk holds the data of an embedded node against what it showed before it was stopped.
func (a *audit) onDisk(ctx context.Context) error {
	s, err := diskstore.Open(diskstore.Options{Dir: a.dataDir})
	if err != nil {
		return err
	}
	found := 0
	jobs, _, err := store.ReadPages(1_000_000, func(cursor string) ([]job.Job, string, error) {
		page, err := listing.List(ctx, s, store.Query{Limit: 1_000, Cursor: cursor})
		return page.Jobs, page.Next, err
	})
	for i := range jobs {
		j := &jobs[i]
		shown, known := a.stored[j.Key]
		if !known {
			continue // a callback
		}
		if found++; shown.UID != j.UID || shown.State != j.State.String() || shown.Attempts != j.Attempts {
			a.fail("%s is %s with %d attempts (uid %s) on the disk; the node showed %+v", j.Key, j.State, j.Attempts, j.UID, shown)
		}
	}
	if found != len(a.stored) {
		a.fail("the disk has %d of the %d jobs that the node showed", found, len(a.stored))
	}
	return errors.Join(err, s.Close())
}
