module github.com/weirstream/weir/bench

go 1.26.0

require github.com/weirstream/weir v0.0.0

replace github.com/weirstream/weir => ../
