package command

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/savepoint"
)

// rowsPerGroup bounds what the writer of Parquet holds in memory.
const rowsPerGroup = 50_000

// parquetFile writes entries as Parquet: scalars as their own types, times as
// timestamps of milliseconds, everything else as JSON.
type parquetFile struct {
	w *parquet.GenericWriter[any]
	// at are the positions of the columns, which Parquet sorts by name.
	at   []int
	make []func(v any) (parquet.Value, error)
	rows int
}

func newParquet(w io.Writer, columns []column) rowWriter {
	f := &parquetFile{at: make([]int, len(columns)), make: make([]func(any) (parquet.Value, error), len(columns))}
	group := parquet.Group{}
	var names []string
	for i, c := range columns {
		var node parquet.Node
		node, f.make[i] = nodeOf(c.format)
		group[c.name] = parquet.Optional(node)
		names = append(names, c.name)
	}
	slices.Sort(names)
	for i, c := range columns {
		f.at[i] = slices.Index(names, c.name)
	}
	f.w = parquet.NewGenericWriter[any](w, parquet.NewSchema("entries", group), parquet.Compression(&parquet.Zstd))
	return f
}

func (f *parquetFile) write(row []any) error {
	out := make(parquet.Row, len(row))
	for i, v := range row {
		at := f.at[i]
		if t, ok := v.(time.Time); v == nil || ok && t.IsZero() {
			out[at] = parquet.NullValue().Level(0, 0, at)
			continue
		}
		value, err := f.make[i](v)
		if err != nil {
			return err
		}
		out[at] = value.Level(0, 1, at)
	}
	if _, err := f.w.WriteRows([]parquet.Row{out}); err != nil {
		return err
	}
	if f.rows++; f.rows%rowsPerGroup == 0 {
		return f.w.Flush()
	}
	return nil
}

func (f *parquetFile) close() error { return f.w.Close() }

// nodeOf is the type of a column, and what makes values of it.
func nodeOf(f codec.Format) (parquet.Node, func(any) (parquet.Value, error)) {
	switch f.ID {
	case "bool":
		return parquet.Leaf(parquet.BooleanType), as(func(v bool) parquet.Value { return parquet.BooleanValue(v) })
	case "int8":
		return parquet.Int(8), as(func(v int8) parquet.Value { return parquet.Int32Value(int32(v)) })
	case "int16":
		return parquet.Int(16), as(func(v int16) parquet.Value { return parquet.Int32Value(int32(v)) })
	case "int32":
		return parquet.Int(32), as(func(v int32) parquet.Value { return parquet.Int32Value(v) })
	case "int64":
		return parquet.Int(64), as(func(v int64) parquet.Value { return parquet.Int64Value(v) })
	case "uint8":
		return parquet.Uint(8), as(func(v uint8) parquet.Value { return parquet.Int32Value(int32(v)) })
	case "uint16":
		return parquet.Uint(16), as(func(v uint16) parquet.Value { return parquet.Int32Value(int32(v)) })
	case "uint32":
		return parquet.Uint(32), as(func(v uint32) parquet.Value { return parquet.Int32Value(int32(v)) })
	case "uint64":
		return parquet.Uint(64), as(func(v uint64) parquet.Value { return parquet.Int64Value(int64(v)) })
	case "float32":
		return parquet.Leaf(parquet.FloatType), as(func(v float32) parquet.Value { return parquet.FloatValue(v) })
	case "float64":
		return parquet.Leaf(parquet.DoubleType), as(func(v float64) parquet.Value { return parquet.DoubleValue(v) })
	case "string", "text":
		return parquet.String(), as(func(v string) parquet.Value { return parquet.ByteArrayValue([]byte(v)) })
	case "bytes", "binary", "fixed", "raw":
		return parquet.Leaf(parquet.ByteArrayType), as(func(v []byte) parquet.Value { return parquet.ByteArrayValue(v) })
	case "time":
		return parquet.Timestamp(parquet.Microsecond), as(func(v time.Time) parquet.Value { return parquet.Int64Value(v.UnixMicro()) })
	}
	return parquet.JSON(), func(v any) (parquet.Value, error) {
		b, err := json.Marshal(codec.JSONValue(v))
		return parquet.ByteArrayValue(b), err
	}
}

// as makes values of what is a T, as the format of the column says.
func as[T any](to func(T) parquet.Value) func(any) (parquet.Value, error) {
	return func(v any) (parquet.Value, error) {
		if t, ok := v.(T); ok {
			return to(t), nil
		}
		if u, ok := v.(savepoint.Undecoded); ok {
			return parquet.Value{}, fmt.Errorf("a value is not of its format %s: %s; run weir verify", u.Format.ID, u.Err)
		}
		return parquet.Value{}, fmt.Errorf("a value is a %T, not of the type of its column", v)
	}
}
