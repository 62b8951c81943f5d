package fresh

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/cache"
	"gpubuild/buildenv/finding"
	"gpubuild/buildenv/lazyregexp"
	"gpubuild/buildenv/memo"
	"gpubuild/buildenv/stale"
	"gpubuild/cmd/internal/fresh/inputs"
	"gpubuild/cmd/internal/session"
	"gpubuild/cmd/internal/version"
	"gpubuild/features/source"
	"gpubuild/gpu"
	"gpubuild/gpu/fatbin"
	"gpubuild/toolchain/cargo/builddir"
)

// reader reads the files of a build directory and remembers what it read.
type reader struct {
	m       *session.Machine
	hashes  *inputs.Hashes
	inputs  map[noted][]stale.Input // of packages, as they were before the build; see inputsOf
	scripts map[string]bool         // the packages whose scripts run in this build
	outs    []builddir.Out          // as they were when the build was looked at
}

func newReader(b Build) *reader {
	hashes := inputs.NewHashes(b.Machine, b.ownDirs()...)
	return &reader{m: b.Machine, hashes: hashes, inputs: map[noted][]stale.Input{}, scripts: map[string]bool{}}
}

// content is what a build script made.
type content struct {
	Files []string   `json:"files"`          // each with its hash, and what the script says to the linker
	Made  []made     `json:"made,omitempty"` // the device code in them, each kind once
	Code  []codeFile `json:"code,omitempty"`
}

// has reports whether all that is in a stamp is still there. What came later, such as a file that a program writes, nobody compiled.
func (c content) has(files []string) bool {
	is := map[string]bool{}
	for _, f := range c.Files {
		is[f] = true
	}
	return !slices.ContainsFunc(files, func(f string) bool { return !is[f] })
}

// codeFile is a file that holds compiled code.
type codeFile struct {
	Name string `json:"name"`
	fatbin.Objects
	Empty bool `json:"empty,omitempty"` // no kernel is in its device code
}

// made is what device code says of its making.
type made struct {
	Arch gpu.Arch `json:"arch"`
	NVCC string   `json:"nvcc,omitempty"` // version with which its compiler signed it; empty: unsigned
	PTX  string   `json:"ptx,omitempty"`  // PTX version, where it is PTX
}

func (m made) String() string {
	text := m.Arch.String() + " code"
	if m.PTX != "" {
		text = "PTX " + m.PTX + " for " + m.Arch.String()
	}
	if m.NVCC != "" {
		text += " from nvcc " + m.NVCC
	}
	return text
}

// withoutCode are the endings of files that hold no device code, though the packages' sources and CMake's own notes fill an
// OUT_DIR with them.
var withoutCode = strings.Fields(".c .cc .cpp .cu .cuh .h .hpp .inl .d .txt .md .json .cmake .make .ninja .toml .py .log .yaml " +
	".yml .pc .ts .internal .marks .in .sh")

// toolkitLibrary are libraries of NVIDIA's that build scripts copy or link:
// they hold kernels of their own for many architectures.
var toolkitLibrary = lazyregexp.New(`^(lib)?(cublas|cudnn|cudart|cudadevrt|cusparse|cusolver|cufft|curand|cutensor|` +
	`npp|nccl|nvrtc|nvjpeg|nvJitLink|culibos|nvshmem)`)

// below lists the files below an OUT_DIR that may hold device code or are Rust, and the directories that were looked at. What
// CMake compiled to get to know its compilers (CMakeFiles/*/CompilerIdCUDA, CMakeDetermineCompilerABI_CUDA.bin, CMakeScratch, CMakeTmp:
// cmake-developer notes on CMakeDetermineCompilerId) is for another architecture than the build.
func below(h buildenv.Host, outDir string) (files, dirs []string, err error) {
	dirs = []string{outDir}
	complete, err := h.Walk(outDir, func(path, rel string, e fs.DirEntry, isDir bool) bool {
		name := e.Name()
		switch {
		case isDir:
			ofCMake := strings.HasPrefix(name, "CompilerId") || name == "CMakeScratch" || name == "CMakeTmp"
			if name == ".git" || ofCMake || !e.IsDir() {
				return false
			}
			dirs = append(dirs, path)
		case slices.Contains(withoutCode, strings.ToLower(h.Ext(name))) || strings.HasPrefix(name, "CMakeDetermineCompilerABI"):
		case toolkitLibrary.MatchString(name):
		default:
			if fi, err := h.Files.Stat(path); err == nil && fi.Mode().IsRegular() {
				files = append(files, path)
			}
		}
		return true
	})
	if err == nil && !complete {
		err = fmt.Errorf("%s holds more than %d files", outDir, buildenv.MostEntries)
	}
	return files, dirs, err
}

// codeKind names the cache entries about the device code of files.
const codeKind = "code-6"

