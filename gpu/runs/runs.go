// Package runs decides whether the device code of a file runs on a GPU with a driver. It starts nothing and needs no GPU.
//
// A driver takes one image of each fatbin: the machine code that fits best, and PTX only where no machine code fits. So each fatbin is
// judged by itself, and a kernel that another image of it lacks or another fatbin has under the same name does not count.
// The answer is about the code in the file. Libraries bring kernels of their own, and CUDA_FORCE_PTX_JIT and CUDA_DISABLE_PTX_JIT,
// which change the driver's choice, are ignored.
//
// Sources: CUDA programming guide, "Application compatibility"; PTX ISA, release notes (PTX version and CUDA version); CUDA
// compatibility guide, table 1 (machine code of a major version runs from its first driver on); RAPIDS rapids-cmake,
// rapids_cuda_enable_fatbin_compression (zstd).
package runs

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gpubuild/buildenv/lazyregexp"
	"gpubuild/gpu"
	"gpubuild/gpu/driver"
	"gpubuild/gpu/fatbin"
)

// Target is a GPU and its driver.
type Target struct {
	GPU    gpu.Capability `json:"capability"`
	Name   string         `json:"name,omitempty"` // of a GPU that was asked
	Driver string         `json:"driver"`         // 570.26, or 570 for the newest driver of that branch
	OS     string         `json:"os"`             // whose driver numbers these are
}

func (t Target) String() string {
	return strings.TrimSuffix(fmt.Sprintf("%s, driver %s", t.GPU, t.Driver), ", driver ")
}

// Kernel is the answer for one kernel of one fatbin.
type Kernel struct {
	Name   string     `json:"name"`
	Fatbin int64      `json:"fatbin"` // its offset
	Where  string     `json:"where,omitempty"`
	Answer gpu.Answer `json:"answer"`
	Image  string     `json:"image,omitempty"` // what the driver takes: cubin sm_80
	Why    string     `json:"why,omitempty"`
	Fix    string     `json:"fix,omitempty"`

	alone   bool        // the program loads this image itself
	needs   gpu.Version // CUDA version whose driver is the oldest
	unfixed bool        // no driver helps
	absent  bool        // no image that the driver may take holds it
}

// Verdict is the answer for a file.
type Verdict struct {
	Target
	Answer gpu.Answer `json:"answer"`
	Lowest string     `json:"lowest_driver,omitempty"` // the oldest driver with which every kernel runs; empty: none is known
	Why    []string   `json:"why,omitempty"`           // what is not about one kernel
	// Libraries are those of NVIDIA's that the program links or opens at run time.
	Libraries []string `json:"needs,omitempty"`
	Kernels   []Kernel `json:"kernels"`
}

// String is the answer in one line.
func (v Verdict) String() string {
	count := map[gpu.Answer]int{}
	for _, k := range v.Kernels {
		count[k.Answer]++
	}
	s := strings.TrimPrefix(v.Name+", "+v.Target.String(), ", ") + ": " +
		strings.Replace(string(v.Answer), string(gpu.Translated), "yes, after translation", 1)
	if len(v.Kernels) == 0 {
		return s + ", no kernels"
	}
	s += fmt.Sprintf(", %d of %d kernels run", count[gpu.Yes]+count[gpu.Translated], len(v.Kernels))
	if n := count[gpu.Translated]; n > 0 {
		s += fmt.Sprintf(", %d from PTX that the driver translates", n)
	}
	if v.Lowest != "" {
		s += "; oldest driver: " + v.Lowest
	}
	return s
}

// firstCUDA is the CUDA version whose driver knew a GPU first, from ptxas' targets and the PTX ISA's release notes. GPUs that are not here,
// 8.8 among them, which no product has, are not known: zero.
func firstCUDA(c gpu.Capability) (v gpu.Version) {
	for _, row := range [][2]string{{"11.0", "5.0 5.2 5.3 6.0 6.1 6.2 7.0 7.2 7.5 8.0"}, {"11.1", "8.6"}, {"11.4", "8.7"}, {"11.8", "8.9 9.0"},
		{"12.7", "10.0"}, {"12.8", "12.0"}, {"12.9", "10.3 12.1"}, {"13.0", "11.0"}, {"13.4", "10.7"}} {
		if slices.Contains(strings.Fields(row[1]), c.String()) {
			v, _ = gpu.ParseVersion(row[0]) // the table's own
		}
	}
	return v
}

