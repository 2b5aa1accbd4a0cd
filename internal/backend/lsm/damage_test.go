package lsm

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"testing"

	"github.com/weirstream/weir/internal/keygroup"
	"github.com/weirstream/weir/internal/snapshot"
	"github.com/weirstream/weir/internal/storage/mem"
)

// A table that is damaged anywhere, and read where it is stored, gives an error
// or what there was: no panic, and no other rows.
func TestDamagedStoredTable(t *testing.T) {
	d, groups := open(t, Options{Dir: t.TempDir()}), keygroup.Range{First: 0, Last: 3}
	tier, err := d.Tier("op")
	if err != nil {
		t.Fatal(err)
	}
	blobs := mem.New()
	if err := put(tier, 0); err != nil {
		t.Fatal(err)
	}
	s := shelve(t, tier, blobs, 1, groups)
	tier.Close()
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	read := func() (int, error) { return readStored(t, s) }
	if rows, err := read(); rows != 100 || err != nil {
		t.Fatal(rows, err)
	}
	for i := range s.Files {
		f := &s.Files[i]
		if !isTable(f.Local) {
			continue
		}
		whole, err := blobs.Get(t.Context(), s.name(f))
		if err != nil {
			t.Fatal(err)
		}
		step := 1009 // and less where what is not a row lies
		for at := 0; at < len(whole); at += step {
			if at > len(whole)-3000 {
				step = 19
			}
			whole[at] ^= 0x41
			err := blobs.Put(t.Context(), s.name(f), func(w io.Writer) error { _, err := w.Write(whole); return err })
			if err != nil {
				t.Fatal(err)
			}
			whole[at] ^= 0x41
			rows, err := read()
			switch {
			case err == nil && rows != 100:
				t.Fatalf("byte %d of %d: %d rows", at, len(whole), rows)
			case err != nil && !errors.Is(err, snapshot.ErrChecksum):
				t.Errorf("byte %d of %d: error %v", at, len(whole), err)
			}
		}
	}
}

// readStored reads what put has put, once.
func readStored(t *testing.T, s *Stored) (rows int, err error) {
	v, err := OpenSnapshot(t.Context(), s)
	if err != nil {
		return 0, err
	}
	err = v.rows(s.Groups, func(key, row []byte) error {
		if want := fmt.Sprintf("\x00\x01%08d", rows); string(key) != want || len(row) != 1000 {
			return fmt.Errorf("row %d is %q", rows, key)
		}
		rows++
		return nil
	})
	return rows, errors.Join(err, v.Close())
}

// A manifest that was cut off before it was stored, or damaged at its end, is one
// of an earlier moment to Pebble. It is refused, for there are tables that it does
// not know of.
func TestManifestThatLacksItsEnd(t *testing.T) {
	d, blobs, groups := open(t, Options{Dir: t.TempDir()}), mem.New(), keygroup.Range{First: 0, Last: 3}
	tier, err := d.Tier("op")
	if err != nil {
		t.Fatal(err)
	}
	if err := put(tier, 0); err != nil {
		t.Fatal(err)
	}
	s := shelve(t, tier, blobs, 1, groups)
	tier.Close()
	manifest := &s.Files[slices.IndexFunc(s.Files, func(f StoredFile) bool { return !isTable(f.Local) })]
	whole, err := blobs.Get(t.Context(), s.name(manifest))
	if err != nil {
		t.Fatal(err)
	}
	for n := range whole {
		cut := whole[:n]
		manifest.Size, manifest.CRC = int64(n), crc32.Checksum(cut, castagnoli)
		err := blobs.Put(t.Context(), s.name(manifest), func(w io.Writer) error { _, err := w.Write(cut); return err })
		if err != nil {
			t.Fatal(err)
		}
		if rows, err := readStored(t, s); err == nil {
			t.Errorf("read with the first %d bytes of %d: %d rows", n, len(whole), rows)
		}
		if tier, err := d.Reopen(t.Context(), "op", groups, []*Stored{s}); err == nil {
			t.Errorf("opened with the first %d bytes of %d", n, len(whole))
			tier.Close()
		}
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}
