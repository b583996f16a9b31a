package v1

import (
	"cmp"

	"github.com/duehook/duehook/job"
)

// The fields of a pause, and those of a drain, which only a call ends.
var (
	pauseFields = newFieldSet(map[string]func(*job.Pause, field){
		"until": func(p *job.Pause, f field) { p.Until = *f.instant() },
		"note":  setNote,
	})
	drainFields = newFieldSet(map[string]func(*job.Pause, field){"note": setNote})
)

func setNote(p *job.Pause, f field) { setText(&p.Note, f) }

// by names the caller: the name of its key, or the key's id.
func (r *request) by() string {
	caller, _ := r.Caller()
	return cmp.Or(caller.KeyName, caller.KeyID)
}

// writePause writes since when and why something is paused; nil is null.
func writePause(w *writer, name string, p *job.Pause) {
	part(w, name, p, func(w *writer, p *job.Pause) {
		w.instant("since", p.Since)
		w.instant("until", p.Until)
		w.textOrNull("by", p.By)
		w.textOrNull("note", p.Note)
	})
}