// cudaOf is the first CUDA version with a PTX version. Before PTX 7.0 every driver of the table has it.
func cudaOf(ptx string) gpu.Version {
	v, err := gpu.ParseVersion(ptx)
	switch {
	case err != nil:
		return gpu.Version{}
	case v.Major < 7:
		return gpu.Version{Major: 11}
	case v.Major == 8 && v.Minor > 5: // CUDA 12.5 and 12.6 have PTX 8.5 both
		v.Minor++
	}
	return gpu.Version{Major: v.Major + 4, Minor: v.Minor}
}

// need is something that only drivers from a CUDA version on have.
type need struct {
	cuda gpu.Version // zero: it is not known which
	what string
}

// unsigned is machine code of a compiler that left no version: no compiler of today needs a newer driver than that of CUDA 13.0.
const unsigned = "code that does not say which CUDA made it"

// needs are what an image that fits the GPU asks of the driver.
func (t Target) needs(im fatbin.Image) []need {
	out := []need{{firstCUDA(t.GPU), "GPU " + t.GPU.String()}}
	if im.Compression == fatbin.Zstd {
		out = append(out, need{gpu.Version{Major: 12, Minor: 4}, "a fatbin that zstd compressed"})
	}
	if im.Arch.Virtual {
		return append(out, need{cudaOf(im.PTXVersion), "PTX " + im.PTXVersion})
	}
	made, err := gpu.ParseVersion(im.Toolkit)
	if err != nil { // it does not say
		return append(out, need{gpu.Version{}, unsigned})
	}
	// Of CUDA 11 only 11.0 runs with its first drivers; the others need 450.80.02, which is newer than those and older than any of 11.1.
	v := gpu.Numbers(t.Driver)
	first := gpu.Version{Major: max(made.Major, 11)}
	if made.Major == 11 && made.Minor > 0 && len(v) > 1 && slices.Compare(v, []int{450, 80, 2}) < 0 {
		first.Minor = 1
	}
	return append(out, need{first, "code of CUDA " + strconv.Itoa(made.Major)})
}

// ask is what the driver's age makes of needs.
func (t Target) ask(needs []need) (answer gpu.Answer, why, fix string, most gpu.Version) {
	answer = gpu.Yes
	for _, n := range needs {
		got := driver.Has(t.OS, t.Driver, n.cuda)
		if n.cuda.IsZero() {
			if n.cuda = (gpu.Version{Major: 13}); n.what == unsigned && driver.Has(t.OS, t.Driver, n.cuda) == gpu.Yes {
				got = gpu.Yes
			} else {
				got = gpu.Unknown
			}
		}
		if got == gpu.No && t.GPU.IsTegra() {
			got = gpu.Unknown // Jetson's drivers are numbered in another way
		}
		if n.cuda.Compare(most) > 0 {
			most = n.cuda
		}
		if got != gpu.Yes && answer.Worse(got) != answer {
			answer = got
			first := "driver " + driver.First(t.OS, n.cuda)
			if first == "driver " {
				first = "a driver of CUDA " + n.cuda.String()
			}
			if why = fmt.Sprintf("%s needs %s or newer", n.what, first); got == gpu.Unknown {
				why = fmt.Sprintf("it is not known whether driver %s has what %s needs", t.Driver, n.what)
			}
		}
	}
	if answer != gpu.Yes {
		if fix = "install a driver of CUDA " + most.String() + " or newer"; driver.First(t.OS, most) != "" {
			fix = "install driver " + driver.First(t.OS, most) + " or newer"
		}
		if driver.Has(t.OS, t.Driver, firstCUDA(t.GPU)) == gpu.Yes {
			fix = fmt.Sprintf("gpubuild build --gpu-toolkit=%s, or %s", driver.Newest(t.OS, t.Driver), fix)
		}
	}
	if branch := gpu.Numbers(t.Driver); answer != gpu.No && branch != nil && t.GPU.Compare(turing) < 0 && branch[0] > lastBranch {
		// NixOS/nixos-hardware#1880: 595 "will ignore this GPU".
		return gpu.No, fmt.Sprintf("580 is the last driver branch for GPU %s", t.GPU), "install a driver of branch 580", most
	}
	return answer, why, fix, most
}

