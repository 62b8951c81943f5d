package toolchain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"gpubuild/gpu"
	"gpubuild/toolchain/cuda"
	"gpubuild/toolchain/cudnn"
	"gpubuild/toolchain/hostcc"
)

// verdict is what one check says of a toolkit: nothing, that it does not fit and the smallest change that helps, or a doubt.
type verdict struct {
	why, fix, doubt string
}

// packages names the packages that bring a part back.
var packages = [...]struct{ part, what, pip string }{
	{cuda.PartNVCC, "bin/nvcc is missing", "nvidia-cuda-nvcc"},
	{cuda.PartCRT, "crt/host_config.h is missing", "nvidia-cuda-crt"},
	{cuda.PartNVVM, "nvvm/bin/cicc is missing", "nvidia-nvvm"},
	{cuda.PartRuntime, "cuda_runtime.h is missing", "nvidia-cuda-runtime"},
	{cuda.PartTools, "", "nvidia-cuda-nvcc"},
}

// complete asks whether nvcc has what it needs.
func complete(_ Facts, n Needs, t *cuda.Toolkit, _ gpu.Capability) verdict {
	if !n.NVCC && !n.NVCCVersion {
		return verdict{}
	}
	for _, p := range packages {
		if t.Has(p.part) || !n.NVCC && p.part != cuda.PartNVCC {
			continue
		}
		if p.part == cuda.PartCRT && t.Bounds.File != "" {
			return verdict{why: "it is not complete: " + t.Bounds.File + " cannot be read", fix: "make the file readable, or: " + fetchHint}
		}
		fix := fmt.Sprintf("install the missing part of %s, or another toolkit: %s", t.Named(), fetchHint)
		switch {
		case t.Packaged == cuda.Wheels:
			fix = fmt.Sprintf("pip install %s of the same release, or: %s", p.pip, fetchHint)
		case t.Packaged == cuda.Conda:
			fix = "conda install cuda-nvcc cuda-cudart-dev, or: " + fetchHint
		case p.part == cuda.PartNVCC && strings.HasPrefix(t.Root, "/"):
			fix = "install the compiler of its release (cuda-nvcc in NVIDIA's package repository), or another toolkit: " + fetchHint
		}
		return verdict{why: "it is not complete: " + cmp.Or(p.what, t.Damage+" is missing"), fix: fix}
	}
	if t.Version.IsZero() {
		return verdict{why: "its version is unknown: version.json, version.txt and cuda.h say nothing"}
	}
	if n.NVCC && !t.Has(cuda.PartCCCL) {
		return verdict{doubt: "nv/target (CCCL) is missing: a kernel that includes cuda_fp16.h will not compile"}
	}
	return verdict{}
}

// versions asks whether the crates know the toolkit's version.
func versions(f Facts, n Needs, t *cuda.Toolkit, _ gpu.Capability) verdict {
	v := t.Version
	switch {
	case v.IsZero():
	case n.Pin.IsZero() && !n.CudarcMax.IsZero() && v.Compare(n.CudarcMax) > 0:
		return verdict{
			why: fmt.Sprintf("CUDA %s is newer than the locked %s knows (%s)", v, cmp.Or(n.MaxBy, "cudarc"), n.CudarcMax),
			fix: newestKnown(f, n)}
	case !n.Pin.IsZero() && n.Libraries && (v.Major != n.Pin.Major || v.Compare(n.Pin) < 0):
		return verdict{
			why: fmt.Sprintf("a feature fixes cudarc's bindings to CUDA %s, and the libraries of CUDA %s do not have all of them",
				n.Pin, v), fix: fmt.Sprintf("use a toolkit of CUDA %d from %s on, or cudarc's feature %s in place of %s",
				n.Pin.Major, n.Pin, feature(v), feature(n.Pin))}
	}
	return verdict{}
}

// newestKnown gets the newest CUDA that the locked crates know and nothing else here refuses.
func newestKnown(f Facts, n Needs) string {
	for _, r := range slices.Backward(cuda.Releases()) {
		if r.Version.Compare(n.CudarcMax) > 0 || Refuses(f, n, Wish{}, r.Version) != "" {
			continue
		}
		if slices.ContainsFunc(f.Toolkits, func(t cuda.Toolkit) bool { return t.Version == r.Version && t.Problem == "" }) {
			return fmt.Sprintf("`--gpu-toolkit=%s`", r.Version)
		}
		return InstallCommand(r.Version)
	}
	return InstallCommand(n.CudarcMax)
}

