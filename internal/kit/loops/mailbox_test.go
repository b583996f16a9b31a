package loops_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/duehook/duehook/internal/kit/loops"
)

func TestSettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := loops.NewMailbox[int]()
		if err := b.Settled(t.Context()); err != nil {
			t.Errorf("empty: %v", err)
		}
		b.Put("a", 1)
		done := make(chan error, 1)
		go func() { done <- b.Settled(t.Context()) }()
		for _, step := range []func(){
			func() {},
			func() { b.Take() },
			func() { b.Put("b", 2) },
			func() { b.Done() }, // a is done, b is not
			func() { b.Take() },
		} {
			step()
			synctest.Wait()
			if len(done) != 0 {
				t.Fatal("it settled before its values had their effect")
			}
		}
		b.Done()
		if err := <-done; err != nil {
			t.Error(err)
		}
		b.Put("c", 3)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := b.Settled(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v at the end of the context", err)
		}
	})
}
