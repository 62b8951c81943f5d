package verify

import (
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"gpubuild/buildenv/cache"
	"gpubuild/buildenv/lazyregexp"
)

// interpreter knows by its name a program that runs a script.
var interpreter = lazyregexp.New(`^(python|pypy|perl|ruby|node|julia|Rscript|bash|dash|sh|zsh)[\d.]*$`).MatchString

// script is the file that an interpreter runs: the first argument that is a file; none for `-m` and `-c`.
func (s *sampler) script(proc, exe string) string {
	if !interpreter(path.Base(exe)) {
		return ""
	}
	words, err := s.h.ReadFile(proc+"/cmdline", 1<<20)
	dir, dirErr := s.h.Files.EvalSymlinks(proc + "/cwd")
	if err != nil || dirErr != nil {
		return ""
	}
	for _, word := range strings.Split(strings.TrimSuffix(string(words), "\x00"), "\x00")[1:] {
		if word == "-m" || word == "-c" {
			return ""
		}
		if !filepath.IsAbs(word) {
			word = filepath.Join(dir, word)
		}
		if s.h.IsFile(word) {
			return word
		}
	}
	return ""
}

// Also is a file that ran next to the binary, and that a proof is of: one of a child whose kernels count, or an interpreter's script.
type Also struct {
	Path   string
	Inode  uint64 // of a child's file, as it ran; 0: not known
	Device uint64
	Script cache.Identity // of a script, when it was met first
}

// Also lists the files besides the binary that launched what counts.
func (e Evidence) Also(r Rules) (out []Also) {
	add := func(a Also) {
		if !slices.ContainsFunc(out, func(b Also) bool { return a.Path == b.Path }) {
			out = append(out, a)
		}
	}
	for _, p := range e.Processes {
		asked := r.asksFor(p)
		if p.Forked || p.Launches() == 0 || !p.Self && !asked {
			continue
		}
		if !p.Self || p.Exe != "" && e.script(p) { // a child, or the script's interpreter
			add(Also{Path: p.Exe, Inode: p.ExeInode, Device: p.ExeDevice})
		}
		for _, seen := range e.Watch.Seen {
			if seen.Pid == p.Pid && seen.Started == p.Started && seen.Script != "" && seen.Script != e.Binary {
				add(Also{Path: seen.Script, Script: seen.scriptID})
			}
		}
	}
	return out
}

// script reports whether a process of the binary itself ran it as a script.
func (e Evidence) script(p Process) bool {
	return slices.ContainsFunc(e.Watch.Seen, func(s Seen) bool { return s.Pid == p.Pid && s.Started == p.Started && s.Script == e.Binary })
}

// treeShown is how many branches of the tree of processes are shown.
const treeShown = 4

// tree lists the processes that were seen, each branch from the program to one that started nothing or used the GPU; empty: there was one.
func (e Evidence) tree() string {
	parents, byPid, all := map[int]bool{}, map[int]Seen{}, slices.Clone(e.Watch.Seen)
	for _, p := range all {
		parents[p.Parent], byPid[p.Pid] = true, p
	}
	launches := map[processID]uint64{}
	for _, p := range e.Processes {
		if !p.Forked {
			launches[processID{p.Pid, p.Started}] += p.Launches()
			for i, seen := range all { // the look may have been before it became this program
				if seen.Pid == p.Pid && seen.Started == p.Started && seen.Exe != p.Exe && p.Exe != "" {
					all[i].Exe, all[i].Script = p.Exe, ""
					byPid[p.Pid] = all[i]
				}
			}
			if _, met := byPid[p.Pid]; !met { // it lived too short to be looked at
				all = append(all, Seen{Pid: p.Pid, Started: p.Started, Exe: p.Exe})
			}
		}
	}
	name := func(p Seen) string {
		out := path.Base(p.Exe)
		if p.Script != "" {
			out += " " + path.Base(p.Script)
		}
		if n := launches[processID{p.Pid, p.Started}]; n > 0 {
			out += " (" + launchesText(n) + ")"
		}
		return out
	}
	var branches []string
	for _, p := range all {
		if p.Exe == "" || parents[p.Pid] && launches[processID{p.Pid, p.Started}] == 0 {
			continue
		}
		branch := name(p)
		for up, known := byPid[p.Parent]; known && len(branch) < 200; up, known = byPid[up.Parent] {
			branch = name(up) + " > " + branch
		}
		if !slices.Contains(branches, branch) {
			branches = append(branches, branch)
		}
	}
	slices.SortStableFunc(branches, func(a, b string) int { // those that used the GPU first
		return strings.Count(b, "launch") - strings.Count(a, "launch")
	})
	if len(all) < 2 || len(branches) == 0 {
		return ""
	}
	if more := len(branches) - treeShown; more > 0 {
		branches = append(branches[:treeShown], "and "+strconv.Itoa(more)+" more")
	}
	return fmt.Sprintf("processes: %s", strings.Join(branches, "; "))
}
