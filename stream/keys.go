package stream

import (
	"github.com/weirstream/weir/internal/keygroup"
	"github.com/weirstream/weir/internal/snapshot"
)

type snapshotState = snapshot.State

// keyable tells whether K can be a key.
func keyable[K comparable]() error {
	_, err := keygroup.NewHasher[K]()
	return err
}
