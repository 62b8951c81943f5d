package app

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"sort"
	"strings"
	"time"

	"gpubuild/buildenv"
	"gpubuild/buildenv/cache"
	"gpubuild/buildenv/stale"
	"gpubuild/features"
	"gpubuild/gpu"
	"gpubuild/gpu/fatbin"
	"gpubuild/toolchain/cargo"
)

// wanted is what the device code of this build should be.
func (j *journey) wanted(ctx context.Context, in features.Inputs) stale.Want {
	if j.signs == nil {
		j.signs = &stale.Want{}
		if t := j.set.Toolkit; t != nil {
			j.signs.NVCC = j.signatures(ctx)
			release := t.Version // the headers', which are packaged apart from the compiler: what that says of itself counts
			if len(j.signs.NVCC) > 0 {
				if v, err := gpu.ParseVersion(j.signs.NVCC[0]); err == nil {
					release = v
				}
			}
			j.signs.PTX, _ = fatbin.WrittenBy(release)
		}
	}
	w := stale.Want{}
	if in.NVCC {
		w = *j.signs
	}
	if in.Arch {
		w.Arch.Capability, w.Arch.Suffix = j.set.Capability, j.set.Suffix
	}
	return w
}

// signatures lists the versions with which the chosen toolkit's tools sign: ptxas signs cubins, cicc PTX, and pip's wheels of them are versioned one by
// one. They stand in the tools themselves, which are read once. A tool that does not show one may be a script before the real one, which is asked.
func (j *journey) signatures(ctx context.Context) []string {
	t := j.set.Toolkit
	h := j.openHashes()
	defer h.keep(j.app)
	var out []string
	add := func(v string) {
		if v != "" && !contains(out, v) {
			out = append(out, v)
		}
	}
	nvcc := j.host.Real(t.NVCC)
	for _, path := range compilerFiles(j, t) {
		if name := strings.TrimSuffix(j.host.Base(path), ".exe"); path != nvcc && name != "ptxas" && name != "cicc" {
			continue
		}
		v, err := h.known("signature ", path, func(string) (string, error) {
			f, err := j.host.Files.Open(path)
			if err != nil {
				return "", err
			}
			defer f.Close()
			v, err := fatbin.Signature(f)
			if err == nil && v == "" && path == nvcc {
				v = j.asked(ctx, nvcc)
			}
			return v, err
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			j.shell.Detail("the version of %s is not known: %v", path, err)
		}
		add(v)
	}
	return out
}

// asked is the version that nvcc says when it is run.
func (j *journey) asked(ctx context.Context, nvcc string) string {
	res, err := j.run.Run(ctx, buildenv.Cmd{Path: nvcc, Args: []string{"--version"}, Env: j.env.Entries()})
	if err != nil {
		j.shell.Detail("%s --version: %v", nvcc, err)
		return ""
	}
	v, err := fatbin.Signature(bytes.NewReader(res.Stdout))
	if err != nil {
		return ""
	}
	return v
}

// conclusion is what was found out of a package whose code is not what was asked for although it had just been built from nothing: it will not
// be otherwise when it is built again.
type conclusion struct {
	PkgID    string `json:"pkg_id"`
	Features string `json:"features"`
	Want     string `json:"want"`
	Found    string `json:"found"` // hash of the mismatches
	Wrong    string `json:"wrong,omitempty"`
	// ScriptRan is when the script ran of which this was found, where it must be looked at again once it has run again: it may have been mended,
	// or copy other files. 0: it holds for every run.
	ScriptRan int64 `json:"script_ran,omitempty"`
	// Script is the hash of the build script that was concluded of: another one may do otherwise.
	Script string `json:"script"`
}

const (
	conclusionsSchema = 1
	keptConclusions   = 256
)

type conclusions struct {
	Schema int          `json:"schema"`
	List   []conclusion `json:"list"` // oldest first
}

// conclusionsPath lies beside the record: a build directory that CI restores brings them along.
func (j *journey) conclusionsPath() string {
	return j.host.Join(j.answers.Places.BuildDirectory, ".gpubuild-result.json")
}

// readConclusions reads them; what cannot be read costs one more build of the packages that it spoke of.
func (j *journey) readConclusions() {
	if j.concluded != nil {
		return
	}
	j.concluded = &conclusions{}
	data, err := j.host.ReadFile(j.conclusionsPath(), recordLimit)
	if err == nil {
		err = json.Unmarshal(data, j.concluded)
		if err == nil && j.concluded.Schema != conclusionsSchema {
			err = fmt.Errorf("it is of schema %d, this gpubuild knows %d", j.concluded.Schema, conclusionsSchema)
		}
	}
	if err != nil {
		j.concluded = &conclusions{}
		if !errors.Is(err, fs.ErrNotExist) {
			j.shell.Detail("%s: %v; it is written anew", j.conclusionsPath(), err)
		}
	}
}

func (j *journey) conclude(list []conclusion) error {
	if len(list) == 0 {
		return nil
	}
	j.readConclusions()
	kept := j.concluded.List[:0:0]
	for _, old := range j.concluded.List {
		replaced := false
		for _, c := range list {
			replaced = replaced || old.PkgID == c.PkgID && old.Features == c.Features && old.Want == c.Want
		}
		if !replaced {
			kept = append(kept, old)
		}
	}
	kept = append(kept, list...)
	j.concluded.Schema, j.concluded.List = conclusionsSchema, kept[max(0, len(kept)-keptConclusions):]
	data, err := json.MarshalIndent(j.concluded, "", " ")
	if err != nil {
		return err
	}
	return cache.WriteFile(j.conclusionsPath(), append(data, '\n'), 0o644)
}

// scriptHash is of the Rust sources beside a package's manifest, of which the build script is one; what it includes from elsewhere is not seen.
func (j *journey) scriptHash(u features.ScriptUnit) string {
	sum := sha256.New()
	for _, name := range j.names(u.Dir) {
		if j.host.Ext(name) != ".rs" {
			continue
		}
		text, err := cache.Hash(j.host.Join(u.Dir, name))
		if err != nil {
			text = err.Error()
		}
		fmt.Fprintln(sum, name, text)
	}
	return hex.EncodeToString(sum.Sum(nil)[:12])
}

// concludedOf answers what is known of a mistake already.
func (j *journey) concludedOf(f *mistake) (conclusion, bool) {
	j.readConclusions()
	for _, c := range j.concluded.List {
		if c.PkgID == f.unit.PkgID && (f.beyond || c.Features == f.features) && c.Want == f.want.String() && c.Found == f.sum() && (c.ScriptRan == 0 || c.ScriptRan == f.scriptRan) &&
			c.Script == j.scriptHash(f.unit) {
			return c, true
		}
	}
	return conclusion{}, false
}

// mistake is one package unit whose code is not what was asked for.
type mistake struct {
	unit      features.ScriptUnit
	features  string
	outDir    string
	scriptRan int64
	want      stale.Want
	code      []stale.Code // all that it holds
	list      []stale.Mismatch
	paths     []string // of the file of each
	linked    string   // the program that holds older code than the package; empty: the package itself
	told      string   // where the mismatches' own words do not fit
	beyond    bool     // of a package of which only its code shows that it compiles kernels
}

func (f *mistake) sum() string {
	sum := sha256.Sum256([]byte(f.linked + "\x00" + stale.Sum(f.list)))
	return hex.EncodeToString(sum[:12])
}

func (f *mistake) words() string {
	switch {
	case f.told != "":
		return f.told
	case f.linked != "":
		return fmt.Sprintf("%s holds %s of %s, which was built since", f.linked, f.list[0].Found, f.unit.Name)
	}
	return stale.Told(f.unit.Name, f.list, f.want)
}

// sawBefore remembers which scripts had run before the build: what their OUT_DIRs hold may be left over from then.
func (j *journey) sawBefore() {
	j.before = map[string]int64{}
	for _, u := range j.reach.Units {
		for _, out := range j.outDirs(u.Name) {
			j.before[j.host.Clean(out)] = cargo.ScriptRan(j.host, out)
		}
	}
	for _, out := range j.outDirsOf(j.localNames()) {
		j.before[j.host.Clean(out)] = cargo.ScriptRan(j.host, out)
	}
	j.buildBegan = time.Now()
}

// fresh says whether code was made in this very run, so that cleaning would bring the same again: the package was cleaned or had never been built, or
// each of the files was written since cargo started.
func (j *journey) fresh(f *mistake) bool {
	if f.linked != "" {
		return j.cleaned[f.unit.Name]
	}
	if j.cleaned[f.unit.Name] || j.before[j.host.Clean(f.outDir)] == 0 {
		return true
	}
	for _, path := range f.paths {
		fi, err := j.host.Files.Stat(path)
		if err != nil || fi.ModTime().Before(j.buildBegan) {
			return false
		}
	}
	return len(f.paths) > 0
}

// output is what there is of one unit of a GPU package.
type output struct {
	unit      features.ScriptUnit
	outDir    string
	cfgs      []string // that its script told rustc
	libraries []string
	beyond    bool // of a package of which only its code shows that it compiles kernels
}

// outputs are those of the build, by cargo's word.
func (j *journey) outputs() []output {
	var out []output
	for _, m := range j.messages {
		if m.Reason != cargo.ScriptExecuted {
			continue
		}
		u, ok := strictest(j.unitsOf(m.PackageID, m.OutDir))
		beyond := false
		if !ok || !u.Inputs.NVCC {
			if u, beyond = j.beyond(m); !beyond {
				continue
			}
			j.keepTook(u, m.OutDir)
		}
		out = append(out, output{u, m.OutDir, m.Cfgs, j.libraries(u), beyond})
	}
	return out
}

// libraries are those that cargo made of a unit: what its script made elsewhere than in OUT_DIR ends there.
func (j *journey) libraries(u features.ScriptUnit) []string {
	var out []string
	for _, m := range j.messages {
		if m.Reason != cargo.Artifact || m.PackageID != u.PkgID || contains(m.Target.Kind, "custom-build") ||
			len(j.scriptSets()[u.PkgID]) > 1 && featureKey(m.Features) != featureKey(u.Features) {
			continue
		}
		for _, path := range m.Filenames {
			switch strings.ToLower(j.host.Ext(path)) {
			case ".rlib", ".a", ".lib", ".so", ".dll", ".dylib":
				out = append(out, path)
			}
		}
	}
	return out
}

// mistakes holds the device code of outputs, and of programs made of them, against what was asked for.
func (j *journey) mistakes(ctx context.Context, outputs []output, products []string) ([]*mistake, error) {
	r := j.openResults()
	defer r.keep(j.app)
	var out []*mistake
	seenDir := map[string]bool{}
	code := map[string]holding{} // by OUT_DIR
	units := map[string]features.ScriptUnit{}
	for _, o := range outputs {
		u := o.unit
		if seenDir[o.outDir] || !o.beyond && !u.Inputs.NVCC {
			continue
		}
		seenDir[o.outDir] = true
		f := &mistake{unit: u, features: featureKey(u.Features), outDir: o.outDir, scriptRan: cargo.ScriptRan(j.host, o.outDir), want: j.wanted(ctx, u.Inputs)}
		if !u.Inputs.Arch { // it compiles nothing and asked nvcc for its version
			if was, is := scriptCUDA(o.cfgs), j.set.Toolkit; was != "" && is != nil && was != is.Version.String() {
				f.list = []stale.Mismatch{{Code: stale.Code{File: "its build script's words", Makes: []stale.Make{{NVCC: was}}}, By: stale.ByNVCC, Found: stale.Make{NVCC: was}}}
				f.told = fmt.Sprintf("%s was built for CUDA %s; the build asked for %s", u.Name, was, is.Version)
				out = append(out, f)
			}
			continue
		}
		held, err := j.holds(o.outDir)
		if err != nil {
			j.shell.Detail("%s is not checked: %v", u.Name, err)
			continue
		}
		if len(held.code) > 0 {
			code[o.outDir], units[o.outDir] = held, u
			if o.beyond {
				j.holdBeyond(f, held)
			} else {
				j.mismatches(f, held)
			}
		} else if o.beyond {
			continue
		} else if held, err = j.inLibraries(o.libraries); err == nil {
			j.mismatches(f, held)
			j.leaveOwn(f)
			r.keepLibraries(o)
		}
		if err != nil {
			j.shell.Detail("%s is not checked: %v", u.Name, err)
		}
		if len(f.list) > 0 {
			out = append(out, f)
		}
	}
	linked, err := j.olderInPrograms(code, units, products)
	if err != nil {
		return nil, err
	}
	return append(out, linked...), nil
}

// inLibraries reads the device code of a package's libraries.
func (j *journey) inLibraries(paths []string) (holding, error) {
	var out holding
	for _, path := range paths {
		s, err := j.codeOf(path)
		if err != nil {
			return out, err
		}
		out.add(path, s)
	}
	return out, nil
}

// leaveOwn leaves of a mistake what is of kernels in the package's own sources: a library holds those of static libraries, too, which others compiled.
func (j *journey) leaveOwn(f *mistake) {
	var list []stale.Mismatch
	var paths []string
	for i, m := range f.list {
		own, err := j.isOwn(f, m.Code, f.paths[i])
		if err != nil {
			j.shell.Detail("%s is not checked: %v", f.unit.Name, err)
		}
		if own {
			list, paths = append(list, m), append(paths, f.paths[i])
		}
	}
	f.list, f.paths = list, paths
}

// mismatches fills a mistake with the code of a holding that is not what was asked for. What cannot be decided is told only when verbose.
func (j *journey) mismatches(f *mistake, held holding) {
	f.code = held.code
	found := stale.Hold(held.code, f.want)
	for _, m := range found.Mismatches {
		f.list, f.paths = append(f.list, m), append(f.paths, held.path[m.At])
	}
	if n := len(found.Open); n > 0 {
		j.shell.Detail("%s is not checked in %d places: %s", f.unit.Name, n, found.Open[0])
	}
}

// olderInPrograms looks for kernels that the packages' OUT_DIRs hold, and that a program holds only as made otherwise: it was linked before they
// were built anew. Names alone are no proof, since other packages and NVIDIA's libraries may have a kernel of the same name; so a program is at fault
// only when it holds the kernel and none of it is as the packages have it.
func (j *journey) olderInPrograms(code map[string]holding, units map[string]features.ScriptUnit, products []string) ([]*mistake, error) {
	r := j.openResults()
	var dirs []string
	sum := sha256.New()
	for dir := range code {
		dirs = append(dirs, dir)
	}
	sort.Strings(dirs)
	for _, dir := range dirs {
		for _, path := range code[dir].path {
			fmt.Fprintln(sum, path, r.Files[path].Is)
		}
	}
	state := hex.EncodeToString(sum.Sum(nil)[:12])
	var (
		out   []*mistake
		built map[string][]stale.Make // by kernel
		owner map[string]string       // OUT_DIR of a kernel
	)
	for _, path := range products {
		is := j.look(path) + " " + state
		if len(dirs) == 0 || r.Programs[path] == is {
			continue
		}
		if built == nil {
			var err error
			if built, owner, err = j.builtKernels(dirs, code); err != nil {
				return nil, err
			}
		}
		report, err := j.scan(path)
		if err != nil {
			return nil, err
		}
		found := map[string]*mistake{}
		kernels := byKernel(report.Images)
		for _, kernel := range sortedNames(kernels) {
			held := kernels[kernel]
			if kernel == "" || len(built[kernel]) == 0 || agree(held, built[kernel]) {
				continue
			}
			dir := owner[kernel]
			f := found[dir]
			if f == nil {
				u := units[dir]
				f = &mistake{unit: u, features: featureKey(u.Features), outDir: dir, scriptRan: cargo.ScriptRan(j.host, dir), linked: j.shown(path)}
				found[dir] = f
				out = append(out, f)
			}
			f.list = append(f.list, stale.Mismatch{Code: stale.Code{File: f.linked, Kernel: kernel, Kernels: 1, Makes: held}, By: stale.ByNVCC, Found: held[0]})
			f.paths = append(f.paths, path)
		}
		if len(found) == 0 {
			r.Programs[path], r.dirty = is, true
		}
	}
	return out, nil
}

func sortedNames(kernels map[string][]stale.Make) []string {
	names := make([]string, 0, len(kernels))
	for k := range kernels {
		names = append(names, k)
	}
	sort.Strings(names)
	return names
}

// products are the programs of the build and the libraries that other programs load.
func (j *journey) products() []string {
	var out []string
	for _, p := range j.programs {
		if p.Kind != "test" || j.line.Verb == "test" || j.line.Verb == "bench" {
			out = append(out, p.Path)
		}
	}
	for _, m := range j.messages {
		if m.Reason != cargo.Artifact || !contains(m.Target.CrateTypes, "cdylib") {
			continue
		}
		for _, path := range m.Filenames {
			switch strings.ToLower(j.host.Ext(path)) {
			case ".so", ".dll", ".dylib":
				out = append(out, path)
			}
		}
	}
	return out
}

// builtKernels lists every kernel of the OUT_DIRs with all the ways in which it was made there, and one OUT_DIR that holds it.
func (j *journey) builtKernels(dirs []string, code map[string]holding) (built map[string][]stale.Make, owner map[string]string, err error) {
	built, owner = map[string][]stale.Make{}, map[string]string{}
	for _, dir := range dirs {
		for i, path := range code[dir].path {
			if i > 0 && path == code[dir].path[i-1] {
				continue
			}
			report, err := j.scan(path)
			if err != nil {
				return nil, nil, err
			}
			for kernel, makes := range byKernel(report.Images) {
				built[kernel], owner[kernel] = append(built[kernel], makes...), dir
			}
		}
	}
	return built, owner, nil
}

// agree says whether any of what a program holds of a kernel is what was built of it. Only what is told of both is compared; where nothing is, and
// where intermediate code becomes something else when it is linked, they agree.
func agree(held, built []stale.Make) bool {
	compared := false
	for _, b := range built {
		if b.Kind == fatbin.LTO {
			return true
		}
		for _, h := range held {
			var same bool
			switch {
			case h.NVCC != "" && b.NVCC != "":
				same = h.NVCC == b.NVCC
			case h.PTX != "" && b.PTX != "":
				same = h.PTX == b.PTX
			default:
				continue
			}
			if same && h.Arch.Capability == b.Arch.Capability {
				return true
			}
			compared = true
		}
	}
	return !compared
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
		j.shell.Hint("leave --gpu-no-clean out, or run cargo " + strings.Join(cargo.Clean(j.tool, j.line, again, j.platforms()).Args, " "))
		return codeError(codeStale)
	}
	if len(again) > 0 {
		for _, f := range list {
			if contains(again, f.unit.Name) {
				j.shell.Status("Wrong", "%s", f.words())
				for _, m := range f.list[:min(len(f.list), 3)] {
					j.shell.Detail("%s", m)
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
	j.shell.Status("Cleaned", "%s", strings.Join(packages, ", "))
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
				j.shell.Detail("as told before: %s", f.words())
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
			j.shell.Note("%s: %s", f.words(), why)
		}
		learned = append(learned, c)
	}
	if err := j.conclude(learned); err != nil {
		j.shell.Warning("%v; what was found out of the packages is found out again next time", err)
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
	j.shell.Hint(j.remedy(wrong[0]))
	return codeError(codeStale)
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
			if !j.host.Below(f.paths[0], dir) {
				dir = j.host.Dir(f.paths[0])
			}
			text += "\n  in " + j.shown(dir)
		}
		j.shell.Error("%s", text)
	}
}

// remedy says what to do about code that a package makes wrongly by itself.
func (j *journey) remedy(f *mistake) string {
	script := j.shown(j.host.Join(f.unit.Dir, "build.rs"))
	anew := "`gpubuild build --gpu-force-clean` builds it anew"
	for _, m := range f.list {
		if m.By == stale.ByNVCC && f.linked == "" {
			return fmt.Sprintf("its build script does not use %s: look in %s for a fixed path, a variable of its own, or compiled kernels that it keeps outside the target directory; then %s",
				j.set.Toolkit.NVCC, script, anew)
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
			j.shell.Detail("the sources of %s cannot be read: %v", f.unit.Name, err)
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
