package snapshot

import (
	"errors"
	"io"
	"path"
	"reflect"
	"strings"
	"testing"

	"github.com/weirstream/weir/internal/storage"
	"github.com/weirstream/weir/internal/storage/mem"
)

func TestSharedNames(t *testing.T) {
	for _, test := range []struct {
		name, lineage string
		attempt       int64
	}{
		{SharedName("3f9c", 3, "dedupe", 0, 1), "3f9c", 3},
		{SharedName("3f9c", 12, "a-b/a7-c", 1, 20), "3f9c", 12},
		{"job/shared/L1-a2-x-0-1", "L1", 2},
		{"job/shared/notes.txt", "", 0},
		{"../shared/-a2-x-0-1", "", 0},
		{"../shared/x-a0-x-0-1", "", 0},
		{"../shared/x-a2", "", 0},
	} {
		lineage, attempt, ok := SharedWriter(test.name)
		if lineage != test.lineage || attempt != test.attempt || ok != (attempt > 0) {
			t.Errorf("%s: lineage %q, attempt %d, %v", test.name, lineage, attempt, ok)
		}
	}
	name := SharedName("3f9c", 3, "dedupe", 0, 1)
	if want := "../shared/3f9c-a3-dedupe-0-1"; name != want || !IsShared(name) || IsShared("dedupe-0-a3") {
		t.Errorf("name %q", name)
	}
	if at := path.Join(CheckpointDir("job", 7), name); at != SharedDir("job")+"/3f9c-a3-dedupe-0-1" {
		t.Errorf("it lies at %s", at)
	}
}

// Names in _metadata lead to files that a restore opens, and makes: they must
// not lead elsewhere.
func TestDecodeRefusesFiles(t *testing.T) {
	for name, change := range map[string]func(*Metadata){
		"up":             func(m *Metadata) { m.Files[0].Name = "../chk-3/x" },
		"further up":     func(m *Metadata) { m.Files[0].Name = "../../other/shared/x" },
		"up from shared": func(m *Metadata) { m.Files[0].Name = "../shared/../x" },
		"below shared":   func(m *Metadata) { m.Files[0].Name = "../shared/a/x" },
		"below":          func(m *Metadata) { m.Files[0].Name = "a/x" },
		"absolute":       func(m *Metadata) { m.Files[0].Name = "/etc/x" },
		"no name":        func(m *Metadata) { m.Files[0].Name = "" },
		"twice":          func(m *Metadata) { m.Files[1].Name = m.Files[0].Name },
		"not listed":     func(m *Metadata) { m.Operators[1].Subtasks[0].File = "other" },
		"increment not listed": func(m *Metadata) {
			m.Operators[1].Subtasks[0].Increments = []string{"other"}
		},
		"increments alone": func(m *Metadata) { m.Operators[1].Subtasks[0].File = "" },
		"file and native": func(m *Metadata) {
			m.Operators[1].Subtasks[0].Native = m.Operators[3].Subtasks[0].Native
		},
		"native not listed": func(m *Metadata) { m.Operators[3].Subtasks[0].Native.Files[0].File = "other" },
		"native elsewhere":  func(m *Metadata) { m.Operators[3].Subtasks[0].Native.Files[0].Local = "../x" },
		"native below":      func(m *Metadata) { m.Operators[3].Subtasks[0].Native.Files[0].Local = "a/x" },
		"native twice": func(m *Metadata) {
			n := m.Operators[3].Subtasks[0].Native
			n.Files = append(n.Files, n.Files[0])
		},
		"native without format": func(m *Metadata) { m.Operators[3].Subtasks[0].Native.Format = "" },
	} {
		m := sampleMetadata3(8)
		b, err := EncodeMetadata(m)
		check(t, err)
		if _, err := DecodeMetadata(b); err != nil {
			t.Fatalf("%s: before the change: %v", name, err)
		}
		change(m)
		if _, err := EncodeMetadata(m); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: encoded: %v", name, err)
		}
	}
	for _, name := range []string{"../chk-3/x", "a/x", "../shared/../x"} {
		b, err := EncodeMetadata(sampleMetadata(8))
		check(t, err)
		body := strings.ReplaceAll(string(b[:len(b)-crcLineSize]), Name("dedupe", 0, 3), name)
		if _, err := DecodeMetadata(appendCRCLine([]byte(body))); !errors.Is(err, ErrMalformed) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: decoded: %v", name, err)
		}
	}
}

