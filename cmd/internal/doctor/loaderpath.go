package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/toolchain"
	"gpubuild/toolchain/loader"
)

// RunLibrary is a library that this project's programs need to run, and what the machine's loader finds for it.
type RunLibrary struct {
	Library string         // as crates name it: libcublas
	Crate   string         // who needs it
	Why     string         // when: "to start", "when they are first used"
	Found   loader.Library // of the file that the chosen toolkit or cuDNN has
	Other   string         // the file of another major version that a bare start finds in its place
}

// loaderPath says whether the libraries that the project's programs need are found by a bare start of them, and by one through gpubuild.
func checkLoaderPath(f Facts) Check {
	c := Check{ID: "loader.path", State: Info, Says: "no crate here needs a library of the toolkit to run"}
	var bare, added, wrong, bad []string
	start := false
	for _, l := range f.Run.Libraries {
		place := fmt.Sprintf("%s (%s, %s): ", l.Found.Name, l.Crate, cmp.Or(l.Why, "to run"))
		if l.Other != "" && (l.Found.Kind == loader.Added || l.Found.Kind == loader.Missing) {
			wrong = append(wrong, l.Found.Name)
			c.Places = append(c.Places, place+"a bare start finds "+l.Other+", of another major version")
			continue
		}
		switch l.Found.Kind {
		case loader.OK:
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
		return c
	case f.Chosen.Toolkit == nil:
		return Check{ID: c.ID, State: Info, Says: f.notChosen()}
	}
	variable := "LD_LIBRARY_PATH"
	if f.Host.OS == buildenv.Windows {
		variable = "PATH"
	}
	c.Breaks = "running: CUDA calls fail when they first need the library"
	if start {
		c.Breaks = "starting the program: error while loading shared libraries"
	}
	path := f.Host.JoinList(f.Run.Dirs...)
	switch {
	case len(bad) > 0:
		c.State, c.Says, c.Fix = Warning, "not found: "+strings.Join(bad, ", "), runFix(f, bad)
		c.Absent = start
		if f.Prove {
			c.State = Missing
		}
	case len(wrong) > 0:
		c.State, c.Says = Warning, "another major version comes first: "+strings.Join(wrong, ", ")
		var first buildenv.Delta
		for _, dir := range slices.Backward(f.Run.Dirs) {
			first.Add(buildenv.Prepend, variable, dir, "")
		}
		if text, err := buildenv.Export(buildenv.UsualShell(f.Host), f.Host, f.Host.Env, first); err == nil {
			c.Fix = strings.TrimSpace(text)
		}
		if f.Prove {
			c.State = Misfit
		}
	case len(added) > 0:
		c.State, c.Breaks = OK, ""
		c.Says = fmt.Sprintf("found only under `gpubuild run`: %s (%s)", strings.Join(added, ", "), path)
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
	if f.Host.Below(t.Root, f.Cache) {
		parts := []string{"run"}
		if withCUDNN {
			parts = append(parts, "cudnn")
		}
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
	return "apt install" + packages
}
