package verify

import (
	"path"
	"slices"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/lazyregexp"
	"gpubuild/gpu/probe"
)

// interpreter knows by its name a program that runs a script.
var interpreter = lazyregexp.New(`^(python|pypy|perl|ruby|node|julia|Rscript|bash|dash|sh|zsh)[\d.]*$`).MatchString

// script is what an interpreter runs: of the words that it was started with the first that is a file, from dir where it is relative, or
// the `-m` or `-c` before it; nothing where the words do not say it, as of a program that has changed its title.
func script(h buildenv.Host, p probe.Process, dir string) string {
	if !interpreter(path.Base(p.Exe)) {
		return ""
	}
	for _, word := range p.Words {
		if word == "-m" || word == "-c" {
			return word
		}
		if file := h.From(dir, word); h.IsFile(file) {
			return file
		}
	}
	return ""
}

// Also is a file that ran next to the binary, and that a proof is of: one of a child whose kernels count, or an interpreter's script.
type Also struct {
	Path   string
	Inode  uint64 // of a child's file, as it ran; 0: not known
	Device uint64
	Since  int64 // of a script: when the process that runs it began to record, in ns since 1970
}

// Also lists the files besides the binary that launched what counts.
func (e Evidence) Also(r Rules) (out []Also) {
	add := func(a Also) {
		if !slices.ContainsFunc(out, func(b Also) bool { return a.Path == b.Path }) {
			out = append(out, a)
		}
	}
	for _, p := range e.Processes {
		if p.Forked || p.Launches() == 0 || !p.Self && !r.asksFor(p) {
			continue
		}
		if !p.Self || p.Script == e.Binary { // a child, or the script's interpreter
			add(Also{Path: p.Exe, Inode: p.ExeInode, Device: p.ExeDevice})
		}
		if p.Script != "" && p.Script != e.Binary && !strings.HasPrefix(p.Script, "-") {
			add(Also{Path: p.Script, Since: p.Time})
		}
	}
	return out
}
