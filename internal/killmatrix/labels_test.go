//go:build unix

package killmatrix

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weirstream/weir/internal/killpoint"
)

// The places where jobs are killed and paused must be in the code, and the
// page that tells of them must count them right.
func TestPlacesAreLabels(t *testing.T) {
	labels := killpoint.Labels()
	seen := map[blow]bool{}
	paused := 0
	for _, b := range append(blows(), pauses()...) {
		if b.label != "" && !slices.Contains(labels, b.label) {
			t.Errorf("there is no label %q", b.label)
		}
	}
	for _, b := range pauses() {
		switch {
		case b.label == "":
		case seen[b]:
			t.Errorf("%v is in the list twice", b)
		default:
			seen[b] = true
			paused++
		}
	}
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "kill-matrix.md"))
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("(SIGSTOP) at %d points,", paused); !strings.Contains(string(page), want) {
		t.Errorf("docs/kill-matrix.md does not say %q", want)
	}
}
