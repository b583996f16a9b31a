package ledger_test

import (
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

// MariaDB without statistics of new rows reads messages by an index, not all of them, whatever plans it made when there
// were few.
func TestRowsReadBesideManyMessages(t *testing.T) {
	const many, worked, perJob = 5_000, 200, 50
	r := newRig(t, mariadb, mariadb.Fresh(t), retention)
	noError(t, "freeze", r.Exec(t.Context(), "ALTER TABLE message STATS_AUTO_RECALC = 0"))
	for n := range 20 { // the server makes its plans
		r.work(fmt.Sprint("few", n), 2)
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

// rowsRead is how many rows MariaDB has read for this node.
func (r *rig) rowsRead() (sum int) {
	r.T.Helper()
	for _, db := range []*sql.DB{r.Writer(), r.Readers()} {
		var rows int
		noError(r.T, "read statistics", db.QueryRowContext(r.T.Context(),
			"SELECT CAST(sum(variable_value) AS SIGNED) FROM information_schema.session_status WHERE variable_name LIKE 'handler_read%'").Scan(&rows))
		sum += rows
	}
	return sum
}
