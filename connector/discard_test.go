package connector

import "testing"

func TestDiscard(t *testing.T) {
	s := Discard[int]()
	if d := s.Delivery(); d != None {
		t.Errorf("delivery %v, want none", d)
	}
	w, err := s.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write([]int{1}, []int64{1}); err != nil {
		t.Error(err)
	}
	if cs, err := w.PreCommit(1); err != nil || len(cs) != 0 {
		t.Errorf("pre-commit returned %v, %v; want nothing", cs, err)
	}
	if c, err := s.NewCommitter(nil); c != nil || err != nil {
		t.Errorf("committer %v, %v; want none", c, err)
	}
	if _, err := s.CommittableCodec().Decode([]byte{1}); err == nil {
		t.Error("a committable was decoded where there can be none")
	}
}
