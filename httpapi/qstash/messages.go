package qstash

import (
	"context"
	"errors"
	"math"
	"net/http"

	"github.com/duehook/duehook/httpapi"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

var unfinished = []job.State{job.Waiting, job.Ready, job.Running, job.Retrying}

func (a *api) message(c *httpapi.Call) error {
	j, err := a.byID(c.Context(), messagePrefix, c.Param("id"))
	if errors.Is(err, store.ErrNotFound) || err == nil && j.State.Final() {
		return notFound("message", c.Param("id"))
	}
	if err != nil {
		return err
	}
	return c.WriteJSON(http.StatusOK, viewOf(&j))
}

type cancelled struct {
	Cancelled int `json:"cancelled"`
}

func (a *api) cancel(c *httpapi.Call) error {
	did, err := a.cancelByID(c.Context(), c.Param("id"))
	if err == nil && !did {
		err = notFound("message", c.Param("id"))
	}
	if err != nil {
		return err
	}
	return c.WriteJSON(http.StatusOK, cancelled{1})
}

// cancelByID cancels a message. It reports false if there is none that has not ended.
func (a *api) cancelByID(ctx context.Context, id string) (bool, error) {
	j, err := a.byID(ctx, messagePrefix, id)
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return a.cancelOne(ctx, &j)
}

// cancelOne cancels a message. It reports false if the message had ended.
func (a *api) cancelOne(ctx context.Context, j *job.Job) (bool, error) {
	if j.State.Final() || j.CancelRequested {
		return false, nil
	}
	_, _, err := a.App.Cancel(ctx, j.Key, func(is *job.Job) error {
		if is.UID != j.UID || is.State.Final() || is.CancelRequested {
			return store.ErrNotFound
		}
		return nil
	})
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// maxCount is the most messages that one call cancels.
const maxCount = 500

func (a *api) cancelMany(c *httpapi.Call) error {
	wanted, given, err := ids(c, "messageIds")
	if err != nil {
		return err
	}
	n := 0
	if given {
		for _, id := range wanted {
			did, err := a.cancelByID(c.Context(), id)
			if err != nil {
				return err
			}
			if did {
				n++
			}
		}
		return c.WriteJSON(http.StatusOK, cancelled{n})
	}
	f, err := filterOf(c.Query())
	if err != nil {
		return err
	}
	most, err := count(c.Query(), maxCount, maxCount)
	if err != nil {
		return err
	}
	if _, err := a.each(c.Context(), f.query(unfinished...), amount{most, math.MaxInt}, "", func(j *job.Job) (bool, error) {
		if !f.matches(j) {
			return false, nil
		}
		did, err := a.cancelOne(c.Context(), j)
		if did {
			n++
		}
		return did, err
	}); err != nil {
		return err
	}
	return c.WriteJSON(http.StatusOK, cancelled{n})
}