// every has the architectures that nvcc of any release compiles for (nvcc --list-gpu-arch).
const every = " 35 37 50 52 53 60 61 62 70 72 75 80 86 87 88 89 90 100 101 103 107 110 120 121 "

func known(c gpu.Capability) bool { return strings.Contains(every, " "+c.Digits()+" ") }

// first has the releases with which architectures came that are older than others of the same nvcc. CUDA 13.0 gave sm_101 the name sm_110.
// Source: the PTX ISA's table "Release Notes", and nvcc --list-gpu-code of CUDA 13.3 to 13.5.
var first = map[string]gpu.Version{"88": {Major: 13}, "103": {Major: 12, Minor: 9}, "107": {Major: 13, Minor: 4}, "110": {Major: 13}}

// feature is cudarc's name for a version: cuda-12030.
func feature(v gpu.Version) string { return fmt.Sprintf("cuda-%d0%d0", v.Major, v.Minor) }

// driver asks whether what is built will run under the driver that is here. PTX newer than the driver is refused by it
// (CUDA_ERROR_UNSUPPORTED_PTX_VERSION): minor version compatibility does not cover PTX.
// Source: https://docs.nvidia.com/deploy/cuda-compatibility/.
func driver(f Facts, n Needs, t *cuda.Toolkit, _ gpu.Capability) verdict {
	have := f.Driver.CUDA
	switch {
	case have.IsZero() || t.Version.IsZero():
	case n.EmbedsPTX && t.Version.Compare(have) > 0:
		return verdict{
			why: fmt.Sprintf("the binary contains PTX, which driver %s accepts only up to CUDA %s", f.Driver.Version, have),
			fix: fmt.Sprintf("use CUDA %s or older (%s), or a newer driver", have, fetchHint)}
	case t.Version.Major > have.Major:
		return verdict{
			doubt: fmt.Sprintf("driver %s runs CUDA up to %s: what CUDA %s builds does not run here", f.Driver.Version, have, t.Version),
		}
	}
	return verdict{}
}

// archs asks whether the toolkit compiles for the lowest and the highest arch.
func archs(f Facts, n Needs, t *cuda.Toolkit, c gpu.Capability) verdict {
	if !n.NVCC || c.IsZero() {
		return verdict{}
	}
	if high := n.Highest.Capability; high.Compare(c) > 0 {
		n.Highest = gpu.Arch{}
		if v := archs(f, n, t, high); v.why != "" {
			return v
		}
	}
	lo, hi := t.MinArch.Capability, t.MaxArch.Capability
	switch {
	case !lo.IsZero() && c.Compare(lo) < 0 && n.floor(t.Version).Arch.Compare(lo) <= 0: // else the crate's floor is the higher one
		return verdict{
			why: fmt.Sprintf("CUDA %s compiles for %s and newer, not for %s", t.Version, t.MinArch, gpu.Arch{Capability: c}),
			fix: olderFor(c, lo)}
	case !hi.IsZero() && !known(c):
		return verdict{
			why: fmt.Sprintf("CUDA %s compiles for %s and older, and %s is no architecture that gpubuild knows", t.Version, t.MaxArch,
				gpu.Arch{Capability: c}),
			fix: fmt.Sprintf("correct it; the newest that this toolkit compiles for is `--gpu-arch=%s`", hi.Digits()),
		}
	case !hi.IsZero() && c.Digits() == "101" && t.Version.Major >= 13:
		return verdict{why: fmt.Sprintf("CUDA %s does not compile for sm_101, whose name is sm_110 since CUDA 13.0", t.Version),
			fix: "`--gpu-arch=110`, or CUDA 12.9 (`gpubuild toolchain install 12.9`)"}
	case !hi.IsZero() && c.Compare(hi) <= 0 && t.Version.Compare(first[c.Digits()]) < 0:
		return verdict{why: fmt.Sprintf("CUDA %s does not compile for %s: CUDA %s is the first that does", t.Version, gpu.Arch{Capability: c}, first[c.Digits()]),
			fix: fmt.Sprintf("`gpubuild toolchain install %s`", first[c.Digits()])}
	case !hi.IsZero() && c.Compare(hi) > 0:
		return verdict{
			why: fmt.Sprintf("CUDA %s compiles for %s and older, not for %s", t.Version, t.MaxArch, gpu.Arch{Capability: c}),
			fix: fmt.Sprintf("use a newer toolkit (%s), or `--gpu-arch=%s`, whose PTX a newer GPU takes", fetchHint, hi.Digits())}
	}
	if f := n.floor(t.Version); c.Compare(f.Arch) < 0 {
		v := verdict{
			why: fmt.Sprintf("%s does not compile for %s with CUDA %s: %s", f.Crate, gpu.Arch{Capability: c}, t.Version, f.Why),
			fix: fmt.Sprintf("for a GPU of sm_%s or newer: `--gpu-arch=%[1]s`", f.Arch.Digits())}
		if !f.Since.IsZero() {
			v.fix += fmt.Sprintf("; or use a toolkit older than CUDA %s, or another version of %s", f.Since, f.Crate)
		}
		return v
	}
	return verdict{}
}

