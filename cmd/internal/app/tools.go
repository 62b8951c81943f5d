package app

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/cache"
	"gpubuild/buildenv/local"
	"gpubuild/features"
	"gpubuild/features/manifest"
	"gpubuild/gpu"
	"gpubuild/gpu/driver"
	"gpubuild/toolchain"
	"gpubuild/toolchain/cargo"
	"gpubuild/toolchain/cuda"
	"gpubuild/toolchain/cudnn"
	"gpubuild/toolchain/install"
	"gpubuild/toolchain/rocm"
)

// needsOf puts what the crates ask for into the toolchain's words; features and toolchain know nothing of each other.
func needsOf(a *features.Answer) toolchain.Needs {
	n := toolchain.Needs{
		NVCC: a.Needs.NVCC, NVCCVersion: a.Needs.NVCCVersion, HostCompiler: a.Needs.HostCXX, Libraries: a.Needs.CUDALibs, CUDNN: a.Needs.CUDNN,
		EmbedsPTX: a.Needs.EmbedsPTX, CUDA: a.Needs.CUDA, ROCm: a.Needs.ROCm, CudarcMax: a.CudarcMax, Pin: a.Pin,
	}
	n.MaxBy, _, _ = strings.Cut(a.MaxBy, " ")
	for _, b := range a.Needs.Because {
		line := b.Need + ": " + b.Crate
		if b.Why != "" {
			line += " (" + b.Why + ")"
		}
		n.Because = append(n.Because, line)
	}
	return n
}

// readers lists who reads the variables that we may set: the build crates of the graph, and what the user's own build scripts name.
func (j *journey) readers() []string {
	seen := map[string]bool{}
	for _, u := range j.reach.Units {
		for _, name := range u.Inputs.Env {
			seen[name] = true
		}
	}
	if j.graph.Units == nil {
		return nil // not known: every known reader
	}
	for _, u := range j.graph.Units.Units {
		switch name := manifest.ParsePkgID(u.PkgID).Name; name {
		case "cudarc":
			// Its script declares the roots' variables in any case, and cargo compares them as text: set for nobody, they would make it and all
			// that depends on it anew with every other toolkit.
			seen[name] = seen[name] || j.cudarcReadsRoot()
		case "cudaforge", "bindgen_cuda", "cust_raw", "cmake":
			seen[name] = true
		case "find_cuda_helper":
			seen["cust_raw"] = true
		}
	}
	out := make([]string, 0, len(seen))
	for name, reads := range seen {
		if reads {
			out = append(out, name)
		}
	}
	sort.Strings(out)
	return out
}

// cudarcReadsRoot says whether any cudarc of this build, those of build scripts included, takes anything from a toolkit's root.
func (j *journey) cudarcReadsRoot() bool {
	for _, c := range j.reach.Cudarc {
		if !c.Rootless {
			return true
		}
	}
	return len(j.reach.Cudarc) == 0 // not known
}

// untold is the file that says that a build directory's kernels were built without CUDA_COMPUTE_CAP, because nvidia-smi answers the same. Setting the
// variable in a later build, when no GPU is asked any more, would make cargo rebuild them all.
func (j *journey) untold() string {
	return j.Host.Join(j.CacheDir, "untold", cache.Name(j.graph.Places.BuildDirectory))
}

// keepUntold remembers it after a build.
func (j *journey) keepUntold() {
	_, told := j.Env.Lookup("CUDA_COMPUTE_CAP")
	was := j.Host.IsFile(j.untold())
	var err error
	switch is := !told && !j.Set.Capability.IsZero(); {
	case is && !was:
		if err = cache.Make(filepath.Dir(j.untold())); err == nil {
			err = cache.WriteFile(j.untold(), nil, 0o600)
		}
	case !is && was:
		err = os.Remove(j.untold())
	}
	if err != nil {
		j.Shell.Detail("not remembered how the architecture was told: %v", err)
	}
}

