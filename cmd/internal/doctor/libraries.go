package doctor

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/cmd/internal/proof"
	"gpubuild/cmd/internal/session"
	"gpubuild/features"
	"gpubuild/toolchain"
	"gpubuild/toolchain/cuda"
	"gpubuild/toolchain/loader"
)

// RunLibrary is a library that this project's programs need to run, and what the machine's loader finds for it.
type RunLibrary struct {
	Crate string         // who needs it
	Why   string         // when: "to start", "when they are first used"
	Major int            // of CUDA, where the crate fixes it
	Found loader.Library // of the file that the chosen toolkit or cuDNN has
}

// runTime asks the machine's loader for the libraries that the project's programs need, as our own program would ask: one that was built
// may lie elsewhere, but neither has a path of its own to search.
func runTime(ctx context.Context, m *session.Machine, needs []features.NeedReason, toolkits []cuda.Toolkit) (r RunTime) {
	if len(toolkits) > 0 {
		r.Dirs = proof.LibraryDirs(m, toolkits)
	}
	searched := slices.Concat(r.Dirs, m.Host.SplitList(m.Host.Env.Get(loader.Variable(m.Host))))
	driver := []string{"libcuda.so.1", "libcuda.so"}
	names := driver
	for _, need := range needs {
		if !strings.HasPrefix(need.Need, "lib") || strings.HasPrefix(need.Why, "built in") {
			continue // the driver has a check of its own
		}
		l := RunLibrary{Crate: need.Crate, Why: need.Why, Major: need.Major}
		l.Found = loader.Library{Name: need.Need, Kind: loader.Missing, Problem: "no toolkit in use has it"}
		if m.Host.OS == buildenv.Windows {
			l.Found.Name = strings.TrimPrefix(need.Need, "lib") + "64_*.dll"
		}
		if need.Major != 0 {
			l.Found.Problem = fmt.Sprintf("no toolkit here has that of CUDA %d", need.Major)
		}
		if name := runName(m.Host, need.Need, searched, proof.OfMajor(toolkits, need.Major)); name != "" {
			l.Found = loader.Library{Name: name}
			names = append(names, name)
		}
		r.Libraries = append(r.Libraries, l)
	}
	found, err := loader.Open(ctx, m.Host, m.Runner, m.Self, names, r.Dirs)
	if err != nil {
		m.Shell.Detail("the loader cannot be asked: %v", err)
	}
	for _, l := range found {
		if slices.Contains(driver, l.Name) && l.Kind == loader.Stub {
			r.Stubs = append(r.Stubs, l.Path)
		}
		for i := range r.Libraries {
			if r.Libraries[i].Found.Name == l.Name {
				r.Libraries[i].Found = l
			}
		}
	}
	return r
}

// runName is the name by which programs ask for a library: that of a file, or where only link stubs are there, of the toolkit's major.
func runName(h buildenv.Host, library string, dirs []string, toolkits []cuda.Toolkit) string {
	ofToolkit := slices.Contains([]string{"libcublas", "libcublasLt", "libcudart", "libnvrtc"}, library)
	switch found := proof.LibraryName(h, library, dirs, toolkits); {
	case found != nil:
		return found[0]
	case h.OS != buildenv.Windows && len(toolkits) > 0 && ofToolkit:
		return fmt.Sprintf("%s.so.%d", library, toolkits[0].Version.Major)
	}
	return ""
}

