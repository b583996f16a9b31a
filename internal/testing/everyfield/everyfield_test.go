package everyfield_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/duehook/duehook/internal/testing/everyfield"
)

type inner struct {
	On   bool
	Rate float64
}

type outer struct {
	Name  string
	Size  *uint8
	Parts []inner
	By    map[string]*inner
}

// number is a pointer that a comparison follows.
func number(n uint8) *uint8 { return &n }

func TestAlone(t *testing.T) {
	want := map[string]outer{
		"[Name]":       {Name: "x"},
		"[Size]":       {Size: number(1)},
		"[Parts On]":   {Parts: []inner{{On: true}}},
		"[Parts Rate]": {Parts: []inner{{Rate: 1}}},
		"[By On]":      {By: map[string]*inner{"x": {On: true}}},
		"[By Rate]":    {By: map[string]*inner{"x": {Rate: 1}}},
	}
	got := map[string]outer{}
	for at, v := range everyfield.Alone[outer]() {
		got[at] = *v
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestChanged(t *testing.T) {
	filled := outer{"x", number(1), []inner{{true, 1}}, map[string]*inner{"x": {true, 1}}}
	if diff := cmp.Diff(&filled, everyfield.Filled[outer]()); diff != "" {
		t.Error(diff)
	}
	want := map[string]outer{
		"[Name]":       {"xx", filled.Size, filled.Parts, filled.By},
		"[Size]":       {"x", number(2), filled.Parts, filled.By},
		"[Parts On]":   {"x", filled.Size, []inner{{false, 1}}, filled.By},
		"[Parts Rate]": {"x", filled.Size, []inner{{true, 2}}, filled.By},
		"[By On]":      {"x", filled.Size, filled.Parts, map[string]*inner{"x": {false, 1}}},
		"[By Rate]":    {"x", filled.Size, filled.Parts, map[string]*inner{"x": {true, 2}}},
	}
	got := map[string]outer{}
	for at, v := range everyfield.Changed[outer]() {
		got[at] = *v
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
