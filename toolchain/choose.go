package toolchain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/gpu"
	"gpubuild/toolchain/cuda"
	"gpubuild/toolchain/cudnn"
	"gpubuild/toolchain/hostcc"
)

// Fetch stands in hints for the user's own command line with the flag that downloads a toolkit; who prints a hint puts that line there.
const Fetch = "gpubuild --gpu-toolkit=fetch …"

// fetchHint is how a user without a toolkit gets one.
const fetchHint = "`" + Fetch + "` fetches one without admin rights"

// trial is one toolkit with what would go with it.
type trial struct {
	toolkit  *cuda.Toolkit
	compiler *hostcc.Compiler
	msvc     *VisualStudio
	cudnn    *cudnn.Install
	why      string   // why it does not fit; empty: it does
	fix      string   // the smallest change that would make it fit
	doubts   []string // why another one would be better
	notes    []string
	losers   []Loser // compilers and cuDNNs that did not go with it
	passed   string  // why the c++ that the cc crate passes to nvcc does not fit
	step     int     // how far it came: later means that less is wrong
	part     Part    // what is at fault, where it does not fit
}

// Steps of a trial behind those of the checks.
const (
	stepCompiler = 10
	stepSDK      = 11
	stepCUDNN    = 12
)

// Choose picks the set: what the user asked for, then the variables when they agree, the active environment, the nvcc on PATH, then the
// newest that fits. A toolkit that the user asked for by name is never replaced by another one.
func Choose(f Facts, n Needs, w Wish) (Set, error) {
	s := Set{Driver: f.Driver, Devices: f.Devices, LibCUDA: f.LibCUDA}
	var err error
	if s.Backends, s.BackendWhy, err = Backend(n, w); err != nil {
		return s, err
	}
	if n = n.only(s.Backends); n.ROCm {
		if s.ROCm, s.Losers, err = rocmFor(f.ROCm); err != nil {
			return s, err
		}
	}
	list, origin, err := wanted(f, w)
	if err != nil {
		return s, err
	}
	arch := list[0]
	s.Capability, s.Suffix, s.Further, s.CapabilityOrigin, s.ArchAsked = arch.Capability, arch.Suffix, list[1:], origin, w.Arch != ""
	s.CapabilityUnset = w.PreviousUnset && w.Arch == "" && len(w.Previous) > 0
	n.Highest = list[len(list)-1]
	if !n.Toolkit() {
		return s, s.withoutToolkit(f, n, w)
	}
	order, lost := ranked(f, w)
	s.Losers = append(s.Losers, lost...)
	s.Notes = disagreements(f)
	if len(order) == 0 {
		return s, noToolkit(f, w, lost)
	}
	tried := make([]trial, len(order))
	for i, t := range order {
		tried[i] = try(f, n, w, t, arch.Capability)
	}
	won := winner(tried)
	for i := range tried {
		tr := &tried[i]
		if tr == won {
			continue
		}
		why := tr.why
		switch {
		case why == "" && len(tr.doubts) > 0:
			why = tr.doubts[0]
		case why == "":
			why = won.toolkit.Root + " (" + won.toolkit.Origin + ") comes first"
		}
		s.Losers = append(s.Losers, Loser{"CUDA toolkit", tr.toolkit.Root, tr.toolkit.Origin, why})
	}
	if won == nil {
		return s, misfit(f, w, tried, s.Losers)
	}
	s.Toolkit, s.Compiler, s.MSVC, s.CUDNN, s.passed = won.toolkit, won.compiler, won.msvc, won.cudnn, won.passed
	s.Losers = append(s.Losers, won.losers...)
	s.Notes = slices.Concat(s.Notes, overruled(f, w, *won.toolkit, s.Losers), won.doubts, won.notes)
	if s.Capability.IsZero() && n.NVCC {
		s.Capability, s.CapabilityOrigin = floor(s, n)
	}
	return s, nil
}

