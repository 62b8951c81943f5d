package proof

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/cache"
	"gpubuild/buildenv/exit"
	"gpubuild/cmd/internal/session"
	"gpubuild/cmd/internal/tools"
	"gpubuild/features"
	"gpubuild/gpu"
	"gpubuild/gpu/probe"
	"gpubuild/gpu/verify"
	"gpubuild/toolchain/cuda"
	"gpubuild/toolchain/cudnn"
	"gpubuild/toolchain/loader"
)

// Runtime is everything that a program is run with.
type Runtime struct {
	Probe   probe.Probe
	CUPTI   string
	Others  []string     // further CUPTIs, for a driver that is older than the first
	Env     buildenv.Env // with the directories of the libraries that the loader does not find by itself
	Lacks   []string     // what the program would lack without gpubuild
	Missing []string     // the libraries that are nowhere
}

// RuntimeDirs lists where run-time libraries are: never a stub's directory.
func RuntimeDirs(h buildenv.Host, toolkits []cuda.Toolkit, dnn []cudnn.Install) []string {
	var dirs []string
	for _, t := range toolkits {
		switch {
		case t.Problem != "":
		case h.OS == buildenv.Windows: // Lib holds import libraries
			dirs = append(dirs, loader.RunDirs(h, t.Root, t.Bin)...)
		default:
			dirs = append(dirs, append([]string{t.Lib}, t.Libs...)...)
		}
	}
	for _, c := range dnn {
		if h.OS == buildenv.Windows {
			dirs = append(dirs, c.Bin)
		} else {
			dirs = append(dirs, c.Lib)
		}
	}
	out := dirs[:0]
	for _, d := range dirs {
		if d != "" && !slices.Contains(out, d) && h.IsDir(d) {
			out = append(out, d)
		}
	}
	return out
}

// prepare makes the run-time environment for a program, and the probe if it is to be watched: none is built for a proof that cannot be made.
// The toolkit of the build comes first where there is one.
func prepare(ctx context.Context, m *session.Machine, f Files, g Given, first *cuda.Toolkit, env buildenv.Env, binary string, watched bool,
) (Runtime, error) {
	toolkits := Toolkits(m, first)
	rt, err := Libraries(ctx, m, toolkits, g.Opens, env, binary)
	if err != nil || !watched {
		return rt, err
	}
	tools, err := f.Tools(ctx, m, g.Backend, toolkits)
	tools.Env, tools.Lacks, tools.Missing = rt.Env, rt.Lacks, rt.Missing
	return tools, err
}

// Check refuses files that are not there: better before a long build than after it.
func (f Files) Check(h buildenv.Host) error {
	for _, is := range [][3]string{{f.Probe, "probe library", "probe library"}, {f.CUPTI, "libcupti", "libcupti.so"}} {
		if path := h.Abs(is[0]); is[0] != "" && !h.IsFile(path) {
			return exit.Usagef("give the path of a "+is[2], "no %s at %s", is[1], path)
		}
	}
	return nil
}

// Tools are the probe and every CUPTI: which one the driver takes, only the driver knows.
func (f Files) Tools(ctx context.Context, m *session.Machine, backend probe.Backend, toolkits []cuda.Toolkit) (rt Runtime, err error) {
	if err = f.Check(m.Host); err == nil {
		rt.Probe, err = f.BuildProbe(ctx, m, backend)
	}
	if err != nil || backend == probe.Vulkan {
		return rt, err
	}
	if f.CUPTI != "" {
		rt.CUPTI, rt.Others = m.Host.Abs(f.CUPTI), f.Others
	} else if all := CUPTIs(toolkits); len(all) > 0 {
		rt.CUPTI, rt.Others = all[0], all[1:]
	}
	return rt, nil
}

// Toolkits lists the toolkits of this machine that can be used: the build's own first, else the one that builds take by default.
func Toolkits(m *session.Machine, first *cuda.Toolkit) []cuda.Toolkit {
	found, root, _, err := tools.Default(m, func(extra []cuda.Candidate) []cuda.Toolkit { return cuda.Find(m.Host, extra) })
	if err != nil {
		m.Shell.Warning("%v", err)
		found = tools.Installed(m)
	}
	var out []cuda.Toolkit
	if first != nil {
		out, root = append(out, *first), ""
	}
	for _, t := range found {
		if t.Problem == "" && t.Root == root {
			out = slices.Insert(out, 0, t)
		} else if t.Problem == "" {
			out = append(out, t)
		}
	}
	return out
}

