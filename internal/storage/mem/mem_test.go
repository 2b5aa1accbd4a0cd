package mem_test

import (
	"testing"

	"github.com/weirstream/weir/internal/storage"
	"github.com/weirstream/weir/internal/storage/mem"
	"github.com/weirstream/weir/internal/storage/storagetest"
)

func TestMem(t *testing.T) {
	storagetest.Run(t, func(*testing.T) storage.Blobs { return mem.New() })
}

func TestFaultyPassesOn(t *testing.T) {
	storagetest.Run(t, func(*testing.T) storage.Blobs { return storagetest.NewFaulty(mem.New()) })
}
