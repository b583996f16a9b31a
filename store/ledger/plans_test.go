package ledger_test

import (
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

// A server that has no statistics of new rows reads messages by an index, not all of them, whatever plans it made when
// there were few.
func TestRowsReadBesideManyMessages(t *testing.T) {
	const many, worked, perJob = 5_000, 200, 50
	onServers(func(t *testing.T, b *backend) {
		r := newRig(t, b, b.Fresh(t), retention)
		noError(t, "freeze", r.Exec(t.Context(), map[string]string{
			postgres.Name: "ALTER TABLE message SET (autovacuum_enabled = false)",
			mariadb.Name:  "ALTER TABLE message STATS_AUTO_RECALC = 0",
		}[b.Name]))
		// The server makes its plans while there are few messages, and has no later statistics.
		for n := range 20 {
			r.work(fmt.Sprint("few", n), 2)
			if n == 10 && b == postgres {
				noError(t, "analyze", r.Exec(t.Context(), "ANALYZE"))
			}
		}
		for n := range many / worked {
			r.addMany(fmt.Sprint("waits", n), worked, time.Hour)
		}
		before := r.rowsRead()
		r.work("worked", worked)
		noError(t, "Flush", r.Flush())
		if read := r.rowsRead() - before; read > worked*perJob {
			t.Errorf("the server read %d rows for %d jobs, want at most %d", read, worked, worked*perJob)
		}
	})(t)
}

// work registers jobs, delivers half of them, and cancels the others.
func (r *rig) work(prefix string, n int) {
	r.T.Helper()
	r.addMany(prefix+"-due", n/2, 0)
	var settlements []job.Settlement
	for _, c := range r.TakeDue() {
		settlements = append(settlements, settlement(c, job.OutcomeDelivered, -1))
	}
	r.SettleAll(settlements...)
	r.addMany(prefix+"-waits", n/2, time.Hour)
	for i := range n / 2 {
		r.Change(fmt.Sprint(prefix, "-waits-", i), cancel)
	}
}

// addMany registers jobs with one call.
func (r *rig) addMany(prefix string, n int, delay time.Duration) {
	r.T.Helper()
	regs := make([]store.Registration, n)
	for i := range regs {
		regs[i] = reg(fmt.Sprint(prefix, "-", i), delay)
	}
	r.RegisterAs(store.Created, regs...)
}

// rowsRead is how many rows the server has read for this node.
func (r *rig) rowsRead() (sum int) {
	r.T.Helper()
	for _, db := range []*sql.DB{r.Writer(), r.Readers()} {
		sum += r.B.rowsRead(r.T, db)
	}
	return sum
}
