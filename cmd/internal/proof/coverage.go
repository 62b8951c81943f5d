package proof

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"gpubuild/buildenv/exit"
	"gpubuild/cmd/internal/session"
	"gpubuild/gpu"
	"gpubuild/gpu/kernelname"
	"gpubuild/gpu/probe"
	"gpubuild/gpu/runs"
	"gpubuild/gpu/verify"
	"gpubuild/toolchain/cargo"
)

// Coverage is how many of the kernels that the test programs hold were launched by the tests. A kernel is held if an image has it that the
// driver takes for a GPU of the run. Kernels of libraries, and those that are compiled at run time, are in no program and do not count.
type Coverage struct {
	Launched int               `json:"launched"`
	Kernels  int               `json:"kernels"`
	Limit    int               `json:"limit,omitempty"`  // percent, of [test] coverage
	Others   int               `json:"others,omitempty"` // launched, and in no program of the build
	Packages []PackageCoverage `json:"packages"`

	kernels []CoveredKernel // of all packages, each once
}

// PackageCoverage is that of the tests of a package.
type PackageCoverage struct {
	Package  string          `json:"package"`
	Launched int             `json:"launched"`
	Kernels  int             `json:"kernels"`
	Never    []CoveredKernel `json:"never,omitempty"` // launched by no test
}

// CoveredKernel is a kernel and how often it was launched.
type CoveredKernel struct {
	Name     string `json:"name"`            // demangled
	Place    string `json:"place,omitempty"` // FILE:LINE, where it was compiled with -lineinfo
	Launches uint64 `json:"launches,omitempty"`

	mangled string
}

// percent words a part.
func percent(part, of int) string { return strconv.Itoa(100*part/of) + "%" }

// Text is the coverage in a line.
func (c Coverage) Text() string {
	text := "the test programs hold no kernel that runs on this GPU"
	if c.Kernels > 0 {
		text = fmt.Sprintf("%d of %d kernels were launched (%s)", c.Launched, c.Kernels, percent(c.Launched, c.Kernels))
	}
	if c.Others > 0 {
		text += fmt.Sprintf("; of libraries or compiled at run time: %d", c.Others)
	}
	return text
}

// Below reports whether less was launched than the configuration asks for.
func (c Coverage) Below() bool {
	return 100*c.Launched < c.Limit*c.Kernels || c.Limit > 0 && c.Kernels == 0
}

// RunsTests reports whether a command line runs tests, whose launches are counted, and no benchmarks.
func RunsTests(l cargo.Line) bool { return l.Verb == "test" && l.Starts() }

// coverageLimit is the configuration's, in percent; 0: it has none.
func (r Request) coverageLimit() int {
	if t := r.Session.Config.Test.Value; t != nil && t.Coverage != nil && r.Session.Line.Verb == "test" {
		return *t.Coverage
	}
	return 0
}

// cover measures the coverage where it is asked for, prints it, writes the file of --gpu-coverage, and returns what it makes of a run
// that ended well; nil: nothing was asked for.
func (r Request) cover(proofs []Proof) (*Coverage, error) {
	m, file := r.Session.Machine, r.Options.Coverage
	if file == nil && r.coverageLimit() == 0 {
		return nil, nil
	}
	gpus, why := capabilities(proofs), unrecorded(m, proofs)
	if len(gpus) == 0 {
		why = "no GPU was seen in any test"
	}
	if why != "" {
		r.unmeasured(why)
		if r.coverageLimit() > 0 && r.Requires() {
			return nil, exit.Code(exit.Unproved)
		}
		return nil, nil
	}
	c, err := r.measure(proofs, gpus)
	if err != nil {
		return nil, err
	}
	c.print(m)
	if file != nil && *file != "" {
		text := c.lcov()
		if text == "" && c.Kernels > 0 {
			m.Shell.Warning("%s is empty: no kernel was compiled with line information, which NVCC_APPEND_FLAGS=-lineinfo adds", *file)
		}
		if err := m.WriteFile(*file, []byte(text), 0o644); err != nil {
			return c, err
		}
	}
	switch {
	case !c.Below():
		return c, nil
	case r.choosesTests():
		m.Shell.Note("[test] coverage is not judged: the command line chooses tests by their names")
		return c, nil
	}
	return c, exit.Code(exit.OtherKernels)
}

