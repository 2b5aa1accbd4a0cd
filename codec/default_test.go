package codec

import (
	"strings"
	"testing"
)

// Where the default is JSON a tag for Avro would be passed over, and the value of
// a renamed field lost.
func TestForRefusesTagsThatHaveNoEffect(t *testing.T) {
	type renamed struct {
		By  map[int]string
		New int `avro:"New,alias=Old"`
	}
	type preset struct {
		In  pair[string, int]
		New int `avro:"New,default=7"`
	}
	type plain struct {
		By map[int]string
		N  int `avro:"n"`
	}
	type within struct{ In []renamed }
	refused := func(_ any, err error, parts ...string) {
		t.Helper()
		for _, part := range parts {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("%v does not say %q", err, part)
			}
		}
	}
	a, err := For[renamed]()
	refused(a, err, `renamed.New has the tag avro:"New,alias=Old"`, "stored as JSON", "By is a map whose keys are not strings", `json:"Old"`)
	b, err := For[preset]()
	refused(b, err, `preset.New has the tag avro:"New,default=7"`, "In is a struct without a plain name")
	c, err := For[within]()
	refused(c, err, `New has the tag avro:"New,alias=Old"`)
	if c, err := For[plain](); err != nil || c.Format().ID != "json" {
		t.Errorf("a name alone: %v", err)
	}
}
