package v1

import (
	"cmp"

	"github.com/duehook/duehook/httpapi/decode"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/kit/jsonio"
)

// The fields of a pause, and those of a drain, which only a call ends.
var (
	pauseFields = decode.NewFieldSet(map[string]func(*job.Pause, decode.Field){
		"until": func(p *job.Pause, f decode.Field) { p.Until = *f.Instant() },
		"note":  setNote,
	})
	drainFields = decode.NewFieldSet(map[string]func(*job.Pause, decode.Field){"note": setNote})
)

func setNote(p *job.Pause, f decode.Field) { decode.SetText(&p.Note, f) }

// by names the caller: the name of its key, or the key's id.
func (r *request) by() string {
	caller, _ := r.Caller()
	return cmp.Or(caller.KeyName, caller.KeyID)
}

// writePause writes since when and why something is paused; nil is null.
func writePause(w *jsonio.Writer, name string, p *job.Pause) {
	jsonio.Part(w, name, p, func(w *jsonio.Writer, p *job.Pause) {
		w.Instant("since", p.Since)
		w.Instant("until", p.Until)
		w.TextIfAny("reason", p.Reason)
		w.TextOrNull("by", p.By)
		w.TextOrNull("note", p.Note)
	})
}
