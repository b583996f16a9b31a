package job_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/duehook/duehook/internal/job"
)

func TestTurns(t *testing.T) {
	jobs := []job.Job{ // in their order
		{UID: "running, due last", State: job.Running, CreatedAt: 9, DueAt: 99},
		{UID: "tried", State: job.Retrying, Attempts: 1, CreatedAt: 8, DueAt: 80},
		{UID: "snoozed", State: job.Waiting, Snoozes: 1, CreatedAt: 8, DueAt: 81},
		{UID: "lease expired", State: job.Waiting, ExpiredLeases: 1, CreatedAt: 8, DueAt: 82},
		{UID: "due first", State: job.Waiting, CreatedAt: 3, DueAt: 10},
		{UID: "due before it was registered", State: job.Ready, CreatedAt: 11, DueAt: 1},
		{UID: "registered first", State: job.Waiting, CreatedAt: 4, DueAt: 20},
		{UID: "a, at the same times", State: job.Waiting, CreatedAt: 5, DueAt: 20},
		{UID: "b, at the same times", State: job.Waiting, CreatedAt: 5, DueAt: 20},
	}
	for range 100 {
		shuffled := slices.Clone(jobs)
		rand.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		slices.SortFunc(shuffled, func(a, b job.Job) int { return a.Turn().Compare(b.Turn()) })
		for i := range jobs {
			if shuffled[i].UID != jobs[i].UID {
				t.Fatalf("place %d has %q, want %q", i, shuffled[i].UID, jobs[i].UID)
			}
		}
	}
}