func TestVerifyFindsDamageInSharedFiles(t *testing.T) {
	blobs := mem.New()
	_, m := storeMetadata(t, blobs, S2, sampleMetadata3(8))
	check(t, Verify(t.Context(), blobs, "job/chk-7", m))
	for _, name := range m.SharedFiles("job/chk-7") {
		original, err := blobs.Get(t.Context(), name)
		check(t, err)
		damaged := append([]byte{original[0] ^ 1}, original[1:]...)
		store(t, blobs, name, damaged)
		wantErr(t, Verify(t.Context(), blobs, "job/chk-7", m), ErrChecksum)
		check(t, blobs.Delete(t.Context(), name))
		wantErr(t, Verify(t.Context(), blobs, "job/chk-7", m), storage.ErrNotFound)
		store(t, blobs, name, original)
	}
}

// upload takes a checkpoint of some files that are there already and new ones.
func upload(t *testing.T, u *Uploads, id int64, share bool, refer []string, content ...string) (*Upload, []string) {
	t.Helper()
	up := u.Begin(id, mem.New(), CheckpointDir("job", id), share)
	for _, name := range refer {
		f, ok := up.Usable(name)
		if !ok {
			t.Fatalf("checkpoint %d may not refer to %s", id, name)
		}
		up.Refer(f)
	}
	for _, c := range content {
		_, err := up.Put(t.Context(), func(w io.Writer) error { _, err := io.WriteString(w, c); return err })
		check(t, err)
	}
	up.Done()
	var names []string
	for _, f := range up.Files() {
		names = append(names, f.Name)
	}
	return up, names
}

func TestUploadsReferToTheNewestCompletedOnly(t *testing.T) {
	u := NewUploads(Writer{"L1", 2, "s", 0}, []File{{Name: "../shared/L1-a1-s-0-9"}, {Name: "s-0-a1"}})
	usable := func(want ...string) {
		t.Helper()
		var got []string
		up := u.Begin(100, mem.New(), "d", true)
		for _, name := range []string{"s-0-a1", "../shared/L1-a1-s-0-9", "../shared/L1-a2-s-0-1", "../shared/L1-a2-s-0-2", "../shared/L1-a2-s-0-3"} {
			if _, ok := up.Usable(name); ok {
				got = append(got, name[max(0, len(name)-6):])
			}
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("usable: %q, want %q", got, want)
		}
	}
	usable("-s-0-9")
	one, names := upload(t, u, 1, true, []string{"../shared/L1-a1-s-0-9"}, "new")
	if want := []string{"../shared/L1-a1-s-0-9", "../shared/L1-a2-s-0-1"}; !reflect.DeepEqual(names, want) || one.Bytes() != 3 {
		t.Errorf("files %q, %d bytes", names, one.Bytes())
	}
	usable("-s-0-9") // 1 is not completed
	_, _ = upload(t, u, 2, true, nil, "two")
	late := u.Begin(3, mem.New(), "d", true)
	u.Complete(2)
	usable("-s-0-2")
	u.Complete(1) // as if the notices came in the wrong order
	usable("-s-0-2")
	if _, ok := late.Usable("../shared/L1-a1-s-0-9"); !ok {
		t.Error("what was usable at the beginning no longer is")
	}
	whole, names := upload(t, u, 4, false, nil, "all")
	if want := []string{"s-0-a2-3"}; !reflect.DeepEqual(names, want) {
		t.Errorf("files of a savepoint %q", names)
	}
	if _, ok := whole.Usable("../shared/L1-a2-s-0-2"); ok {
		t.Error("a savepoint may refer to a shared file")
	}
	u.Complete(4)
	usable("-s-0-2")
}

func TestUploadSumsAndAbandons(t *testing.T) {
	blobs := mem.New()
	up := NewUploads(Writer{"L1", 2, "s", 0}, nil).Begin(1, blobs, "job/chk-1", true)
	f, err := up.Put(t.Context(), func(w io.Writer) error {
		_, _ = io.WriteString(w, "some")
		_, err := io.WriteString(w, "thing")
		return err
	})
	check(t, err)
	if want := (File{Name: "../shared/L1-a2-s-0-1", Size: 9, CRC: checksum([]byte("something"))}); f != want {
		t.Errorf("%+v, want %+v", f, want)
	}
	if b, err := blobs.Get(t.Context(), "job/shared/L1-a2-s-0-1"); err != nil || string(b) != "something" {
		t.Errorf("%q, %v", b, err)
	}
	broken := errors.New("broken")
	_, err = up.Put(t.Context(), func(io.Writer) error { return broken })
	wantErr(t, err, broken)
	if up.StorageFailed() {
		t.Error("the storage is said to have failed")
	}
	check(t, up.Abandon(t.Context()))
	check(t, blobs.List(t.Context(), "", func(name string, _ int64) error {
		t.Errorf("%s is still there", name)
		return nil
	}))
}