// LibraryDirs are the directories of the toolkits' run-time libraries and of the cuDNNs that belong to them.
func LibraryDirs(m *session.Machine, toolkits []cuda.Toolkit) []string {
	var roots []string
	major := 0
	for _, t := range toolkits {
		roots, major = append(roots, t.Root), cmp.Or(major, t.Version.Major)
	}
	all := cudnn.Find(m.Host, roots)
	slices.SortStableFunc(all, func(a, b cudnn.Install) int { // those for the first toolkit's CUDA come first
		return min(1, len(a.Misfit(major))) - min(1, len(b.Misfit(major)))
	})
	return RuntimeDirs(m.Host, toolkits, all)
}

// LibraryName is the name by which programs ask for a library such as libcudnn: that of the first file in the directories, where it
// has a CUDA's number, of the first toolkit's; nil: none.
func LibraryName(h buildenv.Host, library string, dirs []string, toolkits []cuda.Toolkit) []string {
	form := regexp.MustCompile(`^` + regexp.QuoteMeta(library) + `\.so\.\d+$`)
	if h.OS == buildenv.Windows {
		form = regexp.MustCompile(`(?i)^` + regexp.QuoteMeta(strings.TrimPrefix(library, "lib")) + `64_\d+(?:_\d+)?\.dll$`)
	}
	for _, dir := range dirs {
		names := h.Names(dir)
		if at := slices.IndexFunc(names, func(name string) bool {
			return form.MatchString(name) &&
				(len(toolkits) == 0 || slices.Contains([]int{0, toolkits[0].Version.Major}, loader.CUDAMajor(name)))
		}); at >= 0 {
			return names[at : at+1]
		}
	}
	return nil
}

// OfMajor are the toolkits whose names of libraries count for a program that is built for a major version of CUDA; 0: that of the first.
func OfMajor(toolkits []cuda.Toolkit, major int) []cuda.Toolkit {
	if major == 0 {
		return toolkits
	}
	return []cuda.Toolkit{{Version: gpu.Version{Major: major}}}
}

// Opened are the libraries that programs open, each of the CUDA for which the build script that downloads them took them: it asks variables,
// then nvcc, which is that of the build's toolkit, or without one that of PATH (ort-sys 2.0.0-rc.12, build/download/resolve.rs).
func Opened(h buildenv.Host, chosen *cuda.Toolkit, needs []features.NeedReason) []features.NeedReason {
	at := slices.IndexFunc(needs, func(n features.NeedReason) bool { return n.NVCC != 0 })
	if at < 0 {
		return needs
	}
	nvcc, asked := needs[at].NVCC, h.Env.Get("ORT_CUDA_VERSION")
	is := func(t cuda.Toolkit) bool { return t.Version.Major == nvcc && len(t.From(cuda.OnPath)) > 0 }
	named := regexp.MustCompile(fmt.Sprintf(`[v-]%d\.`, nvcc))
	takes := asked == strconv.Itoa(nvcc)
	switch {
	case takes, asked == strconv.Itoa(needs[at].Major):
	case chosen != nil:
		takes = chosen.Version.Major == nvcc
	default:
		takes = named.MatchString(h.Env.Get("CUDA_HOME")+"-"+h.Env.Get("NV_CUDA_CUDART_VERSION")) || slices.ContainsFunc(cuda.Find(h, nil), is)
	}
	needs = slices.Clone(needs)
	for i := range needs {
		if takes && needs[i].NVCC == nvcc {
			needs[i].Major = nvcc
		}
	}
	return needs
}

// Libraries finds the run-time libraries of a program: what the loader finds by itself, what must be added, what is not there. opens are
// those that it opens itself, where it uses them at all.
func Libraries(ctx context.Context, m *session.Machine, toolkits []cuda.Toolkit, opens []features.NeedReason, env buildenv.Env,
	binary string) (Runtime, error) {
	rt, dirs := Runtime{Env: env}, LibraryDirs(m, toolkits)
	libraries, err := loader.Resolve(ctx, m.Host, m.Runner, m.Host.Abs(binary), dirs)
	if errors.Is(err, loader.ErrScript) {
		return rt, nil // the kernel starts its interpreter, and it starts what it likes
	}
	if err != nil {
		return rt, err
	}
	var names []string
	for _, need := range opens {
		names = append(names, LibraryName(m.Host, need.Need, dirs, OfMajor(toolkits, need.Major))...)
	}
	opened, err := loader.Open(ctx, m.Host, m.Runner, m.Host.Abs(binary), names, dirs)
	for i, l := range slices.Concat(opened, libraries) {
		switch {
		case l.Kind == loader.OK, l.Kind == loader.Unknown, i < len(opened):
		case l.Kind == loader.Added:
			rt.Lacks = append(rt.Lacks, l.Name+" is "+l.Problem)
		default:
			rt.Lacks = append(rt.Lacks, l.Name+": "+l.Problem+Remedy(l.Name))
			if !l.Delayed {
				rt.Missing = append(rt.Missing, l.Name)
			}
		}
		if l.Kind == loader.Added {
			rt.Env = m.Host.Apply(rt.Env, AppendLibraries(m.Host, m.Host.Dir(l.Path)))
		}
	}
	if why := loader.Mixed(libraries); why != "" {
		rt.Lacks = append(rt.Lacks, why)
	}
	return rt, err
}

