package app

import (
	"context"

	"github.com/duehook/duehook/internal/services/recent"
	"github.com/duehook/duehook/store"
)

// Activity returns the series of a window, by its place in recent.Windows.
func (s *App) Activity(ctx context.Context, of recent.Of, window int) (recent.Series, error) {
	now, err := store.Now(ctx, s.o.Store)
	if err != nil {
		return recent.Series{}, err
	}
	return s.o.Recent.Series(ctx, of, window, now)
}
