package app

import (
	"context"
	"fmt"
	"strings"

	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/stale"
	"gpubuild/toolchain/cargo"
)

// fresh says whether code was made in this very run, so that cleaning would bring the same again: the package was cleaned or had never been built, or
// each of the files was written since cargo started.
func (j *journey) fresh(f *mistake) bool {
	if f.linked != "" {
		return j.cleaned[f.unit.Name]
	}
	if j.cleaned[f.unit.Name] || j.before[j.Host.Clean(f.outDir)] == 0 {
		return true
	}
	for _, path := range f.paths {
		fi, err := j.Host.Files.Stat(path)
		if err != nil || fi.ModTime().Before(j.buildBegan) {
			return false
		}
	}
	return len(f.paths) > 0
}

// checkResult holds what was built against what was asked for, without a look at the record. What is left of an earlier build is cleaned and built once
// more; what is wrong although it was just built ends with 13, unless the package chooses its architecture itself, which is told once.
func (j *journey) checkResult(ctx context.Context) error {
	list, err := j.mistakes(ctx, j.outputs(), j.products())
	if err != nil {
		return err
	}
	var again []string
	for _, f := range list {
		if _, known := j.concludedOf(f); known || j.fresh(f) || contains(again, f.unit.Name) || j.allShipped(f) {
			continue
		}
		again = append(again, f.unit.Name)
	}
	if len(again) > 0 && j.options.NoClean {
		j.tellMistakes(list, again)
		j.Shell.Hint("leave --gpu-no-clean out, or run cargo " + strings.Join(cargo.Clean(j.Tool, j.Line, again, j.platforms()).Args, " "))
		return exit.Code(exit.Stale)
	}
	if len(again) > 0 {
		for _, f := range list {
			if contains(again, f.unit.Name) {
				j.Shell.Status("Wrong", "%s", f.words())
				for _, m := range f.list[:min(len(f.list), 3)] {
					j.Shell.Detail("%s", m)
				}
			}
		}
		if err := j.cleanPackages(ctx, again); err != nil {
			return err
		}
		j.messages, j.programs = nil, nil
		built := j.build(ctx)
		j.keepRecord(built == nil)
		if built != nil {
			return built
		}
		if list, err = j.mistakes(ctx, j.outputs(), j.products()); err != nil {
			return err
		}
	}
	return j.judgeMistakes(list)
}

// cleanPackages has cargo clean packages, and remembers that what they hold next is new.
func (j *journey) cleanPackages(ctx context.Context, packages []string) error {
	if _, err := j.removePackages(ctx, packages); err != nil {
		return j.notCleaned(err)
	}
	j.Shell.Status("Cleaned", "%s", strings.Join(packages, ", "))
	j.areCleaned(packages)
	return nil
}

func (j *journey) areCleaned(packages []string) {
	if j.cleaned == nil {
		j.cleaned = map[string]bool{}
	}
	for _, p := range packages {
		j.cleaned[p] = true
	}
}

// judgeMistakes decides of code that building anew does not mend.
func (j *journey) judgeMistakes(list []*mistake) error {
	var learned []conclusion
	var wrong []*mistake
	for _, f := range list {
		known, ok := j.concludedOf(f)
		if ok {
			if known.Wrong != "" {
				wrong = append(wrong, f)
			} else {
				j.Shell.Detail("as told before: %s", f.words())
			}
			continue
		}
		c := conclusion{PkgID: f.unit.PkgID, Features: f.features, Want: f.want.String(), Found: f.sum(), Script: j.scriptHash(f.unit)}
		switch why, is := j.excuse(f); {
		case !is:
			c.Wrong, c.ScriptRan = f.words(), f.scriptRan
			wrong = append(wrong, f)
		case why == "":
			c.ScriptRan = f.scriptRan
		default:
			j.Shell.Note("%s: %s", f.words(), why)
		}
		learned = append(learned, c)
	}
	if err := j.conclude(learned); err != nil {
		j.Shell.Warning("%v; what was found out of the packages is found out again next time", err)
	}
	if len(wrong) == 0 {
		return nil
	}
	names := []string{}
	for _, f := range wrong {
		if !contains(names, f.unit.Name) {
			names = append(names, f.unit.Name)
		}
	}
	j.tellMistakes(wrong, names)
	j.Shell.Hint(j.remedy(wrong[0]))
	return exit.Code(exit.Stale)
}

// tellMistakes words mistakes of some packages with their evidence.
func (j *journey) tellMistakes(list []*mistake, names []string) {
	const most = 5
	for _, f := range list {
		if !contains(names, f.unit.Name) {
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
			if !j.Host.Below(f.paths[0], dir) {
				dir = j.Host.Dir(f.paths[0])
			}
			text += "\n  in " + j.Shown(dir)
		}
		j.Shell.Error("%s", text)
	}
}

// remedy says what to do about code that a package makes wrongly by itself.
func (j *journey) remedy(f *mistake) string {
	script := j.Shown(j.Host.Join(f.unit.Dir, "build.rs"))
	anew := "`gpubuild build --gpu-force-clean` builds it anew"
	for _, m := range f.list {
		if m.By == stale.ByNVCC && f.linked == "" {
			return fmt.Sprintf("its build script does not use %s: look in %s for a fixed path, a variable of its own, or compiled kernels that it keeps outside the target directory; then %s",
				j.Set.Toolkit.NVCC, script, anew)
		}
	}
	return fmt.Sprintf("ask for an architecture that %s is built for (--gpu-arch), or change it in %s; then %s", f.unit.Name, script, anew)
}

// excuse says whether code that is not what was asked for may stay, and why; a reason that is empty needs no words. What another nvcc made may not
// stay where the kernels are the package's own; of code that came from elsewhere nobody asked for anything.
func (j *journey) excuse(f *mistake) (why string, ok bool) {
	switch {
	case f.linked != "":
		return "", false
	case f.told != "":
		return "its build script asks something else for the version than the nvcc of this build", true
	case j.allShipped(f):
		for i, m := range f.list {
			if own, err := j.isOwn(f, m.Code, f.paths[i]); err == nil && own {
				return "it is copied from a compiled kernel that lies in the package's sources beside its source; remove that file if the build script should compile it anew", true
			}
		}
		return "", true
	}
	another := false
	for i, m := range f.list {
		if m.By != stale.ByNVCC {
			continue
		}
		own, err := j.isOwn(f, m.Code, f.paths[i])
		if err != nil {
			j.Shell.Detail("the sources of %s cannot be read: %v", f.unit.Name, err)
		}
		if own {
			return "", false
		}
		another = true
	}
	if another {
		return "none of these kernels is in the package's own sources, so they were compiled elsewhere", true
	}
	if !stale.Runs(f.code, f.want.Arch.Capability) {
		return "", false
	}
	return fmt.Sprintf("its build script chooses the architecture itself, and a GPU of compute capability %s runs what it chose", f.want.Arch.Capability), true
}
