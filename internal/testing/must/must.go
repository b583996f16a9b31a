// Package must has the checks that most tests repeat.
package must

import "github.com/google/go-cmp/cmp"

// T is a testing.TB, or a rapid.T.
type T interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// OK ends the test if err is not nil.
func OK(t T, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%v", err)
	}
}

// Equal fails the test unless got is want.
func Equal[V comparable](t T, what string, got, want V) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// Same fails the test unless got has the content of want.
func Same[V any](t T, what string, got, want V, o ...cmp.Option) {
	t.Helper()
	if diff := cmp.Diff(want, got, o...); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}
