package source

import "gpubuild/buildenv"

// Reader reads the sources and build scripts of packages, each once.
type Reader struct {
	h     buildenv.Host
	root  string // of the workspace; empty: none
	calls map[string]scriptText
	plain map[string]*string // files without comments; nil: one cannot be read

	listed map[string]map[string]bool // see list
}

// NewReader prepares reading; root is the workspace's directory.
func NewReader(h buildenv.Host, root string) *Reader {
	return &Reader{h: h, root: root, calls: map[string]scriptText{},
		plain: map[string]*string{}, listed: map[string]map[string]bool{}}
}