// chooseTools finds what is there, chooses what fits and makes the build's environment.
func (j *journey) chooseTools(ctx context.Context) error {
	if err := cache.Closed(j.CacheDir); err != nil { // toolkits in it are run
		return err
	}
	j.Needs = needsOf(j.reach)
	j.Needs.Reads = j.readers()
	known := j.Needs
	found, err := j.needHidden()
	if err != nil {
		return err
	}
	for _, b := range j.Needs.Because {
		j.Shell.Detail("needs %s", b)
	}
	own := j.Host
	given := j.takeGiven()
	wish, extra, err := j.wish(ctx)
	if err != nil {
		return err
	}
	j.hidden = found
	found.remembered(&wish)
	j.gather(ctx, wish, extra)
	j.Set, err = toolchain.Choose(j.Facts, j.Needs, wish)
	if err != nil && found.pkg != "" {
		j.Shell.Warning("no toolkit is set up for %s, and kernels that it may compile are not checked (%s): %v", found.pkg, found.why, err)
		j.Needs, j.hidden = known, hidden{}
		j.Set, err = toolchain.Choose(j.Facts, j.Needs, wish)
	}
	if err != nil {
		return err
	}
	if err := j.joinCUDNN(); err != nil {
		return err
	}
	if err := toolchain.Planted(j.Host, j.Set, j.compilesIn()); err != nil {
		return err
	}
	for _, note := range toolchain.Unreadable(j.Host, j.Needs, j.graph.Places.TargetDirectory) {
		j.Shell.Warning("%s", note)
	}
	j.Delta = toolchain.Environment(j.Host, j.Set, j.Needs)
	j.Env = j.Host.Apply(j.Host.Env, j.Delta)
	j.Tool = j.Tool.With(j.Env)
	chosen := len(j.Delta.Changes)
	j.keepGiven(given)
	// A shell or a file is given what [env] tables hold, too: only cargo reads those, and the file may take their place.
	j.ExportFrom, j.Exported = own.Env, toolchain.Environment(own, j.Set, j.Needs)
	j.Exported.Changes = append(j.Exported.Changes, j.Delta.Changes[chosen:]...)
	j.tellTools()
	j.tellUnlinkable()
	return nil
}

// tellUnlinkable warns of libraries that the linker will not find, before everything is compiled to find that out.
func (j *journey) tellUnlinkable() {
	if v := j.Line.Verb; !j.Needs.Libraries || v == "check" || v == "clippy" || !j.Line.Links() {
		return
	}
	if missing := j.unlinkable(j.Set, j.Env); len(missing) > 0 {
		j.Shell.Warning("the linker will not find %s: neither %s has them nor a directory where it looks by itself", strings.Join(missing, ", "), j.Set.Toolkit.Named())
		j.Shell.Hint(toolchain.LinkFix)
	}
}

// unlinkable lists the files that the linker will not find for what the project's programs are linked with.
func (j *journey) unlinkable(set toolchain.Set, env buildenv.Env) []string {
	libraries := j.linkedLibraries()
	if len(libraries) == 0 || j.namesLinkDirs() {
		return nil
	}
	return toolchain.Unlinkable(j.Host, set, env, libraries)
}

// linkWords are what cargo's configuration has where it names directories for the linker: in rustflags, or in a table that stands for a build script.
var linkWords = regexp.MustCompile(`(?s)rustflags.*(-L|link-arg)|rustc-link-search|rustc-flags`)

// namesLinkDirs says whether cargo's configuration may name directories for the linker, by its words: then nothing is known of what it finds.
func (j *journey) namesLinkDirs() bool {
	for _, c := range j.Line.Config {
		if linkWords.MatchString(c) {
			return true
		}
	}
	for _, file := range cargo.ConfigFiles(j.Host, j.Tool, j.Line) {
		text, err := j.Host.ReadFile(file, 1<<20)
		if err != nil || linkWords.Match(text) {
			return true // one that cannot be read may say anything
		}
	}
	return false
}

// linkedLibraries lists the libraries that the project's programs are linked with.
func (j *journey) linkedLibraries() (libraries []string) {
	for _, need := range j.reach.Needs.Run {
		if strings.HasPrefix(need.Need, "lib") && need.Why == "to start" {
			libraries = append(libraries, need.Need)
		}
	}
	return libraries
}

// joinCUDNN gives a cuDNN whose parts lie apart one root, in our cache.
func (j *journey) joinCUDNN() error {
	if j.Set.CUDNN == nil || !j.Set.CUDNN.Split {
		return nil
	}
	c := *j.Set.CUDNN
	root, err := install.Overlay(j.Host, j.CacheDir, c.Version, c.Include, c.Lib)
	if err != nil {
		return err
	}
	c.Root, c.Real = root, j.Host.Real(root)
	j.Set.CUDNN = &c
	return nil
}

// compilesIn lists the directories in which nvcc will be run: cargo runs a package's build script in the directory of its manifest.
func (j *journey) compilesIn() []string {
	dirs := []string{j.Host.Cwd}
	for _, u := range j.reach.Units {
		if u.Inputs.NVCC && u.Dir != "" && !contains(dirs, u.Dir) {
			dirs = append(dirs, u.Dir)
		}
	}
	return dirs
}

