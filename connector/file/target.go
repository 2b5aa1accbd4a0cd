package file

import (
	"fmt"
	"path"
	"path/filepath"
	"strings"

	"github.com/weirstream/weir/connector"
)

// target is what a path, directory or pattern asks for.
type target struct {
	where string
	// dir is the part of it without wildcards.
	dir string
	// elems are the elements behind dir; none: everything.
	elems []string
}

// newTarget understands where: the elements of a pattern are those of
// path.Match, and "**", which stands for any number of directories.
func newTarget(where string) (target, error) {
	if where == "" {
		return target{}, invalid("file source: an empty path; name a file, a directory or a pattern")
	}
	clean := path.Clean(filepath.ToSlash(where))
	t := target{where: where, dir: clean}
	elems := strings.Split(clean, "/")
	for i, e := range elems {
		if !strings.ContainsAny(e, `*?[\`) {
			continue
		}
		t.dir, t.elems = strings.Join(elems[:i], "/"), elems[i:]
		switch {
		case i == 0:
			t.dir = "."
		case t.dir == "":
			t.dir = "/"
		}
		break
	}
	for _, e := range t.elems {
		if _, err := path.Match(e, ""); err != nil {
			return target{}, connector.Fatal(fmt.Errorf("file source: pattern %q: %w", where, err))
		}
	}
	return t, nil
}

// deep says whether directories below dir are to be listed.
func (t target) deep() bool {
	return len(t.elems) != 1 || t.elems[0] == "**"
}

// matches says whether a listed path is asked for.
func (t target) matches(listed string) bool {
	listed = path.Clean(filepath.ToSlash(listed))
	if listed == t.dir { // a file by its name
		return len(t.elems) == 0
	}
	rel := listed
	if t.dir != "." {
		rel = strings.TrimPrefix(strings.TrimPrefix(listed, t.dir), "/")
	}
	elems := t.elems
	if len(elems) == 0 {
		elems = []string{"**"}
	}
	return match(elems, strings.Split(rel, "/"))
}

// match matches names against the elements of a pattern. A wildcard does not
// stand for names that are hidden.
func match(elems, names []string) bool {
	for len(elems) > 0 {
		if elems[0] == "**" {
			if len(elems) == 1 {
				return len(names) > 0 && !anyHidden(names)
			}
			for i := range names {
				if match(elems[1:], names[i:]) {
					return true
				}
				if hidden(names[i]) {
					return false
				}
			}
			return false
		}
		if len(names) == 0 || hidden(names[0]) && !hidden(elems[0]) {
			return false
		}
		if ok, err := path.Match(elems[0], names[0]); !ok || err != nil {
			return false
		}
		elems, names = elems[1:], names[1:]
	}
	return len(names) == 0
}

// hidden says whether a name is one of those that are, by custom, not data.
func hidden(name string) bool { return name[:min(1, len(name))] == "." || strings.HasPrefix(name, "_") }

func anyHidden(names []string) bool {
	for _, n := range names {
		if hidden(n) {
			return true
		}
	}
	return false
}
