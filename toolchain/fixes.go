package toolchain

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/toolchain/cudnn"
	"gpubuild/toolchain/hostcc"
)

// noToolkit words that there is no toolkit that can be used at all.
func noToolkit(f Facts, w Wish, lost []Loser) error {
	what := "CUDA toolkit"
	if asked(w) {
		what = "CUDA toolkit " + w.CUDA + w.by()
	}
	fix := fetchHint + " into your cache; or install one and set CUDA_HOME to its root"
	if asked(w) && len(lost) > 0 {
		fix = "ask for one of those that are there, or: " + fetchHint
	}
	if w.CUDAOrigin != "" {
		fix = w.CUDAOrigin + " default forgets it; or " + fix
	}
	return &MissingError{What: what, Losers: lost, Places: f.Places, Fix: fix}
}

// misfit words that toolkits are there and none fits. Where every one lacks the same component, that one is missing.
func misfit(f Facts, tried []trial, lost []Loser) error {
	// The trial that came furthest needs the least to be changed.
	best := slices.MaxFunc(tried, func(a, b trial) int { return a.step - b.step }) // the first of equals
	all := slices.Concat(lost, best.losers)
	switch {
	case best.step == 0:
		return &MissingError{What: "complete CUDA toolkit: of " + best.toolkit.Named() + ", " + strings.TrimPrefix(best.why, "it is not complete: "), Losers: all, Fix: best.fix}
	case best.step == stepCompiler && !anyUsable(f.Compilers):
		return &MissingError{What: "host compiler for nvcc", Losers: all, Places: compilerPlaces(f), Unread: unreadable(f), Fix: best.fix}
	case best.step == stepSDK:
		return &MissingError{What: strings.TrimPrefix(best.why, "there is no "), Losers: all, Unread: unreadable(f), Fix: best.fix}
	case best.step == stepCUDNN && !slices.ContainsFunc(f.CUDNN, func(i cudnn.Install) bool { return i.Problem == "" }): // headers alone are none
		return &MissingError{What: "cuDNN", Losers: all, Fix: best.fix}
	case best.step == stepCompiler && len(tried) == 1:
		return &MisfitError{What: "no host compiler here fits " + best.toolkit.Named(), Losers: slices.Concat(lost[:len(lost)-1], best.losers), Unread: unreadable(f), Fix: best.fix}
	case len(tried) == 1:
		return &MisfitError{What: fmt.Sprintf("%s does not fit: %s", best.toolkit.Named(), best.why), Losers: all, Fix: best.fix}
	}
	return &MisfitError{What: fmt.Sprintf("none of %d CUDA toolkits fits; closest is %s: %s", len(tried), best.toolkit.Named(), best.why), Losers: all, Fix: best.fix}
}

// unreadable is what of Visual Studio's could not be looked at.
func unreadable(f Facts) []string {
	if f.MSVC == nil {
		return nil
	}
	return f.MSVC.Problems
}

func anyUsable(all []hostcc.Compiler) bool {
	return slices.ContainsFunc(all, func(c hostcc.Compiler) bool { return c.Problem == "" })
}

var lifts = regexp.MustCompile(`(?:^|\s)-{1,2}allow-unsupported-compiler(?:\s|$)|-D\s*__NV_NO_HOST_COMPILER_CHECK\b`)

// Unchecked answers the variable in which the user switched nvcc's check of the host compiler off; empty when it is on.
func Unchecked(env buildenv.Env) string {
	for _, v := range []string{"NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS", "CUDA_NVCC_FLAGS"} {
		if lifts.MatchString(strings.TrimSpace(env.Get(v))) {
			return v
		}
	}
	return ""
}
