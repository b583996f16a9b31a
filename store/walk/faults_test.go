package walk_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/testing/must"
	"github.com/duehook/duehook/internal/testing/testenv"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/diskstore"
	"github.com/duehook/duehook/store/walk"
)

var errAway = errors.New("the store is away")

// failing is a store of which one call fails.
type failing struct {
	walk.Target
	left int // calls until then
}

func (f *failing) fails() error {
	if f.left--; f.left == 0 {
		return errAway
	}
	return nil
}

func (f *failing) Kinds(ctx context.Context) ([]string, error) {
	if err := f.fails(); err != nil {
		return nil, err
	}
	return f.Target.Kinds(ctx)
}

func (f *failing) ListDocuments(ctx context.Context, q store.DocumentQuery) ([]store.Document, error) {
	if err := f.fails(); err != nil {
		return nil, err
	}
	return f.Target.ListDocuments(ctx, q)
}

func (f *failing) PutDocuments(ctx context.Context, docs []store.Document) ([]uint64, error) {
	if err := f.fails(); err != nil {
		return nil, err
	}
	return f.Target.PutDocuments(ctx, docs)
}

func (f *failing) Figures(ctx context.Context, q store.FigureQuery) (store.Figures, error) {
	if err := f.fails(); err != nil {
		return store.Figures{}, err
	}
	return f.Target.Figures(ctx, q)
}

func (f *failing) Read(ctx context.Context, q store.ReadQuery) (store.Records, error) {
	if err := f.fails(); err != nil {
		return store.Records{}, err
	}
	return f.Target.Read(ctx, q)
}

func (f *failing) Restore(ctx context.Context, jobs []store.Restored) error {
	if err := f.fails(); err != nil {
		return err
	}
	return f.Target.Restore(ctx, jobs)
}

// filled is a store with something of each kind.
func filled(t *testing.T) walk.Target {
	t.Helper()
	s := testenv.Store(t, diskstore.Options{})
	for _, kind := range []string{"node", "topic"} {
		_, err := store.PutDocument(t.Context(), s, store.Document{Kind: kind, Name: "t", Data: []byte("{}")})
		must.OK(t, err)
	}
	key := job.Key{Topic: "t", ID: "a"}
	_, err := s.Register(t.Context(), []store.Registration{{Key: key, UID: store.BindUID("01J00000000000000000000000", key), Spec: job.Spec{Destination: "https://example.com"}}})
	must.OK(t, err)
	return s.(walk.Target)
}

func empty(t *testing.T) walk.Target { return testenv.Store(t, diskstore.Options{}).(walk.Target) }

// Whatever call of a store fails, the walk reports it, and an import continues where it was broken off.
func TestEveryCallMayFail(t *testing.T) {
	source := filled(t)
	var text string
	for n := 1; text == ""; n++ {
		var out bytes.Buffer
		left := 0
		counts, err := walk.Export(t.Context(), &failing{source, n}, &out, walk.ExportOptions{
			Head: walk.Head{ID: "w"}, Document: func(d *store.Document) bool { return d.Kind != "node" }, Report: func(*walk.Counts) { left++ },
			Last: func(context.Context) error { return nil },
		})
		if errors.Is(err, errAway) {
			continue
		}
		must.OK(t, err)
		text = out.String()
		must.Equal(t, "left out", counts.LeftOut(), "1 documents node")
		must.Equal(t, "reported", left > 0, true)
		must.Equal(t, "calls may fail", n > 5, true)
	}
	target := empty(t)
	for n := 1; ; n++ {
		counts, err := walk.Import(t.Context(), &failing{target, n}, strings.NewReader(text), walk.ImportOptions{Report: func(*walk.Counts) {}})
		if errors.Is(err, errAway) {
			continue
		}
		must.OK(t, err)
		must.Equal(t, "imported", counts.String(), "1 unfinished jobs; 1 topic documents")
		break
	}
	_, err := walk.Import(t.Context(), target, strings.NewReader(text), walk.ImportOptions{})
	must.Equal(t, "a second import is refused", errors.Is(err, walk.ErrNotEmpty), true)
}

func TestExportStops(t *testing.T) {
	_, err := walk.Export(t.Context(), filled(t), io.Discard, walk.ExportOptions{Last: func(context.Context) error { return errAway }})
	must.Equal(t, "the last check", errors.Is(err, errAway), true)
	read, write := io.Pipe()
	must.OK(t, read.CloseWithError(errAway))
	_, err = walk.Export(t.Context(), filled(t), write, walk.ExportOptions{})
	must.Equal(t, "the file", errors.Is(err, errAway), true)
}

func TestImportOfAnotherWalk(t *testing.T) {
	var text bytes.Buffer
	_, err := walk.Export(t.Context(), filled(t), &text, walk.ExportOptions{Head: walk.Head{ID: "w"}})
	must.OK(t, err)
	must.OK(t, walk.CheckEnd(bytes.NewReader(text.Bytes())))
	cut := text.Bytes()[:text.Len()/2]
	must.Equal(t, "a cut file", errors.Is(walk.CheckEnd(bytes.NewReader(cut)), walk.ErrCut), true)
	target := empty(t)
	_, err = walk.Import(t.Context(), target, bytes.NewReader(cut), walk.ImportOptions{})
	must.Equal(t, "broken off", err != nil, true)
	other := strings.Replace(text.String(), `"id":"w"`, `"id":"v"`, 1)
	_, err = walk.Import(t.Context(), target, strings.NewReader(other), walk.ImportOptions{})
	must.Equal(t, "another walk", errors.Is(err, walk.ErrOtherWalk), true)
	_, err = store.PutDocument(t.Context(), target, store.Document{Kind: "topic", Name: "new"})
	must.OK(t, err)
	_, err = walk.Import(t.Context(), target, &text, walk.ImportOptions{})
	must.Equal(t, "the store was used meanwhile", err != nil, true)
}
