// Package location is about the places of storages as users name them: by a
// directory, or by a URL.
package location

import (
	"fmt"
	"net/url"
	"path"
	"path/filepath"
	"strings"
)

const fileScheme = "file://"

// IsURL reports whether where is a URL of a storage and no directory.
func IsURL(where string) bool {
	scheme, _, ok := strings.Cut(where, "://")
	return ok && scheme != "file" && scheme != "" && !strings.ContainsAny(scheme, "/.")
}

// Settle brings where into the form in which the ledger has it: directories are
// absolute, URLs have no slash at the end unless nothing stands before it.
func Settle(where string) (string, error) {
	if IsURL(where) {
		u, err := parse(where)
		if err != nil {
			return "", err
		}
		return u.String(), nil
	}
	return filepath.Abs(strings.TrimPrefix(where, fileScheme))
}

// parse parses a URL of a storage. A password in it would be seen in logs.
func parse(where string) (*url.URL, error) {
	u, err := url.Parse(where) // hdfs:///weir is on the file system that is configured
	switch {
	case err != nil:
		return nil, fmt.Errorf("%q is no URL of a storage: it is written as in s3://bucket/weir", withoutQuery(where))
	case u.Host == "" && u.Scheme != "hdfs" || u.Opaque != "" || u.Fragment != "":
		return nil, fmt.Errorf("%s is no URL of a storage: it is written as in s3://bucket/weir", withoutQuery(u.Redacted()))
	}
	if _, set := u.User.Password(); set {
		return nil, fmt.Errorf("%s holds a password: leave it out, credentials come from where the storage usually has them", withoutQuery(u.Redacted()))
	}
	setPath(u, path.Clean("/"+u.Path))
	return u, nil
}

// setPath leaves out the slash of an empty path, but where no host stands before
// it: what is joined to that would become the host.
func setPath(u *url.URL, p string) {
	if p == "/" && u.Host != "" {
		p = ""
	}
	u.Path, u.RawPath = p, ""
}

func withoutQuery(where string) string {
	where, _, _ = strings.Cut(where, "?")
	return where
}

// Join puts names below a directory or URL; the parameters of the latter stay
// out.
func Join(base string, names ...string) string {
	if !IsURL(base) {
		return path.Join(append([]string{base}, names...)...)
	}
	base = withoutQuery(base)
	scheme, rest, _ := strings.Cut(base, "://")
	return scheme + "://" + path.Join(append([]string{rest}, names...)...)
}

// Split divides a directory or URL, as Settle returns it, into its parent and
// its name there; the parameters of a URL go with the parent.
func Split(where string) (parent, name string, err error) {
	if !IsURL(where) {
		return filepath.Dir(where), filepath.Base(where), nil
	}
	u, err := parse(where)
	if err != nil {
		return "", "", err
	}
	if u.Path == "" || u.Path == "/" {
		return "", "", fmt.Errorf("%s names a whole storage: add the name of a directory in it", withoutQuery(where))
	}
	name = path.Base(u.Path)
	setPath(u, path.Dir(u.Path))
	return u.String(), name, nil
}
