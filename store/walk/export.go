package walk

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/listing"
)

// Source is the store that a walk begins at.
type Source interface {
	store.Reader
	store.Documents
	store.Restoring
}

// ExportOptions are those of Export. Head is required, without its form and time.
type ExportOptions struct {
	Head
	// Document changes a document on its way. False leaves it behind. Nil: all walk as they are.
	Document func(d *store.Document) bool
	// Report is called now and then; nil: it is not.
	Report func(c *Counts)
	// Last may refuse the walk before its last line is written; nil: nothing does.
	Last func(ctx context.Context) error
}

// ErrUnfinished reports that a store has a part of a walk.
var ErrUnfinished = errors.New("an import into the store has not ended: run it again, with the same file")

// Export writes all that a store has. It counts what it wrote, and what it left.
func Export(ctx context.Context, s Source, to io.Writer, o ExportOptions) (Counts, error) {
	buffered := bufio.NewWriter(to)
	e := &exporting{s: s, o: o, to: json.NewEncoder(buffered), counts: newCounts()}
	err := e.run(ctx)
	if err == nil {
		err = buffered.Flush()
	}
	return e.counts, err
}

type exporting struct {
	s      Source
	o      ExportOptions
	to     *json.Encoder
	counts Counts
}

func (e *exporting) run(ctx context.Context) (err error) {
	if _, err := store.ReadDocument(ctx, e.s, store.HoldKind, store.HoldImport); !errors.Is(err, store.ErrNotFound) {
		return errors.Join(err, ErrUnfinished)
	}
	all, err := census(ctx, e.s)
	if err != nil {
		return err
	}
	head := e.o.Head
	head.Form = form
	if head.At, err = store.Now(ctx, e.s); err != nil {
		return err
	}
	if err := e.to.Encode(line{Walk: &head}); err != nil {
		return fmt.Errorf("write the walk: %w", err)
	}
	for _, part := range []func(context.Context) error{e.documents, e.jobs} {
		if err := part(ctx); err != nil {
			return err
		}
	}
	if n := all.All() - e.counts.All(); n > 0 {
		e.counts.Left["jobs that cannot be read"] = n
	}
	if e.o.Last != nil {
		if err := e.o.Last(ctx); err != nil {
			return err
		}
	}
	return e.to.Encode(line{End: &e.counts})
}

func (e *exporting) documents(ctx context.Context) error {
	kinds, err := e.s.Kinds(ctx)
	if err != nil {
		return err
	}
	for _, kind := range kinds {
		for after := ""; ; {
			docs, err := e.s.ListDocuments(ctx, store.DocumentQuery{Kind: kind, After: after, Limit: pageSize})
			if err != nil {
				return err
			}
			if len(docs) == 0 {
				break
			}
			for i := range docs {
				if err := e.document(&docs[i]); err != nil {
					return err
				}
			}
			after = docs[len(docs)-1].Name
		}
	}
	return nil
}

func (e *exporting) document(d *store.Document) error {
	if e.o.Document != nil && !e.o.Document(d) {
		e.counts.Left["documents "+d.Kind]++
		return nil
	}
	e.counts.Documents[d.Kind]++
	return e.to.Encode(line{Document: &document{d.Kind, d.Name, d.Data}})
}

// pageSize is how many jobs or documents are read at once.
const pageSize = 500

func (e *exporting) jobs(ctx context.Context) error {
	for q := (store.Query{Limit: pageSize}); ; {
		page, err := listing.List(ctx, e.s, q)
		if err != nil {
			return err
		}
		for i := range page.Jobs {
			if err := e.job(ctx, &page.Jobs[i]); err != nil {
				return fmt.Errorf("the job %s: %w", page.Jobs[i].Key, err)
			}
		}
		if e.o.Report != nil {
			e.o.Report(&e.counts)
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			return nil
		}
	}
}

func (e *exporting) job(ctx context.Context, j *job.Job) (err error) {
	r := store.Restored{Job: *j}
	if j.LastAttempt != nil {
		if r.Log, err = store.Attempts(ctx, e.s, j.Key); err != nil {
			return err
		}
	}
	if j.Spec.Count != nil || j.State == job.Dead && j.Spec.OrderKey != "" {
		if r.Aside, err = e.s.Aside(ctx, j); err != nil {
			return err
		}
	}
	if !j.State.Final() { // no worker has it any more
		r.Job.State = j.Pending()
	}
	e.counts.add(j.State, 1)
	return e.to.Encode(line{Job: recordOf(&r)})
}
