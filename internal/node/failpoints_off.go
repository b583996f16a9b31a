//go:build !failpoints

package node

import "github.com/duehook/duehook/store"

// withFailpoints does nothing: released binaries have no failpoints.
func withFailpoints(s store.Store, lists store.ReadyList) (store.Store, store.ReadyList, error) {
	return s, lists, nil
}