// lastToolkit is the newest toolkit that compiles for GPUs older than 7.5, lastBranch the last driver branch for them.
var lastToolkit, turing = gpu.Version{Major: 12, Minor: 9}, gpu.Capability{Major: 7, Minor: 5}

const lastBranch = 580

// rebuild is the build that makes code for the GPU, with the toolkit and the driver that it takes; empty: none is known.
func (t Target) rebuild(images []fatbin.Image) string {
	fix, old := "gpubuild build --gpu-arch=sm_"+t.GPU.Digits(), t.GPU.Compare(turing) < 0
	first, toolkit := firstCUDA(t.GPU), driver.Newest(t.OS, t.Driver)
	needs := first // to go on with the toolkit of now
	for _, im := range images {
		if made, err := gpu.ParseVersion(im.Toolkit); err == nil && made.Major > needs.Major && !old {
			needs = gpu.Version{Major: made.Major}
		}
	}
	switch branch := gpu.Numbers(t.Driver); {
	case first.IsZero(), old && driver.Has(t.OS, t.Driver, first) == gpu.No:
		return ""
	case old && branch != nil && branch[0] > lastBranch:
		return fmt.Sprintf("%s --gpu-toolkit=%s, and install a driver of branch %d", fix, lastToolkit, lastBranch)
	case driver.Has(t.OS, t.Driver, first) == gpu.No && !t.GPU.IsTegra():
		return fix + ", and install driver " + driver.First(t.OS, needs) + " or newer"
	case old && toolkit.Compare(lastToolkit) > 0:
		return fix + " --gpu-toolkit=" + lastToolkit.String()
	case old && !toolkit.IsZero(), driver.Has(t.OS, t.Driver, needs) == gpu.No && !t.GPU.IsTegra():
		return fix + " --gpu-toolkit=" + toolkit.String()
	}
	return fix
}

