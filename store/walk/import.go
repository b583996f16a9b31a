package walk

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"

	"github.com/duehook/duehook/store"
)

// Target is the store that a walk ends at.
type Target interface {
	Source
}

// ImportOptions are those of Import.
type ImportOptions struct {
	// Check refuses a walk by its head; nil: nothing does.
	Check func(h *Head) error
	// Passing are kinds of documents that an empty store may have.
	Passing func(kind string) bool
	// Report is called now and then; nil: it is not.
	Report func(c *Counts)
}

// Why a store cannot be filled.
var (
	// ErrNotEmpty: the store has content.
	ErrNotEmpty = errors.New("the store is not empty: import into an empty one")
	// ErrOtherWalk: the store has a part of another walk.
	ErrOtherWalk = errors.New("the store has a part of another import: continue that one with its own file, or empty the store")
	// ErrCut: the lines end before the last one.
	ErrCut = errors.New("the walk was cut off: its last line is missing")
	// ErrForm: the lines are no walk that this version can read.
	ErrForm = errors.New("this is no export of a whole store that this version of duehook can read")
)

// CheckEnd returns ErrCut if a file does not end as a walk does, before anything of it is imported.
func CheckEnd(file io.ReadSeeker) error {
	const lastLine = 64 << 10 // more than it takes
	size, err := file.Seek(0, io.SeekEnd)
	if err == nil {
		_, err = file.Seek(max(size-lastLine, 0), io.SeekStart)
	}
	var tail []byte
	if err == nil {
		tail, err = io.ReadAll(file)
	}
	if err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	if err != nil {
		return fmt.Errorf("read the walk: %w", err)
	}
	tail = bytes.TrimSuffix(tail, []byte("\n"))
	if !bytes.HasPrefix(tail[bytes.LastIndexByte(tail, '\n')+1:], []byte(`{"end":`)) {
		return ErrCut
	}
	return nil
}

// began is the content of the document that holds a store while an import lasts.
type began struct {
	Walk string `json:"walk"`
}

// Import fills a store with what Export wrote. It can be broken off at any time, and continues when it runs again. It counts what the
// store has in the end.
func Import(ctx context.Context, s Target, from io.Reader, o ImportOptions) (Counts, error) {
	in := &importing{s: s, o: o, from: json.NewDecoder(from), counts: newCounts()}
	in.from.DisallowUnknownFields()
	err := in.run(ctx)
	return in.counts, err
}

type importing struct {
	s      Target
	o      ImportOptions
	from   *json.Decoder
	counts Counts
	docs   []store.Document // of one kind, to be written
	jobs   []store.Restored // to be stored
	bytes  int              // of both
}

func (in *importing) run(ctx context.Context) error {
	first, err := in.next()
	switch {
	case err != nil:
		return err
	case first.Walk == nil, first.Walk.Form != form:
		return ErrForm
	case in.o.Check != nil:
		if err := in.o.Check(first.Walk); err != nil {
			return err
		}
	}
	if err := in.begin(ctx, first.Walk.ID); err != nil {
		return err
	}
	for {
		l, err := in.next()
		if err != nil {
			return errors.Join(err, in.flush(ctx))
		}
		if l.End != nil {
			return in.end(ctx, l.End)
		}
		if err := in.take(ctx, &l); err != nil {
			return err
		}
	}
}

// next reads a line.
func (in *importing) next() (l line, err error) {
	switch err = in.from.Decode(&l); {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return l, ErrCut
	case err != nil:
		return l, fmt.Errorf("%w: near byte %d: %w", ErrForm, in.from.InputOffset(), err)
	}
	return l, nil
}

// begin holds the store, if it is empty or has a part of the same walk.
func (in *importing) begin(ctx context.Context, id string) error {
	d, err := store.ReadDocument(ctx, in.s, store.HoldKind, store.HoldImport)
	if err == nil {
		var was began
		if json.Unmarshal(d.Data, &was) != nil || was.Walk != id {
			return ErrOtherWalk
		}
		return nil
	}
	if !errors.Is(err, store.ErrNotFound) {
		return err
	}
	if err := in.empty(ctx); err != nil {
		return err
	}
	data, err := json.Marshal(began{id})
	if err != nil {
		return err
	}
	_, err = store.PutDocument(ctx, in.s, store.Document{Kind: store.HoldKind, Name: store.HoldImport, Data: data})
	return err
}

