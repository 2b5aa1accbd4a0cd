// Command probe comes to a kill point and does nothing else.
package main

import (
	"os"

	"github.com/weirstream/weir/internal/killpoint"
)

func main() {
	killpoint.Reach("probe.plain")
	killpoint.ReachKind("probe.kind", "claim")
	killpoint.ReachFile("probe.file", "job/chk-1/_metadata")
	killpoint.Tear("probe.torn", "job/ledger/0000000001", os.Stderr)
}
