package doctor

import (
	"fmt"
	"strings"

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
	for _, l := range f.RunLibraries {
		place := fmt.Sprintf("%s (%s, %s): ", l.Found.Name, l.Crate, orText(l.Why, "to run"))
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
			c.Places = append(c.Places, place+orText(l.Found.Problem, string(l.Found.Kind)))
		}
		start = start || l.Why == "to start"
	}
	switch {
	case len(f.RunLibraries) == 0:
		return c
	case f.Chosen.Toolkit == nil:
		return Check{ID: c.ID, State: Info, Says: "not looked for: which files is not known before a toolkit is chosen (see cuda.set)"}
	}
	variable := "LD_LIBRARY_PATH"
	if f.Host.OS == "windows" {
		variable = "PATH"
	}
	fix := ""
	if len(f.RunDirs) > 0 {
		fix = "start programs through `gpubuild run`, or put " + strings.Join(f.RunDirs, ", ") + " into " + variable
	}
	c.Breaks = "running: CUDA calls fail when they first need the library"
	if start {
		c.Breaks = "starting the program by itself: error while loading shared libraries"
	}
	switch {
	case len(bad) > 0:
		c.State, c.Says = Warning, "not found, also not by gpubuild: "+strings.Join(bad, ", ")
		c.Fix = "install the toolkit's run-time libraries on the machine that runs the program: gpubuild toolchain install"
		if f.Prove {
			c.State = Missing
		}
	case len(wrong) > 0:
		c.State, c.Says, c.Fix = Warning, "of another major version on the loader's path: "+strings.Join(wrong, ", "), fix
		if f.Prove {
			c.State = Misfit
		}
	case len(added) > 0:
		c.State, c.Says, c.Fix = Warning, "found only by a start through gpubuild: "+strings.Join(added, ", "), fix
		if !f.Prove && !start {
			c.State = Info
		}
	default:
		c = Check{ID: c.ID, State: OK, Says: "a bare start finds " + strings.Join(bare, ", ")}
	}
	return c
}

func orText(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