// empty returns an error that says what the store has, if it has anything.
func (in *importing) empty(ctx context.Context) error {
	has, err := in.has(ctx)
	if err == nil && (has.All() > 0 || len(has.Documents) > 0) {
		err = fmt.Errorf("%w; it has %s", ErrNotEmpty, has.String())
	}
	return err
}

// has counts what the store has.
func (in *importing) has(ctx context.Context) (Counts, error) {
	c, err := census(ctx, in.s)
	if err != nil {
		return c, err
	}
	kinds, err := in.s.Kinds(ctx)
	for _, kind := range kinds {
		if in.o.Passing != nil && in.o.Passing(kind) {
			continue
		}
		docs, err := in.s.ListDocuments(ctx, store.DocumentQuery{Kind: kind})
		if err != nil {
			return c, err
		}
		for i := range docs {
			if kind != store.HoldKind || docs[i].Name != store.HoldImport {
				c.Documents[kind]++
			}
		}
	}
	return c, err
}

// take takes a line. Jobs and documents are stored some at a time.
func (in *importing) take(ctx context.Context, l *line) error {
	switch {
	case l.Document != nil:
		d := l.Document
		if len(in.docs) > 0 && in.docs[0].Kind != d.Kind {
			if err := in.flush(ctx); err != nil {
				return err
			}
		}
		in.docs = append(in.docs, store.Document{Kind: d.Kind, Name: d.Name, Data: d.Data})
		in.bytes += len(d.Data)
	case l.Job != nil:
		r, err := l.Job.restored()
		if err != nil {
			return fmt.Errorf("%w: %w", ErrForm, err)
		}
		in.jobs = append(in.jobs, r)
		in.bytes += l.Job.size()
	default:
		return ErrForm
	}
	if len(in.docs)+len(in.jobs) < pageSize && in.bytes < store.BatchBytes {
		return nil
	}
	return in.flush(ctx)
}

func (r *record) size() int {
	n := len(r.Spec)
	for _, a := range r.Log {
		n += len(a)
	}
	for _, key := range r.CountKeys {
		n += len(key)
	}
	return n
}

// flush stores what was taken.
func (in *importing) flush(ctx context.Context) error {
	if len(in.docs) > 0 {
		if err := in.put(ctx); err != nil {
			return err
		}
	}
	if len(in.jobs) > 0 {
		if err := in.s.Restore(ctx, in.jobs); err != nil {
			return err
		}
		for i := range in.jobs {
			in.counts.add(in.jobs[i].Job.State, 1)
		}
		if in.o.Report != nil {
			in.o.Report(&in.counts)
		}
	}
	in.docs, in.jobs, in.bytes = in.docs[:0], in.jobs[:0], 0
	return nil
}

// put writes documents. One that is there already must be the same: an earlier run wrote it.
func (in *importing) put(ctx context.Context) error {
	versions, err := in.s.PutDocuments(ctx, in.docs)
	if err != nil {
		return err
	}
	for i, version := range versions {
		if d := &in.docs[i]; version == 0 {
			is, err := store.ReadDocument(ctx, in.s, d.Kind, d.Name)
			if err == nil && !bytes.Equal(is.Data, d.Data) {
				err = store.ErrConflict
			}
			if err != nil {
				return fmt.Errorf("the document %s %s: %w", d.Kind, d.Name, err)
			}
		}
	}
	return nil
}

// end compares what the store has with what was exported, and releases the store.
func (in *importing) end(ctx context.Context, want *Counts) error {
	if err := in.flush(ctx); err != nil {
		return err
	}
	has, err := in.has(ctx)
	if err != nil {
		return err
	}
	if in.counts = has; !maps.Equal(has.Jobs, want.Jobs) || !maps.Equal(has.Documents, want.Documents) {
		return fmt.Errorf("the store has %s, and %s were exported: was it used meanwhile? It stays held", has.String(), want.String())
	}
	in.counts.Left = want.Left
	d, err := store.ReadDocument(ctx, in.s, store.HoldKind, store.HoldImport)
	if err == nil {
		err = store.DeleteDocument(ctx, in.s, d.Kind, d.Name, d.Version)
	}
	return err
}
