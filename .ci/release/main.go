// Command release makes the archives of a release: for each platform one file with the program, licence, README, completions and manual
// page, SHA256SUMS over all of them, and a bill of materials (CycloneDX 1.5) of each program. Two runs on one commit, wherever they are,
// give the same bytes.
//
//	go run .ci/release/main.go -version 0.2.0 -out dist
//
// It stands outside of ./..., because pre-commit builds and installs every main package that it finds there.
//
// Names are those that cargo-binstall tries by itself (its SUPPORT.md, "Defaults"): {name}-{target}-v{version}.tgz, .zip for Windows,
// with one folder of that name, below releases/download/v{version}. On Linux the target is called musl: the programs are static and run
// on both, and binstall tries musl after gnu. The manifest of a crate that only leads there:
//
//	[package.metadata.binstall]
//	pkg-url = "{ repo }/releases/download/v{ version }/{ name }-{ target }-v{ version }{ archive-suffix }"
//	bin-dir = "{ name }-{ target }-v{ version }/{ bin }{ binary-ext }"
//	disabled-strategies = ["quick-install", "compile"]
package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"sort"
	"strconv"
	"strings"
	"time"
)

const name = "gpubuild"

// target is a platform, in Go's words and in Rust's.
type target struct{ os, arch, triple string }

var targets = []target{
	{"linux", "amd64", "x86_64-unknown-linux-musl"},
	{"linux", "arm64", "aarch64-unknown-linux-musl"},
	{"windows", "amd64", "x86_64-pc-windows-msvc"},
	{"windows", "arm64", "aarch64-pc-windows-msvc"},
	{"darwin", "amd64", "x86_64-apple-darwin"},
	{"darwin", "arm64", "aarch64-apple-darwin"},
}

func (t target) exe(name string) string {
	if t.os == "windows" {
		return name + ".exe"
	}
	return name
}

// stem is the name of the archive without its suffix, and of the folder in it.
func (t target) stem(version string) string { return name + "-" + t.triple + "-v" + version }

func (t target) archive(version string) string {
	if t.os == "windows" {
		return t.stem(version) + ".zip"
	}
	return t.stem(version) + ".tgz"
}

// entry is a file of an archive.
type entry struct {
	path string // with slashes, below the folder
	data []byte
	exec bool
}

// release is one run.
type release struct {
	root, out, version, commit, docs string
	when                             time.Time // of the commit: what every file carries
	work, zig                        string
	overlay                          string // for go build: where the compiled programs of the probe are
}

func main() {
	var r release
	var only string
	flag.StringVar(&r.root, "root", ".", "the checkout")
	flag.StringVar(&r.out, "out", "dist", "where the files go; must be empty or not there")
	flag.StringVar(&r.version, "version", "", "the version, such as 0.2.0")
	flag.StringVar(&r.commit, "commit", "", "the commit; left out, git is asked")
	flag.StringVar(&r.docs, "docs", "", "where docs/ is published, such as https://example.org/gpubuild/; left out, findings name `gpubuild explain ID`")
	flag.StringVar(&r.zig, "zig", "zig", "the zig that compiles the probe, version "+zigVersion)
	flag.StringVar(&only, "targets", "", "only these, as os/arch with commas")
	flag.Parse()
	if err := r.run(only); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

var semver = regexp.MustCompile(`^\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?$`)

// docsURL is an address that findings lead to, or none.
var docsURL = regexp.MustCompile(`^(https://[A-Za-z0-9./_~-]+/)?$`)

func (r *release) run(only string) error {
	r.version = strings.TrimPrefix(r.version, "v")
	if !semver.MatchString(r.version) {
		return fmt.Errorf("-version %q is not one such as 0.2.0", r.version)
	}
	if !docsURL.MatchString(r.docs) {
		return fmt.Errorf("-docs %q is no https address that ends in a slash", r.docs)
	}
	chosen, err := choose(only)
	if err != nil {
		return err
	}
	if old, err := os.ReadDir(r.out); err == nil && len(old) > 0 {
		return fmt.Errorf("%s is not empty: what lies there could be taken for a part of this release", r.out)
	}
	if err := r.askGit(); err != nil {
		return err
	}
	if r.work, err = os.MkdirTemp("", "gpubuild-release-"); err != nil {
		return err
	}
	defer os.RemoveAll(r.work)
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return err
	}
	if err := r.probes(); err != nil {
		return err
	}
	shared, err := r.shared()
	if err != nil {
		return err
	}
	var made []string
	for _, t := range chosen {
		names, err := r.make(t, shared)
		if err != nil {
			return fmt.Errorf("%s: %w", t.triple, err)
		}
		made = append(made, names...)
	}
	return r.sums(made)
}

