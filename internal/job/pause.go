package job

// MaxNote is the most characters of a note.
const MaxNote = 512

// Pause is why something is paused: a topic, or a schedule.
type Pause struct {
	Since Instant `json:"since"`
	// Until ends the pause; 0: somebody has to.
	Until Instant `json:"until,omitempty"`
	// Reason is why the server paused a schedule; empty: a client did.
	Reason string `json:"reason,omitempty"`
	// By names the API key of the client that paused; empty if the server needs none.
	By   string `json:"by,omitempty"`
	Note string `json:"note,omitempty"`
}

// The reasons of pauses of the server.
const (
	PausedGone = ReasonGone         // the receiver of an occurrence accepts no more
	PausedDead = "dead_occurrences" // many in a row became dead letters
)

// Check returns nil or a *ValidationError. now is the time of the store.
func (p *Pause) Check(now Instant) error {
	var f Findings
	if p.Until != 0 && p.Until <= now {
		f.Add("until", "must be in the future; leave it out to pause until resumed")
	}
	f.Check("note", CheckText(p.Note, 0, MaxNote))
	return f.Err()
}

// Over reports whether the time of the pause is over.
func (p *Pause) Over(now Instant) bool { return p.Until != 0 && p.Until <= now }
