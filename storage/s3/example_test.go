package s3_test

import (
	"os"

	"github.com/weirstream/weir/connector/console"
	"github.com/weirstream/weir/connector/datagen"
	"github.com/weirstream/weir/runner"
	"github.com/weirstream/weir/storage/s3"
	"github.com/weirstream/weir/stream"
)

// A job that takes s3:// wherever it takes a directory.
func ExampleStorage() {
	build := func(job *stream.Job) {
		numbers := stream.From(job, "numbers", datagen.Source(1_000_000, func(i int64) int64 { return i }))
		stream.To(numbers, "out", console.Sink[int64](os.Stdout, ""))
	}
	runner.Main("numbers", build, runner.WithStorage(s3.Storage()))
}
