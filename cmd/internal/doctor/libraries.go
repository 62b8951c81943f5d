package doctor

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/lazyregexp"
	"gpubuild/cmd/internal/proof"
	"gpubuild/cmd/internal/session"
	"gpubuild/features"
	"gpubuild/toolchain"
	"gpubuild/toolchain/cuda"
	"gpubuild/toolchain/cudnn"
	"gpubuild/toolchain/loader"
)

// runLibraries finds out what the machine's loader has for the libraries that the project's programs need to run, asked as our own
// program would ask: one that was built may lie elsewhere, but neither has a path of its own to search.
func runLibraries(ctx context.Context, m *session.Machine, needs []features.NeedReason, set toolchain.Set) (libs []RunLibrary, dirs []string, notes []string) {
	if set.Toolkit != nil {
		var dnn []cudnn.Install
		if set.CUDNN != nil {
			dnn = append(dnn, *set.CUDNN)
		}
		dirs = proof.RuntimeDirs(m.Host, []cuda.Toolkit{*set.Toolkit}, dnn)
	}
	find := func(names, dirs []string) []loader.Library {
		out, err := loader.Open(ctx, m.Host, m.Runner, m.Self, names, dirs)
		if err != nil {
			notes = append(notes, fmt.Sprintf("the loader cannot be asked: %v", err))
		}
		return out
	}
	for _, need := range needs {
		if !strings.HasPrefix(need.Need, "lib") || strings.HasPrefix(need.Why, "built in") {
			continue // the driver has a check of its own
		}
		l := RunLibrary{Library: need.Need, Crate: need.Crate, Why: need.Why}
		name := runName(m.Host, need.Need, dirs, set)
		if name == "" {
			l.Found = loader.Library{Name: need.Need, Kind: loader.Missing, Problem: "the chosen toolkit does not have it"}
			libs = append(libs, l)
			continue
		}
		found := find([]string{name}, dirs)
		if len(found) == 0 {
			continue
		}
		if l.Found = found[0]; l.Found.Kind != loader.OK {
			others := otherMajors(name)
			for _, other := range find(others, nil) {
				if other.Kind == loader.OK && l.Other == "" && slices.Contains(others, other.Name) {
					l.Other = other.Path
				}
			}
		}
		libs = append(libs, l)
	}
	return libs, dirs, notes
}

// stubsOnPath lists where programs find link stubs: directories of LD_LIBRARY_PATH that hold nothing else, by name or behind a link, and
// the stub of the driver's library that a start finds whichever way.
func stubsOnPath(ctx context.Context, m *session.Machine) (on []string) {
	h := m.Host
	for _, dir := range h.SplitList(h.Env.Get("LD_LIBRARY_PATH")) {
		if clean := h.Clean(dir); loader.IsStubDir(h, clean) || loader.IsStubDir(h, h.Real(clean)) {
			on = append(on, dir)
		}
	}
	libs, err := loader.Open(ctx, m.Host, m.Runner, m.Self, []string{"libcuda.so.1"}, nil)
	if err != nil {
		return on // the check of the libraries reports this error
	}
	for _, l := range libs {
		if l.Kind == loader.Stub && !slices.Contains(on, h.Dir(l.Path)) {
			on = append(on, l.Path)
		}
	}
	return on
}

// runName is the name by which programs ask for a library: that of the file in the chosen toolkit, or where only its link stubs are
// there, of its major.
func runName(h buildenv.Host, library string, dirs []string, set toolchain.Set) string {
	form := regexp.MustCompile(`^` + regexp.QuoteMeta(library) + `\.so\.\d+$`)
	if h.OS == buildenv.Windows {
		form = regexp.MustCompile(`(?i)^` + regexp.QuoteMeta(strings.TrimPrefix(library, "lib")) + `64_\d+(?:_\d+)?\.dll$`)
	}
	for _, dir := range dirs {
		for _, name := range h.Names(dir) {
			if form.MatchString(name) {
				return name
			}
		}
	}
	switch {
	case h.OS == buildenv.Windows || set.Toolkit == nil:
		return ""
	case library == "libcudnn" && set.CUDNN != nil:
		return fmt.Sprintf("libcudnn.so.%d", set.CUDNN.Major)
	// their number is the toolkit's
	case library == "libcublas" || library == "libcublasLt" || library == "libcudart" || library == "libnvrtc":
		return fmt.Sprintf("%s.so.%d", library, set.Toolkit.Version.Major)
	}
	return ""
}

// numbered are the names that hold a major version. Windows writes some of them with more digits:
// cublas64_13.dll, but nvrtc64_130_0.dll and, of CUDA 11, cudart64_110.dll and nvrtc64_112_0.dll.
// Source: the bin directories of NVIDIA's redistributable archives 11.8, 12.9 and 13.0.
var (
	numbered    = lazyregexp.New(`^(lib\w+\.so\.)(\d+)()$`)
	numberedDLL = lazyregexp.New(`(?i)^(\w+?_)(\d+)((?:_0)?\.dll)$`)
)

// otherMajors lists the names of a library's neighbours: libcublas.so.12 and .11 where .13 is meant.
func otherMajors(name string) []string {
	m, numbers := numbered.FindStringSubmatch(name), []int{15, 14, 13, 12, 11, 10, 9, 8}
	if dll := numberedDLL.FindStringSubmatch(name); dll != nil {
		m, numbers = dll, append(numbers, 130, 120, 112, 111, 110)
	}
	if m == nil {
		return nil
	}
	number, err := strconv.Atoi(m[2])
	if err != nil {
		return nil
	}
	major := func(n int) int {
		if n >= 100 {
			return n / 10
		}
		return n
	}
	var out []string
	for _, n := range numbers {
		if major(n) != major(number) {
			out = append(out, m[1]+strconv.Itoa(n)+m[3])
		}
	}
	return out
}
