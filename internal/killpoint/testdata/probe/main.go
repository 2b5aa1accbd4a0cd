// Command probe comes to four kill points and writes "+" to its standard error
// behind them.
package main

import (
	"os"
	"runtime"

	"github.com/weirstream/weir/internal/killpoint"
)

func main() {
	// Signals for the process go to its first thread if they can: what comes to
	// the points is another one.
	runtime.LockOSThread()
	done := make(chan struct{})
	go func() {
		defer close(done)
		killpoint.Reach("start.begin")
		killpoint.ReachKind("ledger.append", "claim")
		killpoint.ReachFile("file.synced", "job/chk-1/_metadata")
		killpoint.Tear("file.torn", "job/ledger/0000000001", os.Stderr)
		_, _ = os.Stderr.WriteString("+")
	}()
	<-done
}