// group answers for the kernels of the images of one fatbin.
func (t Target) group(images []fatbin.Image) []Kernel {
	var fit []fatbin.Image // those of the best architecture among what fits
	var why []string       // the others do not
	answer := gpu.Yes
	for _, virtual := range []bool{false, true} {
		var doubt []string
		for _, im := range images {
			if im.Arch.Virtual != virtual || im.Kind == fatbin.LTO {
				continue
			}
			got, reason := im.Arch.Runs(t.GPU)
			exact := im.Arch.Capability == t.GPU
			if got == gpu.Yes && im.Kind == fatbin.Cubin && im.Toolkit == "" && !exact && im.Arch.Capability.Major >= 9 {
				got, reason = gpu.Unknown, im.Arch.String()+" code does not say whether it is for that very architecture"
			}
			switch {
			case got == gpu.No:
				why = append(why, reason)
			case got != gpu.Yes:
				doubt = append(doubt, reason)
			case len(fit) == 0 || im.Arch.Capability.Compare(fit[0].Arch.Capability) > 0:
				fit = []fatbin.Image{im}
			case im.Arch.Capability == fit[0].Arch.Capability:
				fit = append(fit, im)
			}
		}
		if len(doubt) > 0 && (len(fit) == 0 || fit[0].Arch.Capability != t.GPU) {
			fit, answer, why = nil, gpu.Unknown, doubt
			break
		}
		if len(fit) > 0 {
			break
		}
	}
	whole := Kernel{Answer: answer, Fatbin: images[0].Fatbin, Where: images[0].Where, alone: images[0].Fatbin == images[0].Offset}
	if len(fit) == 0 {
		if whole.unfixed = true; answer != gpu.Unknown {
			whole.absent, whole.Answer, whole.Fix = true, gpu.No, t.rebuild(images)
		}
		slices.Sort(why)
		if why = slices.Compact(why); len(why) > 2 {
			why = append(why[:1], fmt.Sprintf("nor does that of its %d other images", len(why)-1))
		}
		whole.Why = strings.Join(why, "; ")
	} else {
		for _, im := range fit {
			got, reason, fix, most := t.ask(t.needs(im))
			if got == gpu.Yes && im.Arch.Virtual {
				got = gpu.Translated
			}
			if whole.Answer.Worse(got) != whole.Answer {
				whole.Answer, whole.Why, whole.Fix = got, reason, fix
			}
			if most.Compare(whole.needs) > 0 {
				whole.needs = most
			}
		}
		whole.Image = strings.TrimSuffix(fit[0].Kind, "-text") + " " + fit[0].Arch.String()
		// Machine code of the toolkit that wrote PTX runs from the first driver of its major version on.
		major := gpu.Version{Major: cudaOf(fit[0].PTXVersion).Major}
		if fit[0].Arch.Virtual && !whole.alone && whole.Answer == gpu.No && driver.Has(t.OS, t.Driver, firstCUDA(t.GPU)) == gpu.Yes &&
			driver.Has(t.OS, t.Driver, major) == gpu.Yes && !major.IsZero() {
			whole.Fix = "gpubuild build --gpu-arch=sm_" + t.GPU.Digits()
		}
		packed := func(im fatbin.Image) bool { return im.Compression == fatbin.Zstd }
		if cuda := (gpu.Version{Major: 12, Minor: 4}); slices.ContainsFunc(images, packed) && cuda.Compare(whole.needs) > 0 {
			whole.needs = cuda
			if whole.Answer != gpu.No && driver.Has(t.OS, t.Driver, cuda) != gpu.Yes {
				whole.Answer, whole.Why = gpu.Unknown, "another image of the fatbin is compressed with zstd, which this driver does not know"
			}
		}
	}
	var out []Kernel
	seen := map[string]bool{}
	for _, im := range images {
		for _, name := range im.Kernels {
			if seen[name] {
				continue
			}
			seen[name] = true
			k := whole
			k.Name = name
			lacks := func(im fatbin.Image) bool { return !slices.Contains(im.Kernels, name) }
			if len(fit) > 0 && slices.ContainsFunc(fit, lacks) {
				// No command helps: the source leaves it out for that architecture.
				k.Answer, k.unfixed, k.Fix, k.Why = gpu.No, true, "", k.Image+", which the driver takes, does not hold it"
				if k.absent = !slices.ContainsFunc(fit, func(im fatbin.Image) bool { return !lacks(im) }); len(fit) > 1 {
					k.Answer, k.Why = gpu.Unknown, "one of the images of that architecture does not hold it"
				}
			}
			out = append(out, k)
		}
	}
	return out
}

