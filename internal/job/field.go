package job

// field is one field of a registration. Registration, Patch, Defaults and Job.Draft follow from it.
type field struct {
	name  Field
	given func(*Draft) bool
	fixed bool // a change of a job cannot set it
	push  bool // it is about requests: jobs that consumers fetch do not have it
	// mayBeZero: a draft may give what a Spec has without it, to keep the default of a topic away.
	mayBeZero bool

	// set checks what a draft gives, and sets it in a Spec; nil if other fields decide about it, too.
	set func(*Findings, *Draft, *Spec, Bounds)
	// draw is the reverse of set.
	draw func(*Draft, *Spec)

	// These are nil if topics have no default for the field.
	readDefault func(*Findings, *Draft, *Defaults, Bounds)
	hasDefault  func(*Defaults) bool
	fill        func(*Defaults, *Draft, *Spec) // unless the draft gives the field
}

// value is a field that a draft has as a *T, and a Spec and Defaults as a V. A zero V stands for none.
type value[T any, V comparable] struct {
	fixed, push, mayBeZero bool

	draft  func(*Draft) **T
	remove func(*Draft) bool // nil: a change cannot remove it
	spec   func(*Spec) *V
	topic  func(*Defaults) *V // nil: topics have no default for it
	check  func(*Findings, *T, *Spec, Bounds) V
	back   func(V) *T // the reverse of check
}

func (v value[T, V]) field(name Field) field {
	removes := func(d *Draft) bool { return v.remove != nil && v.remove(d) }
	f := field{
		name: name, fixed: v.fixed, push: v.push, mayBeZero: v.mayBeZero,
		given: func(d *Draft) bool { return *v.draft(d) != nil || removes(d) },
		set: func(f *Findings, d *Draft, s *Spec, l Bounds) {
			if given := *v.draft(d); given != nil {
				*v.spec(s) = v.check(f, given, s, l)
			} else if removes(d) {
				*v.spec(s) = *new(V)
			}
		},
		draw: func(d *Draft, s *Spec) { *v.draft(d) = v.back(*v.spec(s)) },
	}
	if v.topic == nil {
		return f
	}
	f.readDefault = func(f *Findings, d *Draft, to *Defaults, l Bounds) {
		if given := *v.draft(d); given != nil {
			*v.topic(to) = v.check(f, given, &Spec{}, l)
		}
	}
	f.hasDefault = func(of *Defaults) bool { return *v.topic(of) != *new(V) }
	f.fill = func(of *Defaults, d *Draft, s *Spec) {
		if *v.draft(d) == nil && !(v.push && s.Destination.Pulled()) {
			*v.spec(s) = *v.topic(of)
		}
	}
	return f
}