// olderFor names the newest release that still compiles for a capability, or without any the lowest that the toolkit compiles for.
func olderFor(c, lowest gpu.Capability) string {
	for _, r := range slices.Backward(cuda.Releases()) {
		if r.SM[0] > 0 && r.SM[0] <= c.Major*10+c.Minor && c.Major*10+c.Minor <= r.SM[1] {
			return fmt.Sprintf(
				"for a GPU of sm_%s or newer: `--gpu-arch=%[1]s`; for %s CUDA %s is the newest (`gpubuild toolchain install %[3]s`)",
				lowest.Digits(), gpu.Arch{Capability: c}, r.Version,
			)
		}
	}
	return fmt.Sprintf(
		"ask for `--gpu-arch=%s` or a newer one: no toolkit that is known compiles for %s",
		lowest.Digits(), gpu.Arch{Capability: c},
	)
}

// links asks whether the toolkit has libraries to link with; which of them the linker finds, it says itself.
func links(f Facts, n Needs, t *cuda.Toolkit, _ gpu.Capability) verdict {
	switch {
	case !n.Libraries:
	case t.Lib == "":
		install := "install NVIDIA's cuda-libraries-dev"
		if f.MSVC != nil {
			install = "run NVIDIA's installer again, and let it install cudart and cuBLAS (Custom)"
		}
		return verdict{why: "it has no libraries to link", fix: install + ", or: " + fetchHint}
	case !t.Has(cuda.PartLinks):
		return verdict{
			why: "a linker does not find its libraries: " + t.Lib + " has no libcudart.so without a number, as wheels do",
			fix: fetchHint + " and makes the links"}
	case t.Stubs == "" && f.LibCUDA == "" && f.MSVC == nil: // on Windows cuda.lib comes with the toolkit
		return verdict{doubt: "linking with -lcuda will fail: there is no libcuda.so of a driver, and no stub in " + t.Lib + "/stubs"}
	}
	lacks := func(name string) bool { return !slices.Contains(t.Links, name) }
	if at := slices.IndexFunc(n.Links, lacks); n.Libraries && at >= 0 {
		return verdict{doubt: fmt.Sprintf("linking with %s will fail: %s does not have it", n.Links[at], t.Lib)}
	}
	return verdict{}
}

