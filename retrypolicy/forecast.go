package retrypolicy

import "github.com/duehook/duehook/internal/job"

// Window is a period: from Earliest to Latest, both included.
type Window struct{ Earliest, Latest job.Instant }

// At is the window of one instant.
func At(i job.Instant) Window { return Window{i, i} }

// Planned is a future attempt.
type Planned struct {
	Number int // from 1
	Window
}

// Forecast is the future of a job whose attempts all fail.
type Forecast struct {
	// Attempts are those that may begin before the job expires.
	Attempts []Planned
	// Dead is when the last one fails and the job becomes a dead letter; nil if it
	// expires before in any case.
	Dead *Window
}

// Forecast computes the future of a job whose n-th attempt is due in the window at,
// if this and all later attempts fail at once. An attempt that takes time delays
// those after it. Jitter sets the width of the windows. expires is the end of the
// job's TTL, or zero.
func (p Policy) Forecast(n int, at Window, expires job.Instant) Forecast {
	var f Forecast
	for ; ; n++ {
		if expires != 0 {
			if at.Earliest >= expires {
				return f
			}
			at.Latest = min(at.Latest, expires)
		}
		f.Attempts = append(f.Attempts, Planned{Number: n, Window: at})
		next, more := p.after(n, at)
		if !more {
			f.Dead = &at
			return f
		}
		at = next
	}
}

// ForecastAfter is the same for a job whose n-th attempt fails in the window
// failed.
func (p Policy) ForecastAfter(n int, failed Window, expires job.Instant) Forecast {
	next, more := p.after(n, failed)
	if !more {
		return Forecast{Dead: &failed}
	}
	return p.Forecast(n+1, next, expires)
}

// after is the window of the attempt after the failure of the n-th; false if there
// is none.
func (p Policy) after(n int, failed Window) (Window, bool) {
	shortest, more := p.Next(n, func() float64 { return 0 })
	longest, _ := p.Next(n, func() float64 { return 1 }) // never quite
	return Window{failed.Earliest.Add(shortest), failed.Latest.Add(longest)}, more
}