func choose(only string) ([]target, error) {
	if only == "" {
		return targets, nil
	}
	var out []target
	for _, w := range strings.Split(only, ",") {
		n := len(out)
		for _, t := range targets {
			if w == t.os+"/"+t.arch {
				out = append(out, t)
			}
		}
		if len(out) == n {
			return nil, fmt.Errorf("-targets %q: nothing is released for it", w)
		}
	}
	return out, nil
}

// askGit learns the commit and its time. SOURCE_DATE_EPOCH goes before (https://reproducible-builds.org/specs/source-date-epoch/).
func (r *release) askGit() error {
	git := func(args ...string) (string, error) {
		c := exec.Command("git", append([]string{"-C", r.root}, args...)...)
		c.Stderr = os.Stderr
		out, err := c.Output()
		return strings.TrimSpace(string(out)), err
	}
	epoch := os.Getenv("SOURCE_DATE_EPOCH")
	if r.commit == "" {
		if status, err := git("status", "--porcelain", "--untracked-files=no"); err != nil || status != "" {
			return errors.Join(err, fmt.Errorf("%s is not a clean checkout: a release is made of a commit\n%s", r.root, status))
		}
		var err error
		if r.commit, err = git("rev-parse", "HEAD"); err != nil {
			return err
		}
		if epoch == "" {
			if epoch, err = git("log", "-1", "--format=%ct"); err != nil {
				return err
			}
		}
	}
	n, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil || n < 315532800 {
		return fmt.Errorf("SOURCE_DATE_EPOCH %q is no time since 1980, which zip needs", epoch)
	}
	r.when = time.Unix(n, 0).UTC()
	return nil
}

// zigVersion is that of the compiler of the probe's programs: with another one a release would have other bytes.
const zigVersion = "0.16.0"

// programs are those of gpu/probe that a release for Linux carries, so that a machine with a GPU needs no compiler. What is loaded into
// other programs, or loads a driver, is for glibc, from 2.17 (2014); the watcher is static.
var programs = []struct {
	source, name string
	shared       bool
	libc         string
}{
	{"probe.c", "libgpubuild_probe.so", true, "gnu.2.17"},
	{"control.c", "gpubuild-control", false, "gnu.2.17"},
	{"watch.c", "gpubuild-watch", false, "musl"},
	{"layer.c", "libgpubuild_layer.so", true, "gnu.2.17"},
	{"control_vulkan.c", "gpubuild-vulkan-control", false, "gnu.2.17"},
}

// probes compiles them, and lets go build find them where gpu/probe embeds them; the checkout stays as it is.
func (r *release) probes() error {
	said, err := exec.Command(r.zig, "version").Output()
	if version := strings.TrimSpace(string(said)); err != nil || version != zigVersion {
		return errors.Join(err, fmt.Errorf("%s is zig %q, not %s: pip install ziglang==%[3]s has it", r.zig, version, zigVersion))
	}
	root, err := filepath.Abs(r.root)
	if err != nil {
		return err
	}
	replace := map[string]string{}
	for goarch, arch := range map[string]string{"amd64": "x86_64", "arm64": "aarch64"} {
		for _, p := range programs {
			out := filepath.Join(r.work, "linux-"+goarch, p.name)
			if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil {
				return err
			}
			args := []string{"cc", "-target", arch + "-linux-" + p.libc, "-std=c11", "-O2", "-pthread", "-s", "-o", out, p.source, "-ldl"}
			if p.shared {
				args = append(args, "-shared", "-fPIC", "-fvisibility=hidden", "-Wl,-z,nodelete")
			}
			c := exec.Command(r.zig, args...)
			c.Dir, c.Stderr = filepath.Join(root, "gpu", "probe", "csrc"), os.Stderr
			if err := c.Run(); err != nil {
				return fmt.Errorf("%s for %s: %w", p.source, arch, err)
			}
			replace[filepath.Join(root, "gpu", "probe", "released", "linux-"+goarch, p.name)] = out
		}
	}
	data, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return err
	}
	r.overlay = filepath.Join(r.work, "overlay.json")
	return os.WriteFile(r.overlay, data, 0o600)
}

