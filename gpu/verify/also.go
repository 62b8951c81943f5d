package verify

import (
	"path"
	"slices"

	"gpubuild/buildenv"
	"gpubuild/buildenv/lazyregexp"
	"gpubuild/gpu/probe"
)

// interpreter knows by its name a program that runs a script.
var interpreter = lazyregexp.New(`^(python|pypy|perl|ruby|node|julia|Rscript|bash|dash|sh|zsh)[\d.]*$`).MatchString

// bare are options of interpreters without a value.
var bare = lazyregexp.New(`^-[uBOsSPqvxw]+$`).MatchString

// script is the file that an interpreter runs: of the words that it was started with the first behind options without a value. A relative
// one is known only of a process that is still in dir, where gpubuild started the program: it may have been another file elsewhere.
// Nothing where that is not known: `-m`, `-c`, options with values, a title that the program gave itself.
func script(h buildenv.Host, p probe.Process, dir string) string {
	if !interpreter(path.Base(p.Exe)) {
		return ""
	}
	i := slices.IndexFunc(p.Words, func(w string) bool { return !bare(w) })
	if i < 0 || !h.IsAbs(p.Words[i]) && p.Dir != h.Real(dir) {
		return ""
	}
	if file := h.From(dir, p.Words[i]); h.IsFile(file) {
		return file
	}
	return ""
}

// Script is the file that the program runs if it is an interpreter and that is known.
func (o Options) Script(h buildenv.Host) string {
	dir := h.Real(h.Abs(o.Dir))
	return script(h, probe.Process{Identity: probe.Identity{Exe: h.Real(o.Binary)}, Words: o.Args, Dir: dir}, dir)
}

// UsedFile is a file that ran next to the binary, and that a proof is of: one of a child whose kernels count, or an interpreter's script.
type UsedFile struct {
	Path   string
	Inode  uint64 // of a child's file, as it ran; 0: not known
	Device uint64
}

// UsedFiles lists the files besides the binary that launched what counts, and the script that it was started with.
func (e Evidence) UsedFiles(r Rules, script string) (out []UsedFile) {
	add := func(a UsedFile) {
		if !slices.ContainsFunc(out, func(b UsedFile) bool { return a.Path == b.Path }) {
			out = append(out, a)
		}
	}
	for _, p := range e.Processes {
		if p.Forked || p.Launches() == 0 || !p.Self && !r.asksFor(p) {
			continue
		}
		if !p.Self || p.Script == e.Binary { // a child, or the script's interpreter
			add(UsedFile{Path: p.Exe, Inode: p.ExeInode, Device: p.ExeDevice})
		}
		if p.Script != "" && p.Script != e.Binary {
			add(UsedFile{Path: p.Script})
		}
	}
	if script != "" {
		add(UsedFile{Path: script})
	}
	return out
}
