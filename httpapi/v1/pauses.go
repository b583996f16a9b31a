package v1

import (
	"cmp"

	"github.com/duehook/duehook/httpapi/wire"
	"github.com/duehook/duehook/internal/kit/jsonout"
	"github.com/duehook/duehook/job"
)

// The fields of a pause, and those of a drain, which only a call ends.
var (
	pauseFields = wire.NewFieldSet(map[string]func(*job.Pause, wire.Field){
		"until": func(p *job.Pause, f wire.Field) { p.Until = *f.Instant() },
		"note":  setNote,
	})
	drainFields = wire.NewFieldSet(map[string]func(*job.Pause, wire.Field){"note": setNote})
)

func setNote(p *job.Pause, f wire.Field) { wire.SetText(&p.Note, f) }

// by names the caller: the name of its key, or the key's id.
func (r *request) by() string {
	caller, _ := r.Caller()
	return cmp.Or(caller.KeyName, caller.KeyID)
}

// writePause writes since when and why something is paused; nil is null.
func writePause(w *jsonout.Writer, name string, p *job.Pause) {
	jsonout.Part(w, name, p, func(w *jsonout.Writer, p *job.Pause) {
		w.Instant("since", p.Since)
		w.Instant("until", p.Until)
		w.TextIfAny("reason", p.Reason)
		w.TextOrNull("by", p.By)
		w.TextOrNull("note", p.Note)
	})
}
