package codec

// skip checks the value at position i, which no field wants, as strictly as
// encoding/json, and returns the position behind it; 0 where it gives up.
func skip(src []byte, i, depth int) int {
	if i >= len(src) || depth == 0 {
		return 0
	}
	switch src[i] {
	case '"':
		return skipText(src, i+1)
	case '{':
		return skipObject(src, i, depth)
	case '[':
		return skipArray(src, i, depth)
	case 't':
		return literal(src, i, "true")
	case 'f':
		return literal(src, i, "false")
	case 'n':
		return literal(src, i, "null")
	default:
		return number(src, i)
	}
}

func skipObject(src []byte, i, depth int) int {
	if i = space(src, i+1); i < len(src) && src[i] == '}' {
		return i + 1
	}
	for {
		if i >= len(src) || src[i] != '"' {
			return 0
		}
		if i = skipText(src, i+1); i == 0 {
			return 0
		}
		if i = space(src, i); i >= len(src) || src[i] != ':' {
			return 0
		}
		if i = skip(src, space(src, i+1), depth-1); i == 0 {
			return 0
		}
		var more bool
		if i, more = behind(src, i, '}'); !more {
			return i
		}
	}
}

func skipArray(src []byte, i, depth int) int {
	if i = space(src, i+1); i < len(src) && src[i] == ']' {
		return i + 1
	}
	for {
		if i = skip(src, i, depth-1); i == 0 {
			return 0
		}
		var more bool
		if i, more = behind(src, i, ']'); !more {
			return i
		}
	}
}

// behind goes on from the end of a member or element: to the next one if there
// is more, or else behind the closing bracket.
func behind(src []byte, i int, closing byte) (at int, more bool) {
	i = space(src, i)
	switch {
	case i >= len(src):
		return 0, false
	case src[i] == closing:
		return i + 1, false
	case src[i] != ',':
		return 0, false
	}
	return space(src, i+1), true
}

// skipText returns the position behind the quote that ends a string.
func skipText(src []byte, i int) int {
	if end, _ := scanText(src, i); end > 0 {
		return end + 1
	}
	for i < len(src) {
		switch c := src[i]; {
		case c == '"':
			return i + 1
		case c == '\\':
			n := escape(src[i+1:])
			if n == 0 {
				return 0
			}
			i += n
		case c < ' ':
			return 0
		}
		i++
	}
	return 0
}

// escape returns the length of what follows a backslash, 0 if it is no escape.
func escape(src []byte) int {
	if len(src) == 0 {
		return 0
	}
	switch src[0] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 1
	case 'u':
		if len(src) < 5 {
			return 0
		}
		for _, c := range src[1:5] {
			if c-'0' > 9 && (c|0x20)-'a' > 5 {
				return 0
			}
		}
		return 5
	}
	return 0
}

// number returns the position behind a number.
func number(src []byte, i int) int {
	if i < len(src) && src[i] == '-' {
		i++
	}
	begin := i
	if i = run(src, i); i == begin || src[begin] == '0' && i-begin > 1 {
		return 0
	}
	if i < len(src) && src[i] == '.' {
		if begin, i = i+1, run(src, i+1); i == begin {
			return 0
		}
	}
	if i < len(src) && src[i]|0x20 == 'e' {
		if i++; i < len(src) && (src[i] == '+' || src[i] == '-') {
			i++
		}
		if begin, i = i, run(src, i); i == begin {
			return 0
		}
	}
	return i
}

// run returns the position behind a run of digits.
func run(src []byte, i int) int {
	for i < len(src) && src[i]-'0' <= 9 {
		i++
	}
	return i
}