// contentOf reads what a build script made, or takes what was read when nothing there has changed since.
func (r *reader) contentOf(outDir string) (content, error) {
	outDir = r.m.Host.Clean(outDir)
	store, key := r.m.Memo(), memo.Key(version.Number(), outDir)
	var kept content
	if store.GetJSON(codeKind, key, &kept) {
		return kept, nil
	}
	files, watched, err := below(r.m.Host, outDir)
	if err != nil {
		return content{}, err
	}
	watched = append(watched, builddir.Printed(r.m.Host, outDir))
	state := store.Watch(slices.Concat(watched, files)...)
	found, sums := content{}, map[string]bool{}
	for _, path := range files {
		name := strings.TrimPrefix(path, outDir)
		fi, err := r.m.Host.Files.Stat(path)
		if err != nil {
			return found, err
		}
		if fi.Size() > memo.Largest { // such as a model that a build script fetched, or a hole
			sums[fmt.Sprintf("file %s large %d %d", name, fi.Size(), fi.ModTime().UnixNano())] = true
			continue
		}
		sum, err := cache.Hash(path)
		if err != nil {
			return found, err
		}
		sums["file "+name+" "+sum] = true
		if fi.Size() == 0 || strings.EqualFold(r.m.Host.Ext(name), ".rs") {
			continue
		}
		report, err := fatbin.ScanFile(r.m.Host, path)
		if err != nil {
			return found, err
		}
		// nvcc leaves an empty image of each source that has no kernel
		kernels := slices.ContainsFunc(report.Images, func(im fatbin.Image) bool { return len(im.Kernels) > 0 })
		for _, im := range report.Images {
			m := made{im.Arch, im.Toolkit, im.PTXVersion}
			if (!kernels || len(im.Kernels) > 0) && !slices.Contains(found.Made, m) {
				found.Made = append(found.Made, m)
			}
		}
		if o := report.Objects(r.m.Host, path, sum); len(o.Device)+len(o.Host) > 0 {
			found.Code = append(found.Code, codeFile{name[1:], o, len(o.Device) > 0 && !kernels})
		}
	}
	said, err := builddir.Output(r.m.Host, outDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return found, err
	}
	for _, rule := range said.Rules {
		sums["rule "+rule] = true
	}
	found.Files = sorted(sums)
	if err := store.PutJSON(codeKind, key, state, found); err != nil {
		r.m.Shell.Detail("what the build's files hold is not kept: %v", err)
	}
	return found, nil
}

func sorted(set map[string]bool) []string { return slices.Sorted(maps.Keys(set)) }

// otherCode says that a build script that has just run did not use the chosen nvcc, or not for the chosen architecture: none of the device
// code that it made is of that release, or for that capability. Empty: it did, or nothing shows it.
func (s *State) otherCode(o outDir) string {
	t, want := s.b.Tools.Set.Toolkit, gpu.Arch{Capability: s.b.Tools.Set.Capability, Suffix: s.b.Tools.Set.Suffix}
	if t == nil || !o.pkg.Inputs.Arch || len(o.content.Made) == 0 {
		return ""
	}
	var signed made
	ofRelease, forArch := false, want.Capability.IsZero()
	for _, m := range o.content.Made {
		if v, err := gpu.ParseVersion(m.NVCC); err == nil {
			signed = m
			ofRelease = ofRelease || v.Major == t.Version.Major && v.Minor == t.Version.Minor
		}
		forArch = forArch || m.Arch.Capability == want.Capability || m.Arch.Capability.IsZero()
	}
	switch {
	case signed.NVCC != "" && !ofRelease:
		return fmt.Sprintf("%s did not use the chosen nvcc: it holds %s; nvcc %s was chosen", o.pkg.Name, signed, t.Version)
	case !forArch:
		return fmt.Sprintf("%s holds %s; %s was chosen", o.pkg.Name, o.content.Made[0], want)
	}
	return ""
}

// warnOfCode warns of what otherCode says.
func (s *State) warnOfCode(o outDir) {
	if text := s.otherCode(o); text != "" {
		s.say(finding.Finding{ID: "stale.other-code", Message: text,
			Fix: "look in " + s.b.Machine.Shown(s.b.scriptFile(o.pkg.ScriptUnit)) +
				" for a fixed path, an architecture of its own, or kernels that come compiled"})
	}
}

// warnOfEmpty warns of an object without a kernel that nvcc made of an input that can be read only once: it reads one for each pass (13.5,
// -c of /dev/stdin and a pipe).
func (s *State) warnOfEmpty(o outDir, k knowledge) {
	for _, f := range o.content.Code {
		if f.Empty && slices.ContainsFunc(f.Device, func(sum string) bool { return k.records.Once[sum] }) {
			s.say(finding.Finding{ID: "stale.other-code", Message: fmt.Sprintf("%s: nvcc left no kernel in %s, whose source it read from a pipe",
				o.pkg.Name, f.Name), Fix: "write the source to a file and name that: nvcc reads its input more than once"})
		}
	}
}

// noteUnknown says once for a package why not all that its build script read is known.
func (s *State) noteUnknown(o outDir, k knowledge) {
	text := fmt.Sprintf("%s: %s, so every file of the package counts", o.pkg.Name, k.why)
	if source.Unchanging(s.b.Machine.Host, o.pkg.Dir) || slices.Contains(s.noted, text) {
		return
	}
	s.noted = append(s.noted, text)
	s.b.Machine.Shell.Note("%s", text)
	if k.unseen {
		s.b.Machine.Shell.Hint("headers are known where a build script runs `nvcc` from PATH, NVIDIA's own program, with the kernel cache on")
	}
}