// unmeasured says why nothing was measured. A file of that name is left as it is: it may be anybody's.
func (r Request) unmeasured(why string) {
	m := r.Session.Machine
	if file := r.Options.Coverage; file != nil && *file != "" && m.Host.IsFile(m.Host.Abs(*file)) {
		why += "; " + *file + " is older than this run"
	}
	m.Shell.Warning("the kernel coverage was not measured: %s", why)
}

// choosesTests reports whether the command line leaves out tests by their names.
func (r Request) choosesTests() bool {
	l, n := r.Session.Line, r.Nextest
	return len(filters(slices.Concat(l.Positional, l.Trailing))) > 0 ||
		n != nil && (len(n.Positional) > 1 || n.Has("-E", "--filterset", "--filter-expr"))
}

// measure joins what the tests' programs hold with what they launched.
func (r Request) measure(proofs []Proof, gpus []gpu.Capability) (*Coverage, error) {
	m := r.Session.Machine
	held := map[string]map[string]*CoveredKernel{} // by package
	packageOf := map[string]string{}               // by the program's path
	for _, p := range r.Programs {
		started := func(got Proof) bool { // or called by a test
			is := func(exe string) bool { return m.Host.SamePath(exe, p.Path) }
			return is(got.Program) || slices.ContainsFunc(launchers(got), is)
		}
		if packageOf[p.Path] = p.Package; !slices.ContainsFunc(proofs, started) {
			continue
		}
		scanned, err := Scan(m, p.Path)
		if err != nil {
			return nil, err
		}
		if held[p.Package] == nil {
			held[p.Package] = map[string]*CoveredKernel{}
		}
		places := map[string]string{}
		for _, im := range scanned.Images {
			maps.Copy(places, im.Lines)
		}
		for _, c := range gpus {
			for _, name := range runs.Taken(scanned, c) {
				key := kernelname.Same(name)
				k := held[p.Package][key]
				if k == nil {
					k = &CoveredKernel{Name: kernelname.Full(name), mangled: name}
					held[p.Package][key] = k
				}
				k.Place = cmp.Or(k.Place, places[name])
			}
		}
	}
	others := map[string]bool{} // by the name that they have in common
	for _, p := range proofs {
		for name, n := range launchesOf(p) {
			known, key := false, kernelname.Same(name)
			for pkg, kernels := range held { // that of a doctest is not known
				if own := packageOf[p.Program]; own != "" && own != pkg {
					continue
				}
				if k := kernels[key]; k != nil {
					k.Launches += n
					known = true
				}
			}
			if !known {
				others[key] = true
			}
		}
	}
	out := &Coverage{Limit: r.coverageLimit(), Others: len(others), Packages: []PackageCoverage{}}
	order := func(a, b CoveredKernel) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.mangled, b.mangled))
	}
	total := map[string]CoveredKernel{}
	for _, pkg := range slices.Sorted(maps.Keys(held)) {
		one := PackageCoverage{Package: pkg, Kernels: len(held[pkg])}
		for key, k := range held[pkg] {
			if k.Launches == 0 {
				one.Never = append(one.Never, *k)
			}
			k.Launches, k.Place = k.Launches+total[key].Launches, cmp.Or(total[key].Place, k.Place)
			total[key] = *k
		}
		slices.SortFunc(one.Never, order)
		if one.Launched = one.Kernels - len(one.Never); one.Kernels > 0 {
			out.Packages = append(out.Packages, one)
		}
	}
	for _, k := range total {
		if out.kernels = append(out.kernels, k); k.Launches > 0 {
			out.Launched++
		}
	}
	out.Kernels = len(total)
	slices.SortFunc(out.kernels, order)
	return out, nil
}

// unrecorded says of which test launches may be missing: they look like kernels that were never launched. Empty: of none.
func unrecorded(m *session.Machine, proofs []Proof) string {
	for _, p := range proofs {
		lost := p.Evidence.Control.Outcome == verify.ControlUnrecorded
		for _, q := range p.Evidence.Processes {
			lost = lost || q.Unavailable != nil || q.Dropped > 0 || q.End != nil && q.End.Dropped > 0
		}
		if lost {
			return "CUPTI did not record each launch of " + strings.TrimSpace(m.Shown(p.Program)+" "+p.Test)
		}
	}
	return ""
}

