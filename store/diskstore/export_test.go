package diskstore

// Debt is how many bytes the engine has yet to compact, and how many compactions run.
func Debt(e Embedded) (bytes uint64, running int64) {
	m := e.(*Store).db.Metrics()
	return m.Compact.EstimatedDebt, m.Compact.NumInProgress
}
