package journal_test

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/duehook/duehook/store"
)

// fileSize is how many bytes the file of a journal has.
func fileSize(t *testing.T, url string) int64 {
	t.Helper()
	info, err := os.Stat(strings.TrimPrefix(url, "sqlite:"))
	noError(t, "Stat", err)
	return info.Size()
}

// fill registers jobs of some 20 MB in all, and ends them.
func fill(r *rig) {
	r.T.Helper()
	for batch := range 20 {
		var regs []store.Registration
		for n := range 100 {
			g := reg(fmt.Sprint("j", batch, "-", n), time.Hour)
			g.Spec.Body = bytes.Repeat([]byte("x"), 10_000)
			regs = append(regs, g)
		}
		r.RegisterAs(store.Created, regs...)
		for i := range regs {
			r.Change(regs[i].Key.ID, cancel)
		}
	}
}

func pragma(r *rig, name string) int {
	r.T.Helper()
	n, err := strconv.Atoi(r.Pragma(r.T, name))
	noError(r.T, name, err)
	return n
}

// What the journal forgets makes room on the disk, in steps, while nobody wants
// anything written.
func TestJournalShrinks(t *testing.T) {
	inBubble(func(t *testing.T) {
		r := newRig(t, sqliteBackend, sqliteBackend.Fresh(t), time.Minute, func(o *options) { o.Unsynced = true })
		r.Add(reg("stays", time.Hour))
		fill(r)
		full := pragma(r, "page_count")
		r.Pass(time.Hour)
		_, err := r.Purge(t.Context(), 1000)
		noError(t, "Purge", err)
		r.Pass(time.Minute)
		synctest.Wait() // the committer is idle
		if left := pragma(r, "page_count"); left > full/2 {
			t.Errorf("%d pages of %d are left, %d of them free", left, full, pragma(r, "freelist_count"))
		}
		r.Job("stays")
		r.Add(reg("new", time.Hour))
		before := fileSize(t, r.URL)
		r.Restart(time.Minute).Job("stays")
		if after := fileSize(t, r.URL); after > int64(full)*4096/2 {
			t.Errorf("the file has %d bytes, and had %d", after, before)
		}
	})(t)
}
