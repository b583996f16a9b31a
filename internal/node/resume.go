package node

import (
	"context"
	"errors"
	"net/http"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/node/config"
	"github.com/duehook/duehook/internal/services/hold"
)

// Resumed is what Resume did, in the JSON of duehook resume.
type Resumed struct {
	WasHeld bool `json:"was_held"`
}

func (r Resumed) String() string {
	if r.WasHeld {
		return "deliveries are resumed, on all nodes"
	}
	return "deliveries were not held"
}

// resumedAnswer is the answer of a node that held deliveries.
const resumedAnswer = "resumed"

// Resume ends what a start with --start-paused began, for all nodes on the store of the settings.
func Resume(ctx context.Context, c *config.Config) (Resumed, error) {
	if c.Embedded() {
		answer, err := askNode(ctx, c, "/resume")
		if !errors.Is(err, errNoNode) {
			return Resumed{answer == resumedAnswer}, err
		}
		if err := hasJobs(c); err != nil {
			return Resumed{}, err
		}
	}
	s, err := openBare(ctx, c, job.SystemClock())
	if err != nil {
		return Resumed{}, err
	}
	was, err := hold.Resume(ctx, s)
	return Resumed{was}, errors.Join(err, s.Close())
}

// resume answers a call at the socket.
func (n *node) resume(w http.ResponseWriter, r *http.Request) {
	was, err := hold.Resume(r.Context(), n.store)
	switch {
	case err != nil:
		http.Error(w, err.Error(), http.StatusConflict)
	case was:
		_, _ = w.Write([]byte(resumedAnswer))
	}
}