// compilerFor picks the host compiler: the user's word, what nvcc takes by itself, then the newest that the header takes. t is nil where
// nvcc has no part in it.
func compilerFor(f Facts, w Wish, t *cuda.Toolkit) (*hostcc.Compiler, []Loser, []string) {
	order := make([]*hostcc.Compiler, len(f.Compilers))
	for i := range f.Compilers {
		order[i] = &f.Compilers[i]
	}
	slices.SortStableFunc(order, func(a, b *hostcc.Compiler) int {
		if ra, rb := compilerRank(*a, w, t), compilerRank(*b, w, t); ra != rb {
			return ra - rb
		}
		return b.Major - a.Major
	})
	var won *hostcc.Compiler
	var lost []Loser
	var notes []string
	for _, c := range order {
		why := unfit(*c, w, t)
		switch {
		case why == "" && won == nil:
			won = c
			if t == nil || w.Unchecked == "" {
				continue
			}
			if ok, reason := t.Bounds.Fits(c.Kind, c.Major); !ok {
				notes = append(notes, fmt.Sprintf("%s does not fit CUDA %s (%s), but %s switches nvcc's check off",
					c.Named(), t.Version, reason, w.Unchecked))
			}
			continue
		case why == "":
			why = "not needed: " + won.Path + " comes first"
		case c.Word != "" && nvccReads(c.Word):
			notes = append(notes, fmt.Sprintf("%s is %s, which is not used: %s", c.Word, c.Path, why))
		}
		lost = append(lost, Loser{"host compiler", c.Path, c.Origin, why})
	}
	return won, lost, notes
}

// nvccReads reports whether a variable speaks of nvcc's host compiler rather than of C and C++ sources.
func nvccReads(word string) bool { return word != "CC" && word != "CXX" }

func compilerRank(c hostcc.Compiler, w Wish, t *cuda.Toolkit) int {
	switch i := slices.Index(hostcc.Words(), c.Word); {
	case w.CCBin != "" && named(c, w.CCBin):
		return -1
	case slices.Contains(hostcc.FlagVariables(), c.Word): // nvcc heeds them before NVCC_CCBIN
		return 0
	case c.Word == toolsVersion:
		return 19
	case i >= 0 && nvccReads(c.Word):
		return 1 + i
	case takes(t, c):
		return 20
	case c.Default:
		return 21
	case i >= 0:
		return 22 + i
	case c.Kind == hostcc.GCC:
		return 40
	}
	return 41
}

func named(c hostcc.Compiler, path string) bool {
	return c.Word == hostcc.Asked || c.Kind == hostcc.MSVC && namedMSVC(c, path)
}

// takes reports whether the toolkit's own nvcc prefers the compiler because both are in one directory: Debian's does.
func takes(t *cuda.Toolkit, c hostcc.Compiler) bool {
	return t != nil && c.NVCCDir != "" && t.Packaged == cuda.Debian
}

// notAsked begins the reason of a compiler that was rejected because the user named another one.
const notAsked = "not the one asked for: "

// unfit says why a compiler cannot be used with a toolkit; empty: it can.
func unfit(c hostcc.Compiler, w Wish, t *cuda.Toolkit) string {
	switch {
	case c.Problem != "":
		return c.Problem
	case w.CCBin != "" && !named(c, w.CCBin):
		return notAsked + w.CCBin
	case c.NVCCDir != "" && !c.Default && c.Word == "" && !takes(t, c):
		return "it belongs to Debian's own nvcc"
	case t == nil:
		return ""
	case !c.MinCUDA.IsZero() && !t.Version.IsZero() && t.Version.Compare(c.MinCUDA) < 0: // no flag of nvcc lifts this one
		return fmt.Sprintf("its standard library takes CUDA %s and newer, not %s: %s", c.MinCUDA, t.Version, c.MinCUDAText)
	case w.Unchecked != "":
		return ""
	}
	_, why := t.Bounds.Fits(c.Kind, c.Major)
	if why != "" && c.Kind == hostcc.MSVC {
		return fmt.Sprintf("its _MSC_VER is %d, and CUDA %s takes %s", c.Major, t.Version, why)
	}
	if why != "" {
		return fmt.Sprintf("it is %s %d, and CUDA %s takes %s", c.Kind, c.Major, t.Version, why)
	}
	return ""
}