// winner is the first trial that fits; one with a doubt gives way to a later one without, unless the user's environment names it. Of
// trials that the user did not ask for there are none.
func winner(tried []trial) *trial {
	var won *trial
	for i := range tried {
		switch tr := &tried[i]; {
		case tr.why != "":
		case won == nil:
			won = tr
		case len(won.doubts) > 0 && len(tr.doubts) == 0 && !strong(*won.toolkit):
			won = tr
		}
	}
	return won
}

// withoutToolkit finishes a set for crates that need a driver only.
func (s *Set) withoutToolkit(f Facts, n Needs, w Wish) error {
	if order, _ := ranked(f, w); n.RunCUDNN && len(order) > 0 {
		s.CUDNN, _ = cudnnFor(f, n, *order[0], s.Capability)
	}
	if !n.HostCompiler {
		return nil
	}
	c, lost, notes := compilerFor(f, w, nil)
	s.Compiler, s.Losers, s.Notes = c, append(s.Losers, lost...), notes
	if c == nil {
		return &MissingError{
			What: "host compiler", Losers: lost, Places: compilerPlaces(f), Unread: unreadable(f), Fix: CompilerFix(f), Part: PartCompiler,
		}
	}
	v, why := visualStudio(f, c)
	if s.MSVC = v; why != "" {
		return &MissingError{What: "complete Windows SDK: " + why, Unread: unreadable(f), Fix: SDKFix(f), Part: PartSDK}
	}
	return nil
}

// NoToolkitHelps is the error of a machine without a host compiler that anything could be built with, or of an architecture that is none.
func NoToolkitHelps(f Facts, w Wish) error {
	if _, _, err := wanted(f, w); err != nil {
		return err
	}
	return new(Set).withoutToolkit(f, Needs{HostCompiler: true}, w)
}

// Refuses says why no build here would take a release that is not installed; empty: one would, as far as is known before it is.
func Refuses(f Facts, n Needs, w Wish, v gpu.Version) string {
	t := cuda.Published(v)
	arch := gpu.Capability{}
	if list, _, err := wanted(f, w); err == nil { // else NoToolkitHelps has it
		arch, n.Highest = list[0].Capability, list[len(list)-1]
	}
	for _, check := range []func(Facts, Needs, *cuda.Toolkit, gpu.Capability) verdict{versions, driver, archs} {
		if v := check(f, n, &t, arch); v.why != "" || v.doubt != "" {
			return cmp.Or(v.why, v.doubt)
		}
	}
	if !n.NVCC || !anyUsable(f.Compilers) { // which is an error of its own
		return ""
	}
	if c, lost, _ := compilerFor(f, w, &t); c == nil {
		return lost[0].Where + ": " + lost[0].Why
	}
	return ""
}

func asked(w Wish) bool { return w.CUDA != "" && w.CUDA != "fetch" }

// by says where a toolkit was requested, since the user may have forgotten it.
func (w Wish) by() string {
	if w.CUDAOrigin == "" {
		return ""
	}
	return " (" + w.CUDAOrigin + ")"
}

// strong reports whether the user's environment names a toolkit.
func strong(t cuda.Toolkit) bool { return t.Sources[0].Kind < cuda.Given }