// checkLoaderPath reports whether the libraries that the project's programs need are found by a bare start of them, and by one through
// gpubuild.
func checkLoaderPath(f Facts) Check {
	c := Check{ID: "loader.path", State: Info, Says: "no crate here needs a library of the toolkit to run"}
	var bare, added, bad []string
	start := false
	for _, l := range f.Run.Libraries {
		switch place := fmt.Sprintf("%s (%s, %s): ", l.Found.Name, l.Crate, cmp.Or(l.Why, "to run")); l.Found.Kind {
		case loader.OK, loader.Unknown:
			bare = append(bare, l.Found.Name)
			continue
		case loader.Added:
			added = append(added, l.Found.Name)
			c.Places = append(c.Places, place+l.Found.Path)
		default:
			bad = append(bad, l.Found.Name)
			c.Places = append(c.Places, place+cmp.Or(l.Found.Problem, string(l.Found.Kind)))
		}
		start = start || l.Why == "to start"
	}
	switch {
	case len(f.Run.Libraries) == 0:
	case f.ChooseErr != nil:
		return Check{ID: c.ID, State: Info, Says: f.notChosen()}
	case len(bad) > 0:
		c.State, c.Says, c.Fix = Warning, "not found: "+strings.Join(bad, ", "), runFix(f, bad)
		c.Breaks, c.Absent = "a run that uses the library: its first call of it fails", start
		if start {
			c.Breaks = "starting the program: error while loading shared libraries"
			if f.Host.OS == buildenv.Windows {
				c.Breaks = "starting the program: it ends with 0xc0000135"
			}
		}
		if f.Prove && start { // of a library that is loaded when it is first used, nobody knows whether the program ever does
			c.State = Missing
		}
	case len(added) > 0:
		c.State = OK
		c.Says = fmt.Sprintf("found only under `gpubuild run`: %s (%s)", strings.Join(added, ", "), f.Host.JoinList(f.Run.Dirs...))
	default:
		c = Check{ID: c.ID, State: OK, Says: "a bare start finds " + strings.Join(bare, ", ")}
	}
	return c
}

// runFix is the command that brings libraries to run with: parts of our own toolkit, or the packages of the one that is used.
func runFix(f Facts, names []string) string {
	t := f.Chosen.Toolkit
	isCUDNN := func(name string) bool { return strings.Contains(name, "cudnn") }
	withCUDNN := slices.ContainsFunc(names, isCUDNN)
	if i := slices.Index(names, "libnccl"); i >= 0 { // no toolkit has it
		const nccl = "from NVIDIA's package repository: apt install libnccl2"
		if rest := slices.Delete(slices.Clone(names), i, i+1); len(rest) > 0 {
			return runFix(f, rest) + "; " + nccl
		}
		return nccl
	}
	parts, major := []string{"run"}, 0
	for _, l := range f.Run.Libraries {
		if slices.Contains(names, l.Found.Name) {
			major = max(major, l.Major)
		}
	}
	if withCUDNN {
		parts = append(parts, "cudnn")
	}
	switch {
	case major != 0 && (t == nil || t.Version.Major != major):
		driver := f.Toolchain.Driver.CUDA
		for _, r := range slices.Backward(cuda.Releases()) {
			if r.Version.Major == major && (driver.IsZero() || driver.Major > major || r.Version.Compare(driver) <= 0) {
				return toolchain.InstallCommand(r.Version, parts...)
			}
		}
		return fmt.Sprintf("update the driver to one for CUDA %d", major)
	case t == nil:
		return "gpubuild toolchain install --parts " + strings.Join(parts, ",")
	case f.Host.Below(t.Root, f.Cache), f.Host.OS == buildenv.Windows && withCUDNN: // NVIDIA's installer of a toolkit has none
		return toolchain.InstallCommand(t.Version, parts...)
	}
	if f.Host.OS == buildenv.Windows {
		return "install the toolkit's run-time libraries by NVIDIA's installer"
	}
	packages := ""
	if slices.ContainsFunc(names, func(n string) bool { return !isCUDNN(n) }) {
		packages = fmt.Sprintf(" cuda-libraries-%d-%d", t.Version.Major, t.Version.Minor)
	}
	if withCUDNN {
		packages += fmt.Sprintf(" cudnn9-cuda-%d", t.Version.Major)
	}
	return "from NVIDIA's package repository: apt install" + packages
}