// Judge answers for a file. opens are the libraries that it opens at run time.
func Judge(r *fatbin.Report, opens []string, t Target) Verdict {
	v := Verdict{Target: t, Answer: gpu.Yes, Kernels: []Kernel{}}
	worse := func(a gpu.Answer, format string, args ...any) {
		v.Answer = v.Answer.Worse(a)
		v.Why = append(v.Why, fmt.Sprintf(format, args...))
	}
	if firstCUDA(t.GPU).IsZero() {
		worse(gpu.Unknown, "gpubuild does not know a GPU of capability %s", t.GPU)
	}
	var groups [][]fatbin.Image
	linked := map[string]bool{} // kernels of code that no device link is left to do for
	partial := map[int64]bool{} // fatbins that a device link must complete
	for _, im := range r.Images {
		if im.Relocatable || strings.HasPrefix(im.Where, "__nv_rel") {
			partial[im.Fatbin] = true
		}
		if n := len(groups) - 1; n >= 0 && groups[n][0].Fatbin == im.Fatbin {
			groups[n] = append(groups[n], im)
			continue
		}
		groups = append(groups, []fatbin.Image{im})
	}
	for _, im := range r.Images {
		for _, k := range im.Kernels {
			linked[k] = linked[k] || !partial[im.Fatbin]
		}
	}
	for _, g := range groups {
		other := func(im fatbin.Image) bool { return im.Kind != fatbin.LTO }
		if !slices.ContainsFunc(g, other) && !(partial[g[0].Fatbin] && len(linked) > 0) {
			worse(gpu.Unknown, "0x%x: LTO-IR, which a link step compiles", g[0].Offset)
		}
		for _, k := range t.group(g) {
			switch {
			case partial[k.Fatbin] && linked[k.Name]:
				continue // the linked code is judged
			case partial[k.Fatbin]:
				k.Answer, k.Why, k.Fix, k.unfixed = gpu.Unknown, "relocatable code, which a device link completes", "", true
			case k.Answer == gpu.No && len(partial) > 0:
				k.Answer, k.Why = gpu.Unknown, k.Why+"; the driver may link the relocatable code of the file instead"
			case k.Answer == gpu.No && len(r.Notes) > 0:
				k.Answer, k.Why, k.Fix = gpu.Unknown, k.Why+"; the device code that could not be read may hold it", ""
			}
			v.Kernels = append(v.Kernels, k)
		}
	}
	v.chosen()
	for _, n := range r.Notes {
		worse(gpu.Unknown, "not read: %s", n)
	}
	lowest, fixed := firstCUDA(t.GPU), true
	for _, k := range v.Kernels {
		v.Answer = v.Answer.Worse(k.Answer)
		if fixed = fixed && !k.unfixed; k.needs.Compare(lowest) > 0 {
			lowest = k.needs
		}
	}
	for _, name := range slices.Concat(r.Imports, r.Delayed, opens) {
		if !slices.Contains(v.Libraries, name) && versioned.MatchString(name) || slices.Contains(opens, name) {
			v.Libraries = append(v.Libraries, name)
		}
		if compiles.MatchString(name) {
			worse(gpu.Unknown, "%s: it compiles code at run time, which is in no file", name)
		}
		m := versioned.FindStringSubmatch(name)
		if m == nil || m[1] == "" {
			continue
		}
		major, _ := strconv.Atoi(m[1])
		if cuda := (gpu.Version{Major: major}); major >= 11 {
			if got, why, _, _ := t.ask([]need{{cuda, name}}); got != gpu.Yes {
				worse(got, "%s", why)
			}
			if cuda.Compare(lowest) > 0 {
				lowest = cuda
			}
		}
	}
	if len(v.Kernels) == 0 {
		worse(gpu.Unknown, "it holds no kernel: what it runs is in libraries or made at run time")
	}
	if fixed && len(v.Kernels) > 0 && !lowest.IsZero() {
		v.Lowest = driver.First(t.OS, lowest)
	}
	return v
}

var (
	// versioned finds the libraries whose version is that of CUDA, and any other one of NVIDIA's.
	versioned = lazyregexp.New(`(?i)^(?:lib)?(?:(?:cudart|cublas|cublasLt|nvrtc|nvJitLink)(?:64)?(?:\.so\.|_)(\d\d)|cu[a-z]+(?:64|\.so)|nv[a-z]+(?:64|\.so|cuda)|nccl)`)
	compiles  = lazyregexp.New(`(?i)^(?:lib)?(?:nvrtc|nvJitLink|nvptxcompiler)`)
)

// chosen makes the answers unknown for kernels of which the program itself loads one of several images, such as PTX texts for two
// architectures, of which some do not run: which one it loads is its own decision.
func (v *Verdict) chosen() {
	runs := map[string]bool{}
	for _, k := range v.Kernels {
		runs[k.Name] = runs[k.Name] || k.alone && (k.Answer == gpu.Yes || k.Answer == gpu.Translated)
	}
	for i, k := range v.Kernels {
		if k.alone && k.Answer == gpu.No && runs[k.Name] {
			v.Kernels[i].Answer, v.Kernels[i].Fix = gpu.Unknown, ""
			v.Kernels[i].Why += "; the program holds another image of it and chooses itself"
		}
	}
}

// Taken lists the kernels of the images that a driver takes for a GPU, or may take, however old the driver is: those that a program can
// launch there. One that several fatbins hold is named for each.
func Taken(r *fatbin.Report, c gpu.Capability) (names []string) {
	for _, k := range Judge(r, nil, Target{GPU: c}).Kernels {
		if !k.absent {
			names = append(names, k.Name)
		}
	}
	return names
}