// build compiles the program with nothing of this machine in it.
func (r *release) build(t target) (string, error) {
	out := filepath.Join(r.work, t.os+"-"+t.arch, t.exe(name))
	flags := "-s -w -buildid= -X 'gpubuild/cmd/internal/version.release=" + r.version + " " + r.commit + "'"
	if r.docs != "" {
		flags += " -X gpubuild/cmd/internal/version.docs=" + r.docs
	}
	c := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-tags=release", "-overlay="+r.overlay, "-o", out, "-ldflags="+flags, "./cmd/gpubuild")
	c.Dir = r.root
	for _, e := range os.Environ() {
		switch n, _, _ := strings.Cut(e, "="); n {
		case "GOFLAGS", "GOEXPERIMENT", "GOAMD64", "GOARM64", "GODEBUG", "GOFIPS140", "CGO_ENABLED", "GOOS", "GOARCH", "GOWORK":
		default:
			c.Env = append(c.Env, e)
		}
	}
	c.Env = append(c.Env, "CGO_ENABLED=0", "GOOS="+t.os, "GOARCH="+t.arch, "GOWORK=off", "GOFLAGS=-mod=readonly")
	c.Stdout, c.Stderr = os.Stderr, os.Stderr
	return out, c.Run()
}

// shared are the files that every archive has besides the program; completions and manual are what the program itself prints.
func (r *release) shared() ([]entry, error) {
	var out []entry
	for _, n := range []string{"LICENSE", "README.md"} {
		data, err := os.ReadFile(filepath.Join(r.root, n))
		if err != nil {
			return nil, err
		}
		out = append(out, entry{path: n, data: data})
	}
	self, err := r.build(target{os: runtime.GOOS, arch: runtime.GOARCH})
	if err != nil {
		return nil, err
	}
	for what, path := range map[string]string{
		"bash": "completions/gpubuild.bash",
		"zsh":  "completions/_gpubuild",
		"fish": "completions/gpubuild.fish",
		"pwsh": "completions/gpubuild.ps1",
		"man":  "man/gpubuild.1",
	} {
		c := exec.Command(self, "completion", what)
		c.Stderr = os.Stderr
		data, err := c.Output()
		if err != nil || len(data) == 0 {
			return nil, errors.Join(err, fmt.Errorf("completion %s printed %d bytes", what, len(data)))
		}
		out = append(out, entry{path: path, data: data})
	}
	return out, nil
}

// make writes the archive and the bill of materials of one platform and answers their names.
func (r *release) make(t target, shared []entry) ([]string, error) {
	program, err := r.build(t)
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(program)
	if err != nil {
		return nil, err
	}
	bom, err := r.materials(t, program, data)
	if err != nil {
		return nil, err
	}
	entries := append([]entry{{path: t.exe(name), data: data, exec: true}, {path: name + ".cdx.json", data: bom}}, shared...)
	sort.Slice(entries, func(i, j int) bool { return entries[i].path < entries[j].path })
	pack := tgz
	if t.os == "windows" {
		pack = zipped
	}
	packed, err := pack(t.stem(r.version), entries, r.when)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{t.archive(r.version): packed, t.stem(r.version) + ".cdx.json": bom}
	var names []string
	for n, data := range files {
		names = append(names, n)
		if err := os.WriteFile(filepath.Join(r.out, n), data, 0o644); err != nil {
			return nil, err
		}
	}
	return names, nil
}

