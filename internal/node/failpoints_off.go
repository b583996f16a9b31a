//go:build !failpoints

package node

import "github.com/duehook/duehook/store"

// withFailpoints does nothing: released binaries have no failpoints.
func withFailpoints(s store.Store) (store.Store, error) { return s, nil }
