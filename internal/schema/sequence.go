package schema

import "fmt"

// isSequence tells whether values are elements in a row.
func isSequence(n *Node) bool { return n.Kind == List || n.Kind == Array }

// sequence converts lists and arrays. An array of Go is a list with Avro.
func (c *compiler) sequence(w, r *Node, path string, fresh []byte) step {
	if w.Kind == Array && r.Kind == Array && w.Size != r.Size {
		return c.differ(path, w, r)
	}
	var part []byte
	if fresh != nil && r.Size > 0 {
		part = fresh[:len(fresh)/r.Size]
	}
	elem := c.value(w.Elem, r.Elem, path+"[]", part)
	if elem == nil {
		return nil
	}
	from, to := c.from, c.to
	return func(dst, src []byte) ([]byte, []byte, error) {
		// The number of elements comes first, and is not known before the last.
		var all []byte
		if !to {
			all = dst
		}
		n := 0
		rest, err := each(from, w, src, func(src []byte) (rest []byte, err error) {
			n++
			all, rest, err = elem(all, src)
			return rest, err
		})
		if err != nil {
			return nil, nil, err
		}
		if want := max(r.Size, r.length); (r.Kind == Array || r.length > 0) && n != want {
			return nil, nil, fmt.Errorf("%s: %d elements where an array has %d", name(path), n, want)
		}
		if !to {
			return all, rest, nil
		}
		return appendBlock(dst, n, all), rest, nil
	}
}

func (c *compiler) mapping(w, r *Node, path string) step {
	elem := c.value(w.Elem, r.Elem, path+"[]", nil)
	if elem == nil {
		return nil
	}
	return func(dst, src []byte) ([]byte, []byte, error) {
		var all []byte
		n := 0
		rest, err := each(true, w, src, func(src []byte) ([]byte, error) {
			n++
			key, rest, err := cutBytes(src)
			if err != nil {
				return nil, err
			}
			all = append(appendLong(all, int64(len(key))), key...)
			all, rest, err = elem(all, rest)
			return rest, err
		})
		if err != nil {
			return nil, nil, err
		}
		return appendBlock(dst, n, all), rest, nil
	}
}

// appendBlock appends elements as Avro does: a block with their number, and the
// end.
func appendBlock(dst []byte, n int, all []byte) []byte {
	if n > 0 {
		dst = append(appendLong(dst, int64(n)), all...)
	}
	return append(dst, 0)
}

// maxEmpty bounds the number of elements that take no bytes.
const maxEmpty = 1 << 16

// each calls fn for the elements of a sequence at the front of src; fn returns
// what follows the element.
func each(avro bool, n *Node, src []byte, fn func(src []byte) ([]byte, error)) (rest []byte, err error) {
	if !avro {
		for range n.Size {
			if src, err = fn(src); err != nil {
				return nil, err
			}
		}
		return src, nil
	}
	for {
		count, after, err := cutLong(src)
		if err != nil {
			return nil, err
		}
		src = after
		if count == 0 {
			return src, nil
		}
		if count < 0 { // the number of bytes follows
			count = -count
			if _, src, err = cutLong(src); err != nil {
				return nil, err
			}
		}
		if count < 0 || count > int64(len(src))+maxEmpty {
			return nil, errSize
		}
		for range count {
			if src, err = fn(src); err != nil {
				return nil, err
			}
		}
	}
}

// skip returns what follows the value at the front of src.
func skip(avro bool, n *Node, src []byte) (rest []byte, err error) {
	if !avro {
		size := fixedSize(n)
		if !sized(n) {
			size = len(src)
		}
		if size > len(src) {
			return nil, errSize
		}
		return src[size:], nil
	}
	switch n.Kind {
	case Small, Long, Uint64:
		_, rest, err = cutLong(src)
	case String, Bytes:
		_, rest, err = cutBytes(src)
	case List:
		rest, err = each(true, n, src, func(src []byte) ([]byte, error) { return skip(true, n.Elem, src) })
	case Map:
		rest, err = each(true, n, src, func(src []byte) ([]byte, error) {
			_, src, err := cutBytes(src)
			if err != nil {
				return nil, err
			}
			return skip(true, n.Elem, src)
		})
	case Record:
		rest = src
		for i := range n.Fields {
			if rest, err = skip(true, n.Fields[i].Type, rest); err != nil {
				return nil, err
			}
		}
	case Optional, Union:
		rest, err = skipBranch(n, src)
	case Null:
		return src, nil
	case Opaque:
		return nil, errSize
	default: // of a fixed size
		if size := fixedSize(n); size <= len(src) {
			return src[size:], nil
		}
		err = errSize
	}
	return rest, err
}

func skipBranch(n *Node, src []byte) ([]byte, error) {
	i, src, err := cutLong(src)
	if err != nil {
		return nil, err
	}
	if n.Kind == Optional {
		switch i {
		case int64(n.nullAt):
			return src, nil
		case int64(1 - n.nullAt):
			return skip(true, n.Elem, src)
		}
		return nil, errSize
	}
	if i < 0 || i >= int64(len(n.Branches)) {
		return nil, errSize
	}
	return skip(true, n.Branches[i], src)
}
