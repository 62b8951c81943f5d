package toolchain

import (
	"fmt"
	"slices"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/lazyregexp"
	"gpubuild/gpu"
	"gpubuild/toolchain/cuda"
	"gpubuild/toolchain/cudnn"
	"gpubuild/toolchain/hostcc"
)

const oneOfThose = "use one of those listed above"

// getHint is how the user gets the toolkit that they named, or any.
func getHint(w Wish) string {
	switch {
	case unknownRelease(w.CUDA):
		return "no CUDA " + w.CUDA + " can be installed; `gpubuild toolchain list --available` lists what can"
	case IsVersion(w.CUDA):
		newest := cuda.Releases()[max(len(cuda.Releases())-1, 0)].Version
		if v, _ := gpu.ParseVersion(w.CUDA); v.Compare(newest) > 0 {
			return fmt.Sprintf("`gpubuild toolchain install %s` installs the newest that is known; `gpubuild toolchain list --available` "+
				"lists what there is now", newest)
		}
		return "gpubuild toolchain install " + w.CUDA
	}
	return fetchHint
}

// orForget puts before a fix how the user takes back a wish of `toolchain use`.
func (w Wish) orForget(fix string) string {
	if w.CUDAOrigin != ByUse {
		return fix
	}
	return strings.TrimSuffix("`"+ByUse+" default` forgets this toolkit; or "+fix, "; or ")
}

// unknownRelease reports whether a wish is a version that is not published: neither in the table nor one that may have come since.
func unknownRelease(wish string) bool {
	v, err := gpu.ParseVersion(wish)
	known := cuda.Releases()
	if err != nil || len(known) == 0 {
		return false
	}
	newest := known[len(known)-1].Version
	return (v.Compare(newest) < 0 || v.Major > newest.Major+1) && !slices.ContainsFunc(known, func(r cuda.Release) bool {
		return r.Version == v || r.Version.Major == v.Major && !strings.Contains(wish, ".")
	})
}