// capabilities are those of the GPUs that kernels ran on, or of the one that the recorder was tested on.
func capabilities(proofs []Proof) (out []gpu.Capability) {
	add := func(c gpu.Capability) {
		if !c.IsZero() && !slices.Contains(out, c) {
			out = append(out, c)
		}
	}
	for _, p := range proofs {
		for _, process := range p.Evidence.Processes {
			for _, k := range process.Kernels {
				for _, d := range process.Devices {
					if d.Ordinal == k.Device {
						add(d.Capability)
					}
				}
			}
		}
	}
	for _, p := range proofs {
		if c, err := gpu.ParseCapability(p.Evidence.Control.Capability); err == nil && len(out) == 0 {
			add(c)
		}
	}
	return out
}

// launchers are the programs of a proof's processes that launched a kernel.
func launchers(p Proof) (out []string) {
	for _, process := range p.Evidence.Processes {
		if len(process.Kernels) > 0 {
			out = append(out, process.Exe)
		}
	}
	return out
}

// launchesOf counts what the processes of a proof launched on a real GPU, by kernel. Only CUDA's kernels are in programs' files.
func launchesOf(p Proof) map[string]uint64 {
	out := map[string]uint64{}
	for _, process := range p.Evidence.Processes {
		for _, k := range process.Kernels {
			if process.Real && k.Count > 0 && p.Evidence.Backend != probe.Vulkan {
				out[k.Name] += k.Count
			}
		}
	}
	return out
}

// print shows the coverage, and the first of the kernels that no test launched.
func (c Coverage) print(m *session.Machine) {
	const most = 20
	say, limit := m.Shell.Status, ""
	if c.Below() {
		say, limit = m.Shell.Alert, fmt.Sprintf("; [test] coverage asks for %d%%", c.Limit)
	}
	say("Coverage", "%s%s", c.Text(), limit)
	for _, p := range c.Packages {
		if len(c.Packages) > 1 {
			say("", "%s: %d of %d (%s)", p.Package, p.Launched, p.Kernels, percent(p.Launched, p.Kernels))
		}
		for i, k := range p.Never {
			if i == most {
				say("", "… and %d more", len(p.Never)-most)
				break
			}
			name := k.Name
			if file, line := k.split(); file != "" {
				name += " (" + m.Shown(file) + ":" + line + ")"
			}
			say("", "never launched: %s", name)
		}
	}
}

// split takes a place apart; a drive has a colon, too.
func (k CoveredKernel) split() (file, line string) {
	at := strings.LastIndexByte(k.Place, ':')
	if at < 0 {
		return "", ""
	}
	return k.Place[:at], k.Place[at+1:]
}

// lcov is the coverage of the kernels whose lines are known, as geninfo(1) describes its tracefiles: a kernel is a function of one line.
func (c Coverage) lcov() string {
	files := map[string][]CoveredKernel{}
	for _, k := range c.kernels {
		if file, _ := k.split(); file != "" {
			files[file] = append(files[file], k)
		}
	}
	var b strings.Builder
	for _, file := range slices.Sorted(maps.Keys(files)) {
		functions, counts, lines := "", "", map[int]uint64{}
		launched, ran := 0, 0
		for _, k := range files[file] {
			_, at := k.split()
			line, _ := strconv.Atoi(at) // written by us
			functions += fmt.Sprintf("FN:%d,%s\n", line, k.mangled)
			counts += fmt.Sprintf("FNDA:%d,%s\n", k.Launches, k.mangled)
			if lines[line] += k.Launches; k.Launches > 0 {
				launched++
			}
		}
		fmt.Fprintf(&b, "TN:gpubuild\nSF:%s\n%s%sFNF:%d\nFNH:%d\n", file, functions, counts, len(files[file]), launched)
		for _, line := range slices.Sorted(maps.Keys(lines)) {
			if fmt.Fprintf(&b, "DA:%d,%d\n", line, lines[line]); lines[line] > 0 {
				ran++
			}
		}
		fmt.Fprintf(&b, "LF:%d\nLH:%d\nend_of_record\n", len(lines), ran)
	}
	return b.String()
}
