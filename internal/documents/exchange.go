package documents

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sort"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

// ExchangeOptions of NewExchange. All but Logger are required.
type ExchangeOptions[T any] struct {
	// Documents are shared with other nodes; nil: there are no other nodes.
	Documents store.Documents
	Kind      string
	Name      string // of this node's document
	// Latest is the time of a document, in the store's time.
	Latest func(*T) job.Instant
	// Kept is how long the document of a dead node stays after Latest, and Max how many
	// documents stay; the oldest go first.
	Kept   time.Duration
	Max    int
	Logger *slog.Logger // nil: none
}

// Exchange shares figures between nodes: each node writes a document of its own, and reads those of the
// others. The figures are for people. A document of a dead node stays for a while, and a node of
// another version skips documents that it cannot read.
type Exchange[T any] struct {
	o    ExchangeOptions[T]
	docs *Collection[T]
}

// NewExchange returns an Exchange.
func NewExchange[T any](o ExchangeOptions[T]) *Exchange[T] {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler)).With("kind", o.Kind)
	return &Exchange[T]{o: o, docs: New(Options[T]{Store: o.Documents, Kind: o.Kind})}
}

// Others reads the documents of other nodes.
func (e *Exchange[T]) Others(ctx context.Context, read func(*T)) error {
	if e.o.Documents == nil {
		return nil
	}
	docs, err := e.docs.All(ctx)
	if err != nil {
		return err
	}
	for i := range docs {
		switch d := &docs[i]; {
		case d.Name == e.o.Name:
		case d.Err != nil:
			e.o.Logger.Debug("figures of another node cannot be read; its version may differ", "error", d.Err)
		default:
			read(&d.Value)
		}
	}
	return nil
}

// Put writes this node's document, and reports whether it did.
func (e *Exchange[T]) Put(ctx context.Context, v T) bool {
	_, _, err := e.docs.Set(ctx, e.o.Name, v)
	if err != nil {
		e.o.Logger.Debug("figures were not sent to other nodes", "error", err)
	}
	return err == nil
}

// Withdraw deletes this node's document.
func (e *Exchange[T]) Withdraw(ctx context.Context) { e.deleted(e.docs.Remove(ctx, e.o.Name)) }

// Tidy deletes documents that are too old or too many, and unreadable ones: a node that lives
// writes its own again.
func (e *Exchange[T]) Tidy(ctx context.Context, now job.Instant) {
	docs, err := e.docs.All(ctx)
	if err != nil {
		e.o.Logger.Debug("old figures of other nodes cannot be listed", "error", err)
		return
	}
	latest := func(d *Document[T]) job.Instant {
		if d.Err != nil {
			return 0
		}
		return e.o.Latest(&d.Value)
	}
	sort.Slice(docs, func(i, j int) bool { return latest(&docs[i]) > latest(&docs[j]) })
	for i := range docs {
		if i >= e.o.Max || latest(&docs[i]) < now.Add(-e.o.Kept) {
			e.deleted(e.docs.Delete(ctx, &docs[i]))
		}
	}
}

func (e *Exchange[T]) deleted(err error) {
	// After a conflict the document is gone, or new.
	if err != nil && !errors.Is(err, store.ErrConflict) && !errors.Is(err, store.ErrNotFound) {
		e.o.Logger.Debug("old figures cannot be deleted", "error", err)
	}
}
