package job

import "fmt"

// MaxDialectData bounds Dialect.Data, in bytes.
const MaxDialectData = 16 << 10

// Dialect is the dialect of the API by which a job was registered. Its deliveries follow the
// contract of that dialect.
type Dialect struct {
	Name string
	// Data is what only the dialect needs of the job, in a form of its own.
	Data string
	// Indexed: the job is found by its id in any topic, see IDIndex.
	Indexed bool
}

// In reports whether the job was registered by the dialect.
func (s *Spec) In(dialect string) bool { return s.DialectName() == dialect }

// DialectName is the dialect of the job; empty: duehook's own.
func (s *Spec) DialectName() string {
	if s.Dialect == nil {
		return ""
	}
	return s.Dialect.Name
}

// dialect reads the dialect that a front sets.
func (f *Findings) dialect(d *Dialect) *Dialect {
	if d != nil && len(d.Data) > MaxDialectData {
		f.Add("dialect", fmt.Sprintf("must have at most %d bytes of settings, not %d", MaxDialectData, len(d.Data)))
	}
	return d
}
