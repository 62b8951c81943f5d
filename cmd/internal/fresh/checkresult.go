package fresh

import (
	"context"
	"fmt"
	"slices"

	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/stale"
)

// fresh says whether code was made in this very run, so that cleaning would bring the same again: the package was cleaned or had
// never been built, or each of the files was written since cargo started.
func (s *State) fresh(f *mistake) bool {
	if f.linked != "" {
		return s.cleaned[f.unit.Name]
	}
	if s.cleaned[f.unit.Name] || s.before[s.host.Clean(f.outDir)] == 0 {
		return true
	}
	for _, path := range f.paths {
		fi, err := s.host.Files.Stat(path)
		if err != nil || fi.ModTime().UnixNano() < s.began {
			return false
		}
	}
	return len(f.paths) > 0
}

// leftovers lists the packages whose code is not what was asked for and may be left from an earlier build.
func (s *State) leftovers(list []*mistake) []string {
	var out []string
	for _, f := range list {
		if _, known := s.accepted(f); !known && !s.fresh(f) && !slices.Contains(out, f.unit.Name) {
			out = append(out, f.unit.Name)
		}
	}
	return out
}

// cleanWrong cleans packages whose code is not what was asked for.
func (s *State) cleanWrong(ctx context.Context, list []*mistake, packages []string) error {
	if s.b.Options.NoClean {
		s.shell.Hint("leave --gpu-no-clean out, or run " + s.b.cleanLine(packages))
		return exit.Code(exit.Stale)
	}
	for _, f := range list {
		if slices.Contains(packages, f.unit.Name) {
			s.shell.Status("Wrong", "%s", f.words())
			for _, m := range f.list[:min(len(f.list), 3)] {
				s.shell.Detail("%s", m)
			}
		}
	}
	if _, err := s.b.removePackages(ctx, packages); err != nil {
		return s.notCleaned(err)
	}
	s.areCleaned(packages)
	return nil
}

// judgeMistakes decides of code that building it again does not change. What
// may stay although it is not what was asked for is told once.
func (s *State) judgeMistakes(list []*mistake) error {
	var wrong []*mistake
	for _, f := range list {
		if text, ok := s.accepted(f); ok {
			if text != "" {
				wrong = append(wrong, f)
			} else {
				s.shell.Detail("as told before: %s", f.words())
			}
			continue
		}
		switch why, is := s.excuse(f); {
		case !is:
			s.accept(f, f.scriptRan, f.words())
			wrong = append(wrong, f)
		case why == "":
			s.accept(f, f.scriptRan, "")
		default:
			s.shell.Note("%s: %s", f.words(), why)
			s.accept(f, 0, "")
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	names := map[string]bool{}
	for _, f := range wrong {
		names[f.unit.Name] = true
	}
	s.tellMistakes(wrong, sorted(names))
	s.shell.Hint(s.remedy(wrong[0]))
	return exit.Code(exit.Stale)
}

// tellMistakes words mistakes of some packages with their evidence.
func (s *State) tellMistakes(list []*mistake, names []string) {
	const most = 5
	for _, f := range list {
		if !slices.Contains(names, f.unit.Name) {
			continue
		}
		text := f.words()
		for i, m := range f.list {
			if f.told != "" {
				break // no code shows it
			}
			if i == most {
				text += fmt.Sprintf("\n  and %d more", len(f.list)-most)
				break
			}
			text += "\n  " + m.String()
		}
		if len(f.paths) > 0 && f.linked == "" {
			dir := f.outDir
			if !s.host.Below(f.paths[0], dir) {
				dir = s.host.Dir(f.paths[0])
			}
			text += "\n  in " + s.b.Machine.Shown(dir)
		}
		s.shell.Error("%s", text)
	}
}

// remedy says what to do about code that a package makes wrongly by itself.
func (s *State) remedy(f *mistake) string {
	script := s.b.Machine.Shown(s.host.Join(f.unit.Dir, "build.rs"))
	anew := "`gpubuild build --gpu-force-clean` builds it anew"
	for _, m := range f.list {
		if m.By == stale.ByNVCC && f.linked == "" {
			return fmt.Sprintf("its build script does not use %s: look in %s for a fixed path, a variable of its own, "+
				"or compiled kernels that it keeps outside the target directory; then %s",
				s.b.Tools.Set.Toolkit.NVCC, script, anew)
		}
	}
	return fmt.Sprintf("ask for an architecture that %s is built for (--gpu-arch), or change it in %s; then %s", f.unit.Name, script, anew)
}

// excuse says whether code that is not what was asked for may stay, and why; a reason that is empty needs no words. What another
// nvcc made may not stay where the kernels are the package's own; of code that came from elsewhere nobody asked for anything.
func (s *State) excuse(f *mistake) (why string, ok bool) {
	switch {
	case f.linked != "":
		return "", false
	case f.told != "":
		return "its build script asks something else for the version than the nvcc of this build", true
	case s.copied(f):
		for i, m := range f.list {
			if s.undeclared[f.unit.PkgID] {
				break // nothing shows that it compiles anything
			}
			if own, err := s.isOwn(f, m.Code, f.paths[i]); err == nil && own {
				return "it is copied from a compiled kernel that lies in the package's sources beside its source; " +
					"remove that file if the build script should compile it anew", true
			}
		}
		return "", true
	}
	another := false
	for i, m := range f.list {
		if m.By != stale.ByNVCC {
			continue
		}
		own, err := s.isOwn(f, m.Code, f.paths[i])
		if err != nil {
			s.shell.Detail("the sources of %s cannot be read: %v", f.unit.Name, err)
		}
		if own {
			return "", false
		}
		another = true
	}
	if another && s.undeclared[f.unit.PkgID] {
		return "", true // what a script unpacked or fetched was made by whoever made it
	}
	if another {
		return "none of these kernels is in the package's own sources, so they were compiled elsewhere", true
	}
	if !stale.Runs(f.code, f.want.Arch.Capability) {
		return "", false
	}
	return fmt.Sprintf("its build script chooses the architecture itself, and a GPU of compute capability %s runs what it chose",
		f.want.Arch.Capability), true
}