// wish is what the user asked for, the strongest word first, and the toolkits that only we know of.
func (j *journey) wish(ctx context.Context) (toolchain.Wish, []cuda.Candidate, error) {
	w := toolchain.Wish{CUDA: j.options.Toolkit, CCBin: j.options.CCBin, Unchecked: toolchain.Unchecked(j.Host.Env)}
	from := "--gpu-toolkit"
	if w.CUDA == "" {
		w.CUDA, from = j.Host.Env.Get("GPUBUILD_CUDA"), "GPUBUILD_CUDA"
	}
	if w.CUDA == "" {
		w.CUDA, from = j.Config.CUDA.Value, j.Config.CUDA.Origin
	}
	if w.CUDA == "" {
		u, err := j.user()
		if err != nil {
			return w, nil, err
		}
		if w.CUDA = u.CUDA; w.CUDA != "" {
			from, w.CUDAOrigin = byUse, byUse
		}
	}
	w.Backend, w.BackendOrigin = toolchain.BackendWish(j.options.Backend, j.Host.Env)
	w.Arch, w.ArchOrigin = toolchain.ArchWish(j.options.Arch, j.Host.Env, j.Config.Arch.Value, j.Config.Arch.Origin)
	previous := j.builtFor()
	w.Previous, w.PreviousSuffix = previous.Capability, previous.Suffix
	w.PreviousUnset = !w.Previous.IsZero() && j.Host.IsFile(j.untold())
	var extra []cuda.Candidate
	if w.CUDA == "fetch" {
		root, err := j.fetch(ctx)
		if err != nil {
			return w, nil, err
		}
		if w.CUDA = root; root != "" {
			return w, []cuda.Candidate{{Root: root, Origin: from + "=fetch"}}, nil
		}
	}
	if strings.ContainsAny(w.CUDA, `/\`) {
		w.CUDA = j.Host.Abs(w.CUDA)
		extra = append(extra, cuda.Candidate{Root: w.CUDA, Origin: from})
	}
	for _, in := range install.Installed(j.Host, j.CacheDir) {
		origin := "gpubuild's cache"
		if w.CUDAOrigin != "" && w.CUDA == in.CUDA.String() {
			origin += ", " + byUse
		}
		extra = append(extra, cuda.Candidate{Root: in.Root, Origin: origin})
	}
	return w, extra, nil
}

// toFetch is what toolchain.Choose would take of all that can be fetched.
func toFetch(n toolchain.Needs, d gpu.Driver) install.Want {
	want := install.Want{LinkStubs: n.Libraries}
	if n.CUDNN {
		want.Parts = append(install.Default(), "cudnn")
	}
	limit := func(v gpu.Version, why string) {
		if !v.IsZero() && (want.MaxVersion.IsZero() || v.Compare(want.MaxVersion) < 0) {
			want.MaxVersion, want.MaxBecause = v, why
		}
	}
	switch {
	case !n.Pin.IsZero() && n.Libraries:
		want.Pin = n.Pin
	case n.Pin.IsZero():
		limit(n.CudarcMax, "the newest that the locked "+orWord(n.MaxBy, "cudarc")+" knows")
	}
	if d.Version != "" && n.EmbedsPTX {
		limit(d.CUDA, "the newest that driver "+d.Version+" takes PTX of")
	}
	return want
}

// fetch gets a toolkit into the cache when the crates need one; the flag was the user's consent.
func (j *journey) fetch(ctx context.Context) (string, error) {
	if !j.Needs.Toolkit() {
		j.Shell.Note("nothing is fetched: these crates need a driver only")
		return "", nil
	}
	plan, err := j.planToolkit(ctx, toFetch(j.Needs, driver.Version(j.Host)), "")
	if err != nil {
		return "", err
	}
	return j.carryOut(ctx, plan)
}

// carryOut says what a plan means, and does it.
func (a *app) carryOut(ctx context.Context, plan install.Plan) (string, error) {
	if !plan.Installed {
		for i, l := range plan.Lines() {
			if i == 0 {
				a.Shell.Status("Fetching", "%s", l)
			} else {
				a.Shell.Status("", "%s", l)
			}
		}
	}
	there := a.CacheDir // or the nearest directory above it that is
	for !a.Host.IsDir(there) && a.Host.Dir(there) != there {
		there = a.Host.Dir(there)
	}
	if err := plan.Fits(local.FreeSpace(there)); err != nil {
		return "", err
	}
	return plan.Run(ctx, a.Runner, func(s string) { a.Shell.Status("Installing", "%s", s) })
}

// gather finds what this machine has. A GPU is asked for only when it decides something: a driver's start costs a tenth of a second and more.
func (j *journey) gather(ctx context.Context, w toolchain.Wish, extra []cuda.Candidate) {
	j.Facts.Driver = driver.Version(j.Host)
	j.Facts.LibCUDA = toolchain.DriverLibrary(j.Host)
	if w.Arch == "" && w.Previous.IsZero() && (j.Needs.NVCC || j.Needs.Libraries) {
		j.takeInventory(ctx)
	}
	if j.Needs.ROCm {
		j.Facts.ROCm = rocm.Find(j.Host)
	}
	if !j.Needs.Toolkit() && !j.Needs.HostCompiler {
		return
	}
	j.Facts.Toolkits, j.Facts.CodePage = cuda.Find(j.Host, extra), j.Host.CodePage()
	j.Facts.Places = cuda.UsualPlaces(j.Host)
	var asked []string
	if w.CCBin != "" {
		asked = []string{w.CCBin}
	}
	j.findCompilers(ctx, &j.Facts, asked...)
	if j.Needs.CUDNN {
		var roots []string
		for _, t := range j.Facts.Toolkits {
			if t.Problem == "" {
				roots = append(roots, t.Root)
			}
		}
		j.Facts.CUDNN = cudnn.Find(j.Host, roots, nil)
	}
}

func (j *journey) takeInventory(ctx context.Context) {
	d, devices, notes := driver.Inventory(ctx, j.Host, j.Runner, j.Self)
	j.Facts.Driver, j.Facts.Devices, j.DriverNotes = d, devices, notes
	for _, n := range notes {
		j.Shell.Detail("%s", n)
	}
}

// tellTools says in a line or two what was chosen; the losers when verbose.
func (j *journey) tellTools() {
	s := j.Set
	switch {
	case s.Toolkit != nil:
		line := fmt.Sprintf("%s (%s)", s.Toolkit.Named(), s.Toolkit.Origin)
		if s.Compiler != nil {
			line += fmt.Sprintf(", %s %s (%s)", s.Compiler.Kind, s.Compiler.Version, s.Compiler.Path)
		}
		if s.CUDNN != nil {
			line += fmt.Sprintf(", cuDNN %s (%s)", s.CUDNN.Version, s.CUDNN.Origin)
		}
		j.Shell.Status("Locating", "%s", line)
	case s.ROCm != nil:
	case j.Needs.CUDA:
		j.Shell.Status("Locating", "no toolkit and no nvcc is needed: these crates load the driver when they run")
	}
	if s.ROCm != nil {
		j.Shell.Status("Locating", "%s (%s)", s.ROCm, s.ROCm.Origin)
	}
	if !s.Capability.IsZero() && j.Needs.NVCC {
		j.Shell.Status("Targeting", "%s (%s)", gpu.Arch{Capability: s.Capability, Suffix: s.Suffix}, s.CapabilityOrigin)
	}
	for _, n := range s.Notes {
		j.Shell.Warning("%s", n)
	}
	for _, t := range j.Line.Target {
		if toolchain.Foreign(j.Host, t) && (j.Needs.NVCC || j.Needs.Libraries) {
			j.Shell.Warning("rustc builds for %s, and toolkit, host compiler and libraries are chosen for this machine's own processor: nvcc's objects and CUDA's libraries will not link there; PTX is the same everywhere", t)
		}
	}
	if left := toolchain.LeftOut(j.Delta); left != "" {
		j.Shell.Warning("%s", left)
	}
	for _, l := range s.Losers {
		j.Shell.Detail("not %s", l)
	}
	for _, c := range j.Delta.Changes {
		j.Shell.Detail("%s", changeLine(c))
	}
}

func changeLine(c buildenv.Change) string {
	switch c.Op {
	case buildenv.Unset:
		return fmt.Sprintf("unset %s: %s", c.Name, c.Reason)
	case buildenv.Prepend:
		return fmt.Sprintf("%s begins with %s: %s", c.Name, c.Value, c.Reason)
	case buildenv.Append:
		return fmt.Sprintf("%s ends with %s: %s", c.Name, c.Value, c.Reason)
	}
	return fmt.Sprintf("%s=%s: %s", c.Name, c.Value, c.Reason)
}
