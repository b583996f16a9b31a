package ledger_test

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
func (r *rig) fill() {
	r.t.Helper()
	for batch := range 20 {
		var regs []store.Registration
		for n := range 100 {
			g := reg(fmt.Sprint("j", batch, "-", n), time.Hour)
			g.Spec.Body = bytes.Repeat([]byte("x"), 10_000)
			regs = append(regs, g)
		}
		r.register(store.Created, regs...)
		for i := range regs {
			r.update(regs[i].Key.ID, cancel)
		}
	}
}

func (r *rig) pragma(name string) int {
	r.t.Helper()
	n, err := strconv.Atoi(r.Pragma(r.t, name))
	noError(r.t, name, err)
	return n
}

// What the journal forgets makes room on the disk, in steps, while nobody wants
// anything written.
func TestJournalShrinks(t *testing.T) {
	inBubble(func(t *testing.T) {
		r := newRig(t, sqliteBackend, sqliteBackend.fresh(t), time.Minute, func(o *options) { o.Unsynced = true })
		r.add(reg("stays", time.Hour))
		r.fill()
		full := r.pragma("page_count")
		r.pass(time.Hour)
		_, err := r.Purge(t.Context(), 1000)
		noError(t, "Purge", err)
		r.pass(time.Minute)
		synctest.Wait() // the committer is idle
		if left := r.pragma("page_count"); left > full/2 {
			t.Errorf("%d pages of %d are left, %d of them free", left, full, r.pragma("freelist_count"))
		}
		r.get("stays")
		r.add(reg("new", time.Hour))
		before := fileSize(t, r.url)
		r.restart(time.Minute).get("stays")
		if after := fileSize(t, r.url); after > int64(full)*4096/2 {
			t.Errorf("the file has %d bytes, and had %d", after, before)
		}
	})(t)
}
