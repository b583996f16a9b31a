package decode

import (
	"strings"
	"testing"
)

// Elements and members beyond any limit take no memory.
func TestManyItems(t *testing.T) {
	var errs Errors
	field := func(text string) Field { return Field{Raw: []byte(text), Name: "f", Errs: &errs} }
	const many = 100_000
	list := field("[" + strings.Repeat("1,", many) + "1]")
	members := make([]string, many)
	for i := range members {
		members[i] = `"` + strings.Repeat("a", i%500) + strings.Repeat("b", i/500) + `":""`
	}
	object := field("{" + strings.Join(members, ",") + "}")
	for name, n := range map[string]int{
		"List": len(list.List()), "Elements": len(list.Elements()), "Steps": len(list.Steps()), "Texts": len(object.Texts()),
	} {
		if n != maxItems {
			t.Errorf("%s has %d items", name, n)
		}
	}
	if _, n := list.First(10); n != many+1 {
		t.Errorf("%d elements were counted", n)
	}
	if len(errs.Fields) > 0 {
		t.Error(errs.Fields)
	}
}