// ranked orders the toolkits that can be used at all; the others come back as losers.
func ranked(f Facts, w Wish) (order []*cuda.Toolkit, lost []Loser) {
	agree := agreed(f)
	for i := range f.Toolkits {
		t := &f.Toolkits[i]
		switch {
		case t.Problem != "":
			lost = append(lost, Loser{"CUDA toolkit", t.Root, t.Origin, t.Problem})
		case asked(w) && !wished(*t, w.CUDA):
			lost = append(lost, Loser{"CUDA toolkit", t.Root, t.Origin, notAsked + w.CUDA + w.by()})
		default:
			order = append(order, t)
		}
	}
	rank := func(t *cuda.Toolkit) int {
		switch k := t.Sources[0].Kind; {
		case k == cuda.Variable && t.Real == agree:
			return 0
		case len(t.From(cuda.Environment)) > 0:
			return 1
		case len(t.From(cuda.OnPath)) > 0:
			return 2
		case k == cuda.Variable:
			return 3
		case k == cuda.Given:
			return 4
		}
		return 5
	}
	slices.SortStableFunc(order, func(a, b *cuda.Toolkit) int {
		if ra, rb := rank(a), rank(b); ra != rb || ra < 3 {
			return ra - rb
		}
		return b.Version.Compare(a.Version)
	})
	return order, lost
}

