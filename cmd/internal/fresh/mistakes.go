package fresh

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/stale"
	"gpubuild/cmd/internal/cargorun"
	"gpubuild/toolchain/cargo"
)

// mistake is device code that is not what was asked for.
type mistake struct {
	pkg   Package
	want  stale.Want
	code  []stale.Code // all that there is
	list  []stale.Mismatch
	paths []string // of the file of each
}

func (f *mistake) words() string { return stale.Describe(f.pkg.Name, f.list, f.want) }

// mistakeIn compares what a script has just made with what was asked for; nil where it is right, or may stay, which excused says.
func (s *State) mistakeIn(ctx context.Context, o out, built cargorun.Built) (wrong *mistake, excused bool) {
	if !o.pkg.Inputs.Arch {
		return nil, false
	}
	f := &mistake{pkg: o.pkg, want: s.wanted(ctx, o.pkg.Inputs), code: o.held.Code}
	held := o.held
	fromLibraries := len(held.Code) == 0
	if fromLibraries { // what it made elsewhere ends there
		for _, path := range s.libraries(o.pkg, built) {
			report, err := s.b.Scan(path)
			if err != nil {
				s.b.Machine.Shell.Detail("%s is not checked: %v", path, err)
				continue
			}
			for _, c := range grouped(s.b.Machine.Host.Base(path), report.Images) {
				held.Code, held.Path = append(held.Code, c), append(held.Path, path)
			}
		}
	}
	found, open := stale.Hold(held.Code, f.want)
	if open > 0 {
		s.b.Machine.Shell.Detail("%s holds %d pieces of device code that cannot be checked", o.pkg.Name, open)
	}
	for _, m := range found {
		f.list, f.paths = append(f.list, m), append(f.paths, held.Path[m.At])
	}
	from := s.originOf(f)
	if fromLibraries { // a library holds the kernels of static libraries, too, which others compiled
		own := *f
		own.list, own.paths = nil, nil
		for i, is := range from.own {
			if is {
				own.list, own.paths = append(own.list, f.list[i]), append(own.paths, f.paths[i])
			}
		}
		f = &own
	}
	if len(f.list) == 0 {
		return nil, false
	}
	if why, ok := s.excuse(f, from); ok {
		if why != "" {
			s.b.Machine.Shell.Note("%s: %s", f.words(), why)
		}
		return nil, true
	}
	return f, false
}

// libraries are those that cargo made of a package.
func (s *State) libraries(p Package, built cargorun.Built) []string {
	var out []string
	for _, m := range built.Messages {
		if m.Reason != cargo.Artifact || m.PackageID != p.PkgID || slices.Contains(m.Target.Kind, "custom-build") {
			continue
		}
		for _, path := range m.Filenames {
			switch strings.ToLower(s.b.Machine.Host.Ext(path)) {
			case ".rlib", ".a", ".lib", ".so", ".dll", ".dylib":
				out = append(out, path)
			}
		}
	}
	return out
}

// excuse says whether code that is not what was asked for may stay, and why; a reason that is empty needs no words. What another nvcc
// made may not stay where the kernels are the package's own; of code that came from elsewhere nobody asked for anything.
func (s *State) excuse(f *mistake, from origin) (why string, ok bool) {
	another := slices.ContainsFunc(f.list, func(m stale.Mismatch) bool { return m.By == stale.ByNVCC })
	own := false
	for i, m := range f.list {
		own = own || from.own[i] && (!another || m.By == stale.ByNVCC)
	}
	switch {
	case from.copied && own && !f.pkg.undeclared:
		return "it is a copy of a compiled kernel that is checked in with the package's sources; " +
			"remove that file if the build script should compile the kernel itself", true
	case from.copied:
		return "", true
	case another && own:
		return "", false
	case another && f.pkg.undeclared:
		return "", true // what a script unpacked or fetched was made by whoever made it
	case another:
		return "none of these kernels is in the package's own sources, so they were compiled elsewhere", true
	case !stale.Runs(f.code, f.want.Arch.Capability):
		return "", false
	}
	return fmt.Sprintf("its build script chooses the architecture itself, and a GPU of compute capability %s runs what it chose",
		f.want.Arch.Capability), true
}

// reportWrong says what is wrong although it was built from nothing, in this build or in an earlier one.
func (s *State) reportWrong() error {
	shell := s.b.Machine.Shell
	fix := ""
	for _, o := range s.outs {
		if o.state != agrees || o.stamp.Wrong == "" {
			continue
		}
		text := o.stamp.Wrong
		if f := o.wrong; f != nil {
			for _, m := range f.list[:min(5, len(f.list))] {
				text += "\n  " + m.String()
			}
			if n := len(f.list) - 5; n > 0 {
				text += fmt.Sprintf("\n  and %d more", n)
			}
			text += "\n  in " + s.b.Machine.Shown(s.b.Machine.Host.Dir(f.paths[0]))
		}
		shell.Error("%s", text)
		fix = cmp.Or(fix, o.stamp.Fix)
	}
	if fix == "" {
		return nil
	}
	shell.Hint(fix)
	return exit.Code(exit.Stale)
}

// remedy says what to do about code that a package makes wrongly by itself.
func (s *State) remedy(f *mistake) string {
	script := s.b.Machine.Shown(s.b.scriptFile(f.pkg.ScriptUnit))
	again := "`gpubuild build --gpu-force-clean` rebuilds it"
	if slices.ContainsFunc(f.list, func(m stale.Mismatch) bool { return m.By == stale.ByNVCC }) {
		return fmt.Sprintf("its build script does not use %s: look in %s for a fixed path, a variable of its own, "+
			"or compiled kernels that it keeps outside the target directory; then %s", s.b.Tools.Set.Toolkit.NVCC, script, again)
	}
	return fmt.Sprintf("request an architecture that %s is built for (--gpu-arch), or change it in %s; then %s", f.pkg.Name, script, again)
}
