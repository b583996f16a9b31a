package demo

import "fmt"

// checks are the expectations of the demo and whether they held.
type checks struct{ list []check }

type check struct {
	what string
	// wrong is what was found instead; empty if the check held.
	wrong []string
}

// expect notes an expectation about one or many things. The function that it
// returns is called for each thing.
func (c *checks) expect(what string) func(ok bool, format string, args ...any) {
	c.list = append(c.list, check{what: what})
	n := len(c.list) - 1
	return func(ok bool, format string, args ...any) {
		if !ok {
			c.list[n].wrong = append(c.list[n].wrong, fmt.Sprintf(format, args...))
		}
	}
}

// print shows each expectation, and below a broken one what was found. It returns how many are broken.
func (c *checks) print(t *timeline) (broken int) {
	t.printf("\n")
	for _, one := range c.list {
		if len(one.wrong) == 0 {
			t.printf("  %s %s\n", t.paint(green, "✓"), one.what)
			continue
		}
		broken++
		t.printf("  %s %s\n", t.paint(red, "✗"), one.what)
		for _, w := range one.wrong {
			t.printf("      %s\n", t.paint(red, w))
		}
	}
	return broken
}
