package main

import (
	"bytes"
	"os"
	"testing"
)

// TestPictureShowsTheDemo: the picture of the README is what the demo prints today.
func TestPictureShowsTheDemo(t *testing.T) {
	want, err := picture(t.Context(), os.DirFS("../../../../testdata/demo"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../../../../docs/images/demo.svg")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("docs/images/demo.svg shows another demo: go run ./internal/node/demo/picture docs/images/demo.svg")
	}
}
