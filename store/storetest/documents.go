package storetest

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/duehook/duehook/store"
)

var documentCases = []testCase{
	{name: "documents/are written, read, changed and deleted", options: Options{}, run: func(f *fixture) {
		_, err := store.ReadDocument(f.ctx, f, "k", "a")
		f.isError("Document", err, store.ErrNotFound)
		docs, err := f.ListDocuments(f.ctx, store.DocumentQuery{Kind: "k"})
		f.noError("ListDocuments", err)
		equal(f, "documents", docs, nil)

		first := f.putDocument(store.Document{Kind: "k", Name: "b", Data: []byte("1\n\x00\xff")})
		equal(f, "version", first.Version, uint64(1))
		first.Data = []byte("2")
		second := f.putDocument(first)
		equal(f, "version", second.Version, uint64(2))
		empty := f.putDocument(store.Document{Kind: "k", Name: "a"})
		f.putDocument(store.Document{Kind: "other", Name: "a", Data: []byte("x")})

		read, err := store.ReadDocument(f.ctx, f, "k", "b")
		f.noError("Document", err)
		equal(f, "document", read, second)
		docs, err = f.ListDocuments(f.ctx, store.DocumentQuery{Kind: "k"})
		f.noError("ListDocuments", err)
		equal(f, "documents by name", docs, []store.Document{empty, second})

		f.noError("DeleteDocument", store.DeleteDocument(f.ctx, f, "k", "b", 2))
		_, err = store.ReadDocument(f.ctx, f, "k", "b")
		f.isError("Document", err, store.ErrNotFound)
		equal(f, "version of a new one", f.putDocument(store.Document{Kind: "k", Name: "b"}).Version, uint64(1))
	}},
	{name: "documents/another version is a conflict", options: Options{}, run: func(f *fixture) {
		d := f.putDocument(store.Document{Kind: "k", Name: "a", Data: []byte("1")})
		for _, version := range []uint64{0, 2} {
			_, err := store.PutDocument(f.ctx, f, store.Document{Kind: "k", Name: "a", Data: []byte("2"), Version: version})
			f.isError("PutDocument", err, store.ErrConflict)
			f.isError("DeleteDocument", store.DeleteDocument(f.ctx, f, "k", "a", version), store.ErrConflict)
		}
		_, err := store.PutDocument(f.ctx, f, store.Document{Kind: "k", Name: "missing", Version: 1})
		f.isError("PutDocument", err, store.ErrConflict)
		f.isError("DeleteDocument", store.DeleteDocument(f.ctx, f, "k", "missing", 1), store.ErrNotFound)
		read, err := store.ReadDocument(f.ctx, f, "k", "a")
		f.noError("Document", err)
		equal(f, "document", read, d)
	}},
	{name: "documents/many are written, each by its version", options: Options{}, run: func(f *fixture) {
		a := f.putDocument(store.Document{Kind: "k", Name: "a", Data: []byte("1")})
		b := f.putDocument(store.Document{Kind: "k", Name: "b", Data: []byte("1")})
		docs := []store.Document{
			{Kind: "k", Name: "c", Data: []byte("new")},
			{Kind: "k", Name: "b", Data: []byte("2"), Version: b.Version},
			{Kind: "k", Name: "a", Data: []byte("2"), Version: a.Version + 1},
			{Kind: "k", Name: "d", Data: []byte("2"), Version: 1},
		}
		for i := range 700 {
			docs = append(docs, store.Document{Kind: "k", Name: fmt.Sprintf("many%03d", i), Data: []byte("x")})
		}
		versions, err := f.PutDocuments(f.ctx, docs)
		f.noError("PutDocuments", err)
		equal(f, "versions", versions[:5], []uint64{1, 2, 0, 0, 1})
		all, err := f.ListDocuments(f.ctx, store.DocumentQuery{Kind: "k"})
		f.noError("ListDocuments", err)
		equal(f, "documents", len(all), 703)
		equal(f, "the first", all[:3], []store.Document{a, {Kind: "k", Name: "b", Data: []byte("2"), Version: 2}, {Kind: "k", Name: "c", Data: []byte("new"), Version: 1}})
		page, err := f.ListDocuments(f.ctx, store.DocumentQuery{Kind: "k", After: "b", Limit: 3})
		f.noError("ListDocuments of a page", err)
		equal(f, "a page", page, all[2:5])
		page, err = f.ListDocuments(f.ctx, store.DocumentQuery{Kind: "k", After: all[len(all)-2].Name, Limit: 3})
		f.noError("ListDocuments of the last page", err)
		equal(f, "the last page", page, all[len(all)-1:])
		page, err = f.ListDocuments(f.ctx, store.DocumentQuery{Kind: "k", After: all[len(all)-1].Name, Limit: 3})
		f.noError("ListDocuments behind the last", err)
		equal(f, "behind the last", len(page), 0)
		none, err := f.PutDocuments(f.ctx, nil)
		f.noError("PutDocuments of none", err)
		equal(f, "versions of none", len(none), 0)
	}},
	{name: "documents/a page ends at its bytes", options: Options{}, run: func(f *fixture) {
		for _, name := range []string{"B", "a", "b", "ä"} { // by bytes, not by alphabet
			f.putDocument(store.Document{Kind: "k", Name: name, Data: make([]byte, store.BatchBytes/2)})
		}
		var pages [][]string
		for after := ""; ; {
			page, err := f.ListDocuments(f.ctx, store.DocumentQuery{Kind: "k", After: after, Limit: 100})
			f.noError("ListDocuments", err)
			if len(page) == 0 {
				break
			}
			names := make([]string, len(page))
			for i := range page {
				names[i] = page[i].Name
			}
			pages, after = append(pages, names), names[len(names)-1]
		}
		equal(f, "pages", pages, [][]string{{"B", "a"}, {"b", "ä"}})
		all, err := f.ListDocuments(f.ctx, store.DocumentQuery{Kind: "k", After: "a"})
		f.noError("ListDocuments", err)
		equal(f, "all behind a", len(all), 2)
	}},
	{name: "documents/neither side can alter the other's data", options: Options{}, run: func(f *fixture) {
		data := []byte("abc")
		stored := f.putDocument(store.Document{Kind: "k", Name: "a", Data: data})
		data[0], stored.Data[1] = '!', '!'
		read, err := store.ReadDocument(f.ctx, f, "k", "a")
		f.noError("Document", err)
		read.Data[2] = '!'
		docs, err := f.ListDocuments(f.ctx, store.DocumentQuery{Kind: "k"})
		f.noError("ListDocuments", err)
		equal(f, "data", string(docs[0].Data), "abc")
	}},
	{name: "documents/one of many at once wins", options: Options{}, run: func(f *fixture) {
		var won atomic.Int64
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				_, err := store.PutDocument(f.ctx, f, store.Document{Kind: "k", Name: "a", Data: fmt.Append(nil, i)})
				if err == nil {
					won.Add(1)
				} else if !errors.Is(err, store.ErrConflict) {
					f.Errorf("PutDocument: %v", err)
				}
			})
		}
		wg.Wait()
		equal(f, "winners", won.Load(), int64(1))
	}},
}

func (f *fixture) putDocument(d store.Document) store.Document {
	f.Helper()
	stored, err := store.PutDocument(f.ctx, f, d)
	f.noError("PutDocument", err)
	return stored
}
