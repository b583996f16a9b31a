package node

import (
	"context"
	"errors"
)

// Start runs a node in this process. It returns when the node serves and its store answers, with the API's address as
// a URL. stop ends the node, waits for it and returns its error; it is called once. The end of ctx
// only ends the start. Options.Ready is not called.
func Start(ctx context.Context, o Options) (base string, stop func() error, err error) {
	running, end := context.WithCancel(context.WithoutCancel(ctx))
	ready, done := make(chan string, 1), make(chan error, 1)
	o.Ready = func(base string) { ready <- base }
	go func() { done <- Run(running, o) }()
	stop = func() error {
		end()
		return <-done
	}
	select {
	case base = <-ready:
		return base, stop, nil
	case err = <-done:
		end()
		return "", nil, err
	case <-ctx.Done():
		return "", nil, errors.Join(ctx.Err(), stop())
	}
}