// tgz packs for Unix: sorted names, one time, no owner.
func tgz(folder string, entries []entry, when time.Time) ([]byte, error) {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	w := tar.NewWriter(z)
	for _, e := range entries {
		mode := int64(0o644)
		if e.exec {
			mode = 0o755
		}
		h := &tar.Header{
			Typeflag: tar.TypeReg,
			Name:     folder + "/" + e.path,
			Size:     int64(len(e.data)),
			Mode:     mode,
			ModTime:  when,
			Format:   tar.FormatUSTAR,
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(e.data); err != nil {
			return nil, err
		}
	}
	err = errors.Join(w.Close(), z.Close())
	return b.Bytes(), err
}

// zipped packs for Windows.
func zipped(folder string, entries []entry, when time.Time) ([]byte, error) {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, e := range entries {
		h := &zip.FileHeader{Name: folder + "/" + e.path, Method: zip.Deflate, Modified: when}
		mode := os.FileMode(0o644)
		if e.exec {
			mode = 0o755
		}
		h.SetMode(mode)
		f, err := w.CreateHeader(h)
		if err != nil {
			return nil, err
		}
		if _, err := f.Write(e.data); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return b.Bytes(), err
}

// sums writes SHA256SUMS as sha256sum(1) does, so that `sha256sum -c` reads it.
func (r *release) sums(names []string) error {
	sort.Strings(names)
	var b strings.Builder
	for _, n := range names {
		data, err := os.ReadFile(filepath.Join(r.out, n))
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%s  %s\n", digest(data), n)
	}
	return os.WriteFile(filepath.Join(r.out, "SHA256SUMS"), []byte(b.String()), 0o644)
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// CycloneDX 1.5, https://cyclonedx.org/docs/1.5/json/. Only what is known is said: licences of modules are not, so none is named.
type (
	cdx struct {
		Schema       string          `json:"$schema"`
		Format       string          `json:"bomFormat"`
		Spec         string          `json:"specVersion"`
		Version      int             `json:"version"`
		Metadata     cdxMetadata     `json:"metadata"`
		Components   []cdxComponent  `json:"components"`
		Dependencies []cdxDependency `json:"dependencies"`
	}
	cdxMetadata struct {
		Timestamp string       `json:"timestamp"`
		Component cdxComponent `json:"component"`
	}
	cdxComponent struct {
		Type     string        `json:"type"`
		Ref      string        `json:"bom-ref"`
		Name     string        `json:"name"`
		Version  string        `json:"version"`
		PURL     string        `json:"purl,omitempty"`
		Licenses []cdxLicense  `json:"licenses,omitempty"`
		Hashes   []cdxHash     `json:"hashes,omitempty"`
		Props    []cdxProperty `json:"properties,omitempty"`
	}
	cdxLicense struct {
		License struct {
			ID string `json:"id"`
		} `json:"license"`
	}
	cdxHash struct {
		Alg     string `json:"alg"`
		Content string `json:"content"`
	}
	cdxProperty struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	}
	cdxDependency struct {
		Ref       string   `json:"ref"`
		DependsOn []string `json:"dependsOn"`
	}
)

// materials says what a program is made of, by what Go wrote into it (debug/buildinfo; `go version -m` shows the same).
func (r *release) materials(t target, program string, data []byte) ([]byte, error) {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return nil, err
	}
	main := cdxComponent{
		Type:     "application",
		Ref:      name + "@" + r.version,
		Name:     name,
		Version:  r.version,
		Hashes:   []cdxHash{{"SHA-256", digest(data)}},
		Props:    []cdxProperty{{"gpubuild:commit", r.commit}, {"gpubuild:target", t.triple}},
		Licenses: make([]cdxLicense, 1),
	}
	main.Licenses[0].License.ID = "MIT"
	standard := strings.TrimPrefix(info.GoVersion, "go")
	parts := []cdxComponent{
		{Type: "library", Ref: "pkg:golang/std@" + standard, Name: "std", Version: standard, PURL: "pkg:golang/std@" + standard},
	}
	for _, d := range info.Deps {
		if d.Replace != nil {
			return nil, fmt.Errorf("%s is replaced: a release is made of published modules", d.Path)
		}
		c := cdxComponent{Type: "library", Name: d.Path, Version: d.Version, PURL: "pkg:golang/" + d.Path + "@" + d.Version}
		c.Ref = c.PURL
		if d.Sum != "" {
			c.Props = []cdxProperty{{"go:sum", d.Sum}}
		}
		parts = append(parts, c)
	}
	refs := make([]string, len(parts))
	for i, p := range parts {
		refs[i] = p.Ref
	}
	bom := cdx{
		"http://cyclonedx.org/schema/bom-1.5.schema.json",
		"CycloneDX",
		"1.5",
		1,
		cdxMetadata{r.when.Format(time.RFC3339), main},
		parts,
		[]cdxDependency{{main.Ref, refs}},
	}
	out, err := json.MarshalIndent(bom, "", "  ")
	return append(out, '\n'), err
}
