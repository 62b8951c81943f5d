package toolchain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"gpubuild/buildenv"
)

// most is how many characters of PATH a build is given on Windows. nvcc starts cl.exe and every other program through cmd.exe, and
// cmd.exe hands on no variable of more than 8191 characters ("Command prompt line string limitation", Microsoft, KB 830473): with a
// longer PATH cl.exe is found by nobody, wherever it stands in it (seen with nvcc.exe 13.4.92 under Wine, from 7900 on). The rest is for
// what cargo and nvcc put before it.
const most = 7000

const fromEnd = "from its end "

// LeftOut says which existing directories were taken out of PATH because it was too long; empty if none was.
func LeftOut(d buildenv.Delta) string {
	for _, c := range d.Changes {
		if c.Op == buildenv.Set && strings.EqualFold(c.Name, "PATH") && strings.Contains(c.Reason, fromEnd) {
			return c.Reason
		}
	}
	return ""
}

// shorten takes out of a PATH that is too long what does not exist, and then, from its end, what no tool of a build lies in.
func (e *writer) shorten(n Needs) {
	h := e.h
	if h.OS != buildenv.Windows || !n.NVCC {
		return
	}
	env := h.Apply(h.Env, e.d)
	size := func(list []string) int { return utf8.RuneCountInString(h.JoinList(list...)) }
	value := env.Get("PATH")
	if utf8.RuneCountInString(value) <= most {
		return
	}
	var list []string
	gone := 0
	for _, dir := range h.SplitList(value) {
		switch {
		case !h.IsAbs(dir) || !h.IsDir(dir):
			gone++
		case strings.Contains(dir, ";"):
			list = append(list, `"`+dir+`"`)
		default:
			list = append(list, dir)
		}
	}
	kept := e.kept(env.Set("PATH", h.JoinList(list...)))
	var dropped []string
	for i := len(list) - 1; i >= 0 && size(list) > most; i-- {
		if !slices.ContainsFunc(kept, func(dir string) bool { return h.Below(list[i], dir) }) {
			dropped = append(dropped, list[i])
			list = slices.Delete(list, i, i+1)
		}
	}
	slices.Reverse(dropped)
	var out []string
	switch {
	case gone == 1:
		out = append(out, "1 directory that does not exist")
	case gone > 1:
		out = append(out, fmt.Sprintf("%d directories that do not exist", gone))
	}
	if len(dropped) > 0 {
		out = append(out, fromEnd+h.JoinList(dropped...))
	}
	reason := fmt.Sprintf(
		"PATH would have %d characters, and nvcc starts cl.exe through cmd.exe, which hands on no more than 8191; left out for "+
			"the build: %s",
		utf8.RuneCountInString(value), strings.Join(out, ", and "),
	)
	e.d.Add(buildenv.Set, "PATH", h.JoinList(list...), reason)
}

// kept lists what must stay in PATH: Windows' own directories, what was just
// put there, and where the first of each tool lies that builds call.
func (e *writer) kept(env buildenv.Env) []string {
	h := e.h
	out := []string{cmp.Or(env.Get("SystemRoot"), `C:\Windows`)}
	for _, c := range e.d.Changes {
		if strings.EqualFold(c.Name, "PATH") {
			out = append(out, c.Value)
		}
	}
	h.Env = env
	for _, tool := range []string{
		"cargo", "rustc", "rustup", "cmake", "ninja", "git", "python", "perl", "clang", "nasm", "protoc", "nvidia-smi",
	} {
		if first, err := h.LookPath(tool); err == nil {
			out = append(out, h.Dir(first))
		}
	}
	return out
}
