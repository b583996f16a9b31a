//go:build !failpoints

package node

import "github.com/duehook/duehook/store"

// withFailpoints: what is shipped cannot be told to crash.
func withFailpoints(s store.Store) (store.Store, error) { return s, nil }
