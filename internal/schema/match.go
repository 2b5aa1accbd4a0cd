package schema

import "strings"

// source is where a field of the wanted record lies in the stored one: at a path
// of indices, or in its place if whole; nowhere if there is no path.
type source struct {
	path  []int
	whole bool
}

func (s source) known() bool { return s.whole || len(s.path) > 0 }

// match finds the stored field for each field of the wanted record: by name,
// else by its other names; then those that embedded structs hold. dropped are
// the stored fields that none is made of.
func match(stored, wanted *Node) (sources []source, dropped []string) {
	taken := make([]bool, len(stored.Fields))
	sources = make([]source, len(wanted.Fields))
	take := func(i int, name string) bool {
		for at := range stored.Fields {
			if stored.Fields[at].Name == name && !taken[at] {
				taken[at], sources[i] = true, source{path: []int{at}}
				return true
			}
		}
		return false
	}
	for i := range wanted.Fields {
		take(i, wanted.Fields[i].Name)
	}
	for i := range wanted.Fields {
		for _, alias := range wanted.Fields[i].aliases {
			if sources[i].known() || take(i, alias) {
				break
			}
		}
	}
	for i := range wanted.Fields {
		if !sources[i].known() {
			sources[i] = nested(stored, &wanted.Fields[i], taken)
		}
	}
	for i, ok := range taken {
		if !ok {
			dropped = append(dropped, stored.Fields[i].Name)
		}
	}
	return sources, dropped
}

// nested finds a field that one of the forms has in an embedded struct and the
// other has not.
func nested(stored *Node, f *Field, taken []bool) source {
	if f.embedded && f.Type.Kind == Record {
		inner, _ := match(stored, f.Type)
		found := false
		for _, s := range inner {
			if len(s.path) > 0 {
				taken[s.path[0]], found = true, true
			}
		}
		return source{whole: found}
	}
	var path []int
	at := stored
	for _, name := range append(f.outer[:len(f.outer):len(f.outer)], f.Name) {
		i := at.indexOf(name)
		if i < 0 || len(f.outer) == 0 {
			return source{}
		}
		path = append(path, i)
		at = at.Fields[i].Type
	}
	taken[path[0]] = true
	return source{path: path}
}

func (n *Node) indexOf(name string) int {
	if n.Kind == Record {
		for i := range n.Fields {
			if n.Fields[i].Name == name {
				return i
			}
		}
	}
	return -1
}

// likely is a dropped field whose name differs from that of a new one by its
// case only: most likely the same, exported by now.
func likely(name string, dropped []string) string {
	for _, d := range dropped {
		if strings.EqualFold(d, name) {
			return d
		}
	}
	return ""
}