// passedCXX says why nvcc does not take the compiler that a build script passes to it whatever is chosen, which is CXX or else c++; empty:
// it does. There is a fix where the user named the compiler: our nvcc puts the chosen one in the place of c++ only.
func passedCXX(f Facts, n Needs, w Wish, t *cuda.Toolkit, chosen *hostcc.Compiler) (why, fix string) {
	name := "c++"
	i := slices.IndexFunc(f.Compilers, func(c hostcc.Compiler) bool { return c.Word == "CXX" })
	if i >= 0 {
		name = f.Compilers[i].Origin
		fix = fmt.Sprintf("unset %s, or name a compiler that nvcc takes: %[1]s=%s", name, chosen.CXX)
	} else {
		i = slices.IndexFunc(f.Compilers, func(c hostcc.Compiler) bool { return c.CCrate })
	}
	if i < 0 || f.MSVC != nil || !slices.Contains(n.Reads, PassesCXX) {
		return "", ""
	}
	w.CCBin = "" // which the cc crate does not read
	c := f.Compilers[i]
	if why = unfit(c, w, t); why == "" {
		return "", ""
	}
	return fmt.Sprintf("the cc crate passes %s to nvcc: %s: %s", name, cmp.Or(c.CXX, c.Path), why), fix
}

// noCompiler words that no compiler goes with a toolkit, and the smallest change. gate is nil where nvcc has no part in it.
func noCompiler(f Facts, gate *cuda.Toolkit, lost []Loser) (why, fix string) {
	fix = CompilerFix(f)
	if len(lost) == 0 {
		return "there is no host compiler for it", fix
	}
	why = "no host compiler goes with it: " + lost[0].Where + ": " + lost[0].Why
	if f.MSVC != nil {
		return why, toolsetFix(f, gate, lost)
	}
	if gate == nil || gate.Bounds.GCCMax == 0 {
		return why, fix
	}
	for _, c := range f.Compilers {
		if ok, _ := gate.Bounds.Fits(c.Kind, c.Major); ok && c.Kind == hostcc.GCC && c.Major > 0 && c.CXX == "" {
			return why, fmt.Sprintf("install g++-%d, the C++ half of %s (%s)", c.Major, c.Path, fix)
		}
	}
	return why, fmt.Sprintf("install g++-%d or an older one, which CUDA %s takes; gpubuild then uses it by itself",
		gate.Bounds.GCCMax, gate.Version)
}

// cudnnFor picks the cuDNN for a toolkit: the user's, one inside the toolkit, then the newest.
func cudnnFor(f Facts, n Needs, t cuda.Toolkit, arch gpu.Capability) (*cudnn.Install, []Loser) {
	order := make([]*cudnn.Install, len(f.CUDNN))
	for i := range f.CUDNN {
		order[i] = &f.CUDNN[i]
	}
	rank := func(i *cudnn.Install) int {
		switch {
		case i.Named:
			return 0
		case i.InToolkit == t.Root || i.Real == t.Real:
			return 1
		case i.CUDAMajor == t.Version.Major:
			return 2
		}
		return 3
	}
	slices.SortStableFunc(order, func(a, b *cudnn.Install) int {
		if ra, rb := rank(a), rank(b); ra != rb {
			return ra - rb
		}
		return slices.Compare(gpu.Numbers(b.Version), gpu.Numbers(a.Version))
	})
	var won *cudnn.Install
	var lost []Loser
	for _, i := range order {
		why := i.Misfit(t.Version.Major)
		switch {
		case i.Problem != "":
			why = i.Problem
		case why != "":
		case otherMajor(f, *i, t) != "":
			why = otherMajor(f, *i, t)
		case n.CUDNN && n.Libraries && !i.Link:
			why = "a linker does not find it: " + i.Lib + " has no libcudnn.so without a number, as wheels do"
		case !arch.IsZero() && !i.MinSM.IsZero() && arch.Compare(i.MinSM) < 0:
			why = fmt.Sprintf("cuDNN %s runs on compute capability %s and newer, not on %s", i.Version, i.MinSM, arch)
		case won == nil:
			won = i
			continue
		default:
			why = "not needed: " + won.Root + " comes first"
		}
		lost = append(lost, Loser{"cuDNN", i.Root, i.Origin, why})
	}
	return won, lost
}

// otherMajor says that a cuDNN lies in a toolkit of another CUDA major, for which it was most likely copied there.
func otherMajor(f Facts, i cudnn.Install, t cuda.Toolkit) string {
	for _, other := range f.Toolkits {
		if i.CUDAMajor == 0 && i.InToolkit == other.Root && other.Real != t.Real && other.Version.Major != t.Version.Major {
			return "it lies in the toolkit of CUDA " + other.Version.String()
		}
	}
	return ""
}