// noToolkit words that there is no toolkit that can be used at all.
func noToolkit(f Facts, w Wish, lost []Loser) error {
	what := "CUDA toolkit"
	if asked(w) {
		what = "CUDA toolkit " + w.CUDA + w.by()
	}
	const setHome = "; or install one and set CUDA_HOME to its root"
	fix := fetchHint + " into your cache" + setHome
	if asked(w) {
		fix = getHint(w)
		if slices.ContainsFunc(lost, func(l Loser) bool { return strings.HasPrefix(l.Why, notAsked) }) {
			or := ", or: "
			if unknownRelease(w.CUDA) {
				or = ": "
			}
			fix = oneOfThose + or + fix
		}
	}
	fix = w.orForget(fix)
	for _, t := range f.Toolkits {
		name, _, _ := strings.Cut(t.Origin, ",")
		above, below := strings.ReplaceAll(t.Root, `\`, "/"), false // the root, where its bin or the nvcc in it was named
		for _, end := range []string{".exe", "/nvcc", "/bin"} {
			if below = strings.HasSuffix(strings.ToLower(above), end); below {
				above = above[:len(above)-len(end)]
			}
		}
		switch {
		case name == "" || strings.ToUpper(name) != name || name == "PATH": // no variable of the user's
		case below && name != "NVCC" && !asked(w):
			os := map[bool]string{true: buildenv.Windows}[f.MSVC != nil]
			fix = fmt.Sprintf("%s, the toolkit's root; or %s", buildenv.HowToSet(os, name, above), fix)
		case !asked(w):
			if file := w.EnvFiles[name]; file != "" {
				name += " in the [env] table of " + file
			}
			fix = strings.TrimSuffix(fix, setHome) + "; or let " + name + " lead to a toolkit"
		}
	}
	return &MissingError{What: what, Losers: lost, Places: f.Places, Fix: fix, Part: PartToolkit}
}

// misfit words that toolkits are there and none fits. Where every one lacks the same component, that one is missing.
func misfit(f Facts, w Wish, tried []trial, lost []Loser) error {
	// The trial that came furthest needs the least to be changed.
	best := slices.MaxFunc(tried, func(a, b trial) int { return a.step - b.step }) // the first of equals
	all := slices.Concat(lost, best.losers)
	if best.step < stepCompiler || best.step == stepCompiler && anyUsable(f.Compilers) { // another toolkit may fit
		best.fix = w.orForget(best.fix)
	}
	switch {
	case best.step == 0:
		return &MissingError{
			What:   "complete CUDA toolkit: of " + best.toolkit.Named() + ", " + strings.TrimPrefix(best.why, "it is not complete: "),
			Losers: all, Fix: best.fix, Part: best.part}
	case best.step == stepCompiler && !anyUsable(f.Compilers):
		return &MissingError{
			What: "host compiler for nvcc", Losers: all, Places: compilerPlaces(f), Unread: unreadable(f), Fix: best.fix, Part: best.part,
		}
	case best.step == stepSDK:
		what := strings.TrimPrefix(best.why, "there is no ")
		return &MissingError{What: what, Losers: all, Unread: unreadable(f), Fix: best.fix, Part: best.part}
	// headers alone are none
	case best.step == stepCUDNN && !slices.ContainsFunc(f.CUDNN, func(i cudnn.Install) bool { return i.Problem == "" }):
		return &MissingError{What: "cuDNN", Losers: all, Fix: best.fix, Part: best.part}
	case best.step == stepCompiler && len(tried) == 1:
		return &MisfitError{What: "no host compiler here fits " + best.toolkit.Named(),
			Losers: slices.Concat(lost[:len(lost)-1], best.losers), Unread: unreadable(f), Fix: best.fix, Part: best.part}
	case best.part == PartCapability && len(tried) == 1:
		what := best.why
		if w.Arch != "" {
			what += "; " + w.ArchOrigin + " asks for it"
		}
		return &MisfitError{What: what, Losers: slices.Concat(lost[:len(lost)-1], best.losers), Fix: best.fix, Part: best.part}
	case len(tried) == 1:
		return &MisfitError{What: fmt.Sprintf("%s does not fit: %s", best.toolkit.Named(), best.why), Losers: all, Fix: best.fix,
			Part: best.part}
	}
	return &MisfitError{
		What:   fmt.Sprintf("none of %d CUDA toolkits fits; closest is %s: %s", len(tried), best.toolkit.Named(), best.why),
		Losers: all, Fix: best.fix, Part: best.part}
}

// unreadable is what of Visual Studio's could not be looked at.
func unreadable(f Facts) []string {
	if f.MSVC == nil {
		return nil
	}
	return f.MSVC.Problems
}

// cudnnFix says how to get a cuDNN for a toolkit. On Linux, pip's lacks only the name that a linker looks for.
func cudnnFix(f Facts, n Needs, v gpu.Version) string {
	for _, i := range f.CUDNN {
		if i.Misfit(v.Major) == "" && i.Problem == "" && n.Libraries && !i.Link && f.MSVC == nil {
			return fmt.Sprintf("make the name by which a linker finds it: ln -s libcudnn.so.%d %s/libcudnn.so", i.Major, i.Lib)
		}
	}
	where := fmt.Sprintf(
		"NVIDIA's repository for Debian, Ubuntu: cudnn9-cuda-%d; `gpubuild toolchain install %s --parts cudnn` needs no admin rights",
		v.Major, v,
	)
	if f.MSVC != nil {
		where = fmt.Sprintf("pip: nvidia-cudnn-cu%d", v.Major)
	}
	return fmt.Sprintf("install cuDNN for CUDA %d (%s) and point CUDNN_LIB at its root", v.Major, where)
}

func anyUsable(all []hostcc.Compiler) bool {
	return slices.ContainsFunc(all, func(c hostcc.Compiler) bool { return c.Problem == "" })
}

var lifts = lazyregexp.New(`(?:^|\s)-{1,2}allow-unsupported-compiler(?:\s|$)|-D\s*__NV_NO_HOST_COMPILER_CHECK\b`)

// Unchecked returns the variable in which the user switched nvcc's check of the host compiler off; empty when it is on.
func Unchecked(env buildenv.Env) string {
	for _, v := range []string{"NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS", "CUDA_NVCC_FLAGS"} {
		if lifts.MatchString(strings.TrimSpace(env.Get(v))) {
			return v
		}
	}
	return ""
}

// partOf names the part of gpubuild's toolkits that holds a library's headers and static libraries; each toolkit has those of the others.
var partOf = map[string]string{
	"cublas": "cublas", "cublasLt": "cublas", "curand": "curand", "nvrtc": "nvrtc", "cudnn": "cudnn", "culibos": "culibos",
	"tileiras": "tileiras",
}

// Parts are those that a toolkit of gpubuild's needs on Linux to have these files. Of a library that is linked it has a stub without them.
func Parts(files []string) (parts []string) {
	for _, file := range files {
		base, extension, _ := strings.Cut(file, ".") // libculibos.a, cublas_v2.h
		name := strings.TrimSuffix(strings.TrimPrefix(base, "lib"), "_v2")
		if part := partOf[name]; part != "" && (extension == "h" || extension == "a" || file == "tileiras") && !slices.Contains(parts, part) {
			parts = append(parts, part)
		}
	}
	return parts
}

// InstallVerb begins the command that installs a toolkit; the version is next.
const InstallVerb = "gpubuild toolchain install "

// InstallCommand installs a toolkit into gpubuild's cache, or adds parts to the one that is there.
func InstallCommand(v gpu.Version, parts ...string) string {
	command := InstallVerb + v.String()
	if len(parts) > 0 {
		command += " --parts " + strings.Join(parts, ",")
	}
	return command
}