// wished reports whether a toolkit is what "13.2", "13" or a root means.
func wished(t cuda.Toolkit, wish string) bool {
	if strings.ContainsAny(wish, `/\`) {
		p := strings.TrimRight(wish, `/\`)
		if w := (buildenv.Host{OS: buildenv.Windows}); w.IsAbs(t.Root) && !strings.HasPrefix(t.Root, "/") {
			return w.SamePath(p, t.Root) || w.SamePath(p, t.Real)
		}
		return p == t.Root || p == t.Real
	}
	v, err := gpu.ParseVersion(wish)
	if err != nil {
		return false
	}
	return t.Label == wish ||
		t.Version.Major == v.Major && (!strings.Contains(wish, ".") || t.Version == v && strings.Count(wish, ".") == 1)
}

// agreed returns the real root that all root variables name; empty when they differ. A variable that names nothing does not count.
func agreed(f Facts) string {
	root := ""
	for _, t := range f.Toolkits {
		if t.Problem == "" && len(t.From(cuda.Variable)) > 0 {
			if root != "" {
				return ""
			}
			root = t.Real
		}
	}
	return root
}

// NVCCFails begins the problem of a toolkit whose nvcc was started.
const NVCCFails = "its nvcc does not work: "

// disagreements lists the variables that name different toolkits, or none.
func disagreements(f Facts) (notes []string) {
	var parts []string
	for _, t := range f.Toolkits {
		names := t.From(cuda.Variable)
		if t.Root == cuda.AdminLink && t.Problem != "" || len(names) == 0 && strings.HasPrefix(t.Problem, NVCCFails) {
			notes = append(notes, t.Root+" is not used: "+t.Problem)
		}
		if t.NVCC == "" && slices.Contains(t.From(cuda.OnPath), "NVCC") {
			notes = append(notes, "NVCC is "+t.Root+": "+t.Problem)
		}
		if len(names) == 0 {
			continue
		}
		if t.Problem != "" {
			notes = append(notes, fmt.Sprintf("%s is %s: %s", strings.Join(names, ", "), t.Root, t.Problem))
			continue
		}
		parts = append(parts, strings.Join(names, ", ")+" = "+t.Root)
	}
	if len(parts) > 1 {
		notes = append(notes, "the variables name different toolkits: "+strings.Join(parts, "; "))
	}
	return notes
}

// overruled reports that a variable's toolkit was not chosen.
func overruled(f Facts, w Wish, won cuda.Toolkit, lost []Loser) (notes []string) {
	for _, t := range f.Toolkits {
		launcher := t.Problem != "" || t.Version.IsZero() // which is judged by the version that it answers, if it is a program
		if slices.Contains(t.From(cuda.OnPath), "NVCC") && !launcher && t.Real != won.Real && !asked(w) {
			notes = append(notes, fmt.Sprintf("NVCC names %s, which is not used: %s is (%s)", cmp.Or(t.NVCC, t.Root), won.Root, won.Origin))
		}
	}
	if agree := agreed(f); agree != "" && agree != won.Real {
		for _, t := range f.Toolkits {
			if t.Real == agree {
				why := "does not fit"
				for _, l := range lost {
					if l.Where == t.Root {
						why += ": " + l.Why
					}
				}
				if asked(w) && !wished(t, w.CUDA) {
					why = "is not the one asked for" + w.by()
				}
				notes = append(notes, fmt.Sprintf("%s names %s, which %s; %s is used",
					strings.Join(t.From(cuda.Variable), ", "), t.Root, why, won.Root))
			}
		}
	}
	return notes
}

// try looks whether a toolkit fits the crates, the driver and the arch, and which compiler and cuDNN go with it. It reports only the
// first thing that is wrong.
func try(f Facts, n Needs, w Wish, t *cuda.Toolkit, arch gpu.Capability) trial {
	tr := trial{toolkit: t}
	for i, check := range []struct {
		judge func(Facts, Needs, *cuda.Toolkit, gpu.Capability) verdict
		part  Part
	}{
		{complete, PartToolkit}, {versions, PartToolkit}, {driver, PartToolkit}, {archs, PartCapability},
		{links, PartToolkit},
	} {
		v := check.judge(f, n, t, arch)
		if tr.step, tr.part = i, check.part; v.why != "" {
			tr.why, tr.fix = v.why, v.fix
			return tr
		}
		if v.doubt != "" {
			tr.doubts = append(tr.doubts, v.doubt)
		}
	}
	if n.NVCC || n.HostCompiler {
		var gate *cuda.Toolkit
		if n.NVCC {
			gate = t
		}
		c, lost, notes := compilerFor(f, w, gate)
		tr.losers = append(tr.losers, lost...)
		tr.compiler, tr.step, tr.part = c, stepCompiler, PartCompiler
		if c == nil {
			tr.why, tr.fix = noCompiler(f, gate, lost)
			return tr
		}
		tr.notes = append(tr.notes, notes...)
		if tr.passed, tr.fix = passedCXX(f, n, w, gate, c); tr.fix != "" {
			tr.why = tr.passed
			return tr
		}
		if tr.passed != "" {
			tr.passed += "; it gets " + c.Named()
			tr.notes = append(tr.notes, tr.passed)
		}
		v, why := visualStudio(f, c)
		if tr.msvc, tr.step, tr.part = v, stepSDK, PartSDK; why != "" {
			tr.why, tr.fix = "there is no complete Windows SDK: "+why, SDKFix(f)
			return tr
		}
	}
	if n.CUDNN || n.RunCUDNN {
		c, lost := cudnnFor(f, n, *t, arch)
		tr.losers = append(tr.losers, lost...)
		tr.cudnn, tr.step, tr.part = c, stepCUDNN, PartCUDNN
		if c == nil && n.CUDNN {
			tr.why = fmt.Sprintf("there is no cuDNN for CUDA %d", t.Version.Major)
			if len(lost) == 0 {
				tr.why += ": looked at " + cudnn.Places(f.MSVC != nil)
			}
			tr.fix = cudnnFix(f, n, t.Version)
		}
	}
	return tr
}

// ByUse is the origin of a wish in the user's own configuration.
const ByUse = "gpubuild toolchain use"

// IsVersion reports whether a wish reads as a version, and so is not the name of a directory.
func IsVersion(wish string) bool {
	_, err := gpu.ParseVersion(wish)
	return err == nil
}

// First is the toolkit that a build tries first for a wish, which is a version, a root or nothing; the error says why none can be used.
func First(found []cuda.Toolkit, wish string) (cuda.Toolkit, error) {
	f, w := Facts{Toolkits: found}, Wish{CUDA: wish}
	order, lost := ranked(f, w)
	whole := slices.IndexFunc(order, func(t *cuda.Toolkit) bool { return complete(f, Needs{NVCC: true}, t, gpu.Capability{}).why == "" })
	if len(order) == 0 || whole < 0 && wish == "" {
		return cuda.Toolkit{}, noToolkit(f, w, lost)
	}
	return *order[max(whole, 0)], nil
}