// Remedy says where a library that is not there comes from.
func Remedy(name string) string {
	lower := strings.ToLower(name)
	has := func(prefixes ...string) bool {
		return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(lower, p) })
	}
	switch {
	case has("libcuda.so", "nvcuda.dll"):
		return "; it comes with NVIDIA's driver"
	case has("vcruntime", "msvcp", "concrt", "vcomp"):
		return "; it comes with the Visual C++ Redistributable (https://aka.ms/vs/17/release/vc_redist.x64.exe)"
	case has("libcudnn", "cudnn"):
		return "; `gpubuild toolchain install --parts run,cudnn` fetches it"
	case IsCUDALibrary(name):
		version := ""
		if loader.CUDAMajor(name) == 12 { // those of CUDA 13 do not serve
			version = "12.9 "
		}
		return "; `gpubuild toolchain install " + version + "--parts run` fetches it"
	}
	return ""
}

// AppendLibraries lets the loader find libraries in dir, after its own places.
func AppendLibraries(h buildenv.Host, dir string) buildenv.Delta {
	var d buildenv.Delta
	d.Add(buildenv.Append, loader.Variable(h), dir, "the program's CUDA libraries are in no directory that the loader searches by itself")
	return d
}

// CUPTIs are those of toolkits, in their order.
func CUPTIs(toolkits []cuda.Toolkit) (out []string) {
	for _, t := range toolkits {
		if t.CUPTI != "" && !slices.Contains(out, t.CUPTI) {
			out = append(out, t.CUPTI)
		}
	}
	return out
}

// BuildProbe takes the given probe, or builds ours of a backend for this machine.
func (f Files) BuildProbe(ctx context.Context, m *session.Machine, backend probe.Backend) (probe.Probe, error) {
	if f.Probe != "" {
		return probe.FromFile(m.Host, f.Probe, backend)
	}
	p, err := probe.Build(ctx, m.Host, m.Runner, m.CacheDir, ProbeCompiler(ctx, m), backend)
	if _, readOnly := errors.AsType[*cache.ReadOnlyError](err); readOnly {
		var dir string
		if dir, err = m.Scratch(); err == nil {
			p, err = probe.Build(ctx, m.Host, m.Runner, dir, ProbeCompiler(ctx, m), backend)
		}
	}
	return p, err
}

// hasDevice reports whether this machine has a device of the backend; without one, nothing is run to be proven. nvidia-smi can be
// missing where CUDA works, so where it knows of none and there is a device node the control is asked. Of Vulkan only the control knows.
// If the control cannot be asked, the proof says why.
func (f Files) hasDevice(ctx context.Context, m *session.Machine, backend probe.Backend) bool {
	if backend != probe.Vulkan {
		if _, devices, _ := m.Driver().Inventory(ctx); len(devices) > 0 {
			return true
		}
		if !verify.HasNode(m.Host) {
			return false
		}
	}
	p, err := f.BuildProbe(ctx, m, backend)
	return err != nil || verify.HasDevice(ctx, m.Host, m.Runner, p)
}

// IsCUDALibrary knows NVIDIA's libraries by their names: libcublas.so.13, cublas64_13.dll, nvcuda.dll.
func IsCUDALibrary(name string) bool {
	name = strings.ToLower(name)
	return strings.HasPrefix(name, "libcu") && !strings.HasPrefix(name, "libcurl") || strings.HasPrefix(name, "libnv") ||
		strings.HasPrefix(name, "nvcuda") ||
		strings.HasSuffix(name, ".dll") && strings.Contains(name, "64_") && (strings.HasPrefix(name, "cu") || strings.HasPrefix(name, "nv"))
}
