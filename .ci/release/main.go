// Command release makes the files of a release: for each platform an archive with the program, licences, README, completions and manual
// page, its bill of materials (CycloneDX 1.5), and a wheel; for Linux .deb and .rpm packages and an OCI image with the program alone;
// install.sh and install.ps1, which hold the archives' SHA-256, and with -address a Homebrew formula, a Scoop and a winget manifest
// (pack.py); SHA256SUMS over all of them. Two runs on one commit, wherever they are, give the same bytes. It needs Go, python3, zig or
// PyPI's ziglang, and Go's module proxy for nfpm.
//
//	go run .ci/release/main.go -version 0.2.0 -out dist [-address https://HOST/OWNER/REPOSITORY]
//
// On Linux x86_64 gcc also makes x86_64-unknown-linux-gnu-nvml, which reads GPUs by NVML (cgo, dynamic). Its GLIBC.txt names the oldest C
// library that it runs on; other bytes are possible with another gcc. Installers and packages take the static program.
//
// It stands outside of ./..., because pre-commit builds and installs every main package that it finds there.
//
// Names are {name}-{target}-v{version}.tgz, .zip for Windows, with one folder of that name. On Linux the target is called musl: the
// programs are static, and run on glibc, too.
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

	"gpubuild/toolchain/loader"
)

const name = "gpubuild"

// target is a platform, in Go's words and in Rust's. nvml: with cgo, by this machine's gcc.
type target struct {
	os, arch, triple string
	nvml             bool
}

var targets = []target{
	{os: "linux", arch: "amd64", triple: "x86_64-unknown-linux-musl"},
	{os: "linux", arch: "arm64", triple: "aarch64-unknown-linux-musl"},
	{os: "windows", arch: "amd64", triple: "x86_64-pc-windows-msvc"},
	{os: "windows", arch: "arm64", triple: "aarch64-pc-windows-msvc"},
	{os: "darwin", arch: "amd64", triple: "x86_64-apple-darwin"},
	{os: "darwin", arch: "arm64", triple: "aarch64-apple-darwin"},
	{os: "linux", arch: "amd64", triple: "x86_64-unknown-linux-gnu-nvml", nvml: true},
}

// name is what -targets calls it.
func (t target) name() string {
	if t.nvml {
		return t.os + "/" + t.arch + "/nvml"
	}
	return t.os + "/" + t.arch
}

// canMake is false for a program that another machine's gcc has to compile.
func (t target) canMake() bool { return !t.nvml || runtime.GOOS == t.os && runtime.GOARCH == t.arch }

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
	address                          string    // of the repository that publishes it; empty: no text names a place
	work                             string
	zig                              []string          // the command
	overlay                          map[string]string // for go build, by platform: where the compiled programs of the probe are
}

func main() {
	var r release
	var only, zig string
	flag.StringVar(&r.root, "root", ".", "the checkout")
	flag.StringVar(&r.out, "out", "dist", "where the files go; must be empty or not there")
	flag.StringVar(&r.version, "version", "", "the version, such as 0.2.0")
	flag.StringVar(&r.commit, "commit", "", "the commit; left out, git is asked")
	flag.StringVar(&r.docs, "docs", "", "where docs/ is published, such as https://example.org/gpubuild/; left out, findings name `gpubuild explain ID`")
	flag.StringVar(&r.address, "address", "", "the repository that publishes the release, such as https://HOST/OWNER/REPOSITORY; left out, no text names one")
	flag.StringVar(&zig, "zig", "", "the zig that compiles the probe, version "+zigVersion+"; left out, zig on PATH, else `python3 -m ziglang`")
	flag.StringVar(&only, "targets", "", "only these, as os/arch with commas; linux/amd64/nvml is the one with NVML")
	flag.Parse()
	r.zig = findZig(zig)
	if err := r.run(only); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

var semver = regexp.MustCompile(`^\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?$`)

// findZig is the command that starts zig. A path may be relative to where this is called: zig is started in another directory.
func findZig(named string) []string {
	if named == "" {
		if _, err := exec.LookPath("zig"); err != nil {
			return []string{"python3", "-m", "ziglang"}
		}
		return []string{"zig"}
	}
	if abs, err := filepath.Abs(named); err == nil && strings.ContainsRune(filepath.ToSlash(named), '/') {
		named = abs
	}
	return []string{named}
}

// addressURL is that of a repository, or none.
var addressURL = regexp.MustCompile(`^(https://[A-Za-z0-9._~-]+(/[A-Za-z0-9._~-]+)+)?$`)

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
	if !addressURL.MatchString(r.address) {
		return fmt.Errorf("-address %q is no https address of a repository, without a slash at its end", r.address)
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
	packed, err := r.pack()
	if err != nil {
		return err
	}
	return r.sums(append(made, packed...))
}

// pack has pack.py make what is made from the archives, and answers the names.
func (r *release) pack() ([]string, error) {
	c := exec.Command("python3", filepath.Join(r.root, ".ci", "release", "pack.py"), r.out, r.version, strconv.FormatInt(r.when.Unix(), 10), r.address)
	c.Stderr, c.Env = os.Stderr, goEnv()
	out, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("pack.py: %w", err)
	}
	return strings.Fields(string(out)), nil
}

func choose(only string) ([]target, error) {
	var out []target
	if only == "" {
		for _, t := range targets {
			if t.canMake() {
				out = append(out, t)
			} else {
				fmt.Fprintf(os.Stderr, "release: no %s: only Linux x86_64 makes it\n", t.triple)
			}
		}
		return out, nil
	}
	for _, w := range strings.Split(only, ",") {
		n := len(out)
		for _, t := range targets {
			if w == t.name() && t.canMake() {
				out = append(out, t)
			}
		}
		if len(out) == n {
			return nil, fmt.Errorf("-targets %q: nothing is released for it from %s/%s", w, runtime.GOOS, runtime.GOARCH)
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

// programs are those of gpu/probe that a release carries, by platform, so that a machine with a GPU needs no compiler. What is loaded into
// other programs of Linux, or loads a driver, is for glibc, from 2.17 (2014); the watcher is static. On Windows they need its own C library.
var programs = []struct {
	platforms, source, name, target string
	shared                          bool
}{
	{"linux/amd64 linux/arm64", "probe.c", "libgpubuild_probe.so", "linux-gnu.2.17", true},
	{"linux/amd64 linux/arm64", "control.c", "gpubuild-control", "linux-gnu.2.17", false},
	{"linux/amd64 linux/arm64", "watch.c", "gpubuild-watch", "linux-musl", false},
	{"linux/amd64 linux/arm64", "layer.c", "libgpubuild_layer.so", "linux-gnu.2.17", true},
	{"linux/amd64 linux/arm64", "control_vulkan.c", "gpubuild-vulkan-control", "linux-gnu.2.17", false},
	{"windows/amd64", "probe.c", "gpubuild_probe.dll", "windows-gnu", true},
	{"windows/amd64", "control.c", "gpubuild-control.exe", "windows-gnu", false},
	{"windows/amd64", "watch_windows.c", "gpubuild-watch.exe", "windows-gnu", false},
}

// carries reports whether a platform's program has the probe in it.
func (t target) carries() bool { return t.os == "linux" || t.os == "windows" && t.arch == "amd64" }

// probes compiles them, and lets go build find them where gpu/probe embeds them; the checkout stays as it is.
func (r *release) probes() error {
	said, err := r.zigCommand("version").Output()
	if version := strings.TrimSpace(string(said)); err != nil || version != zigVersion {
		return errors.Join(err, fmt.Errorf("`%s` is zig %q, not %s: `pip install ziglang==%[3]s`, and it is found", strings.Join(r.zig, " "), version, zigVersion))
	}
	root, err := filepath.Abs(r.root)
	if err != nil {
		return err
	}
	replace := map[string]map[string]string{}
	for _, p := range programs {
		for _, platform := range strings.Fields(p.platforms) {
			system, goarch, _ := strings.Cut(platform, "/")
			out := filepath.Join(r.work, system+"-"+goarch, p.name)
			if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil {
				return err
			}
			arch := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[goarch]
			args := []string{"cc", "-target", arch + "-" + p.target, "-std=c11", "-O2", "-s", "-o", out, p.source}
			if p.shared {
				args = append(args, "-shared")
			}
			if system == "linux" {
				args = append(args, "-pthread", "-ldl")
			} else {
				args = append(args, "-Wno-macro-redefined") // zig names Windows 10 before the source names 8
			}
			if p.shared && system == "linux" {
				args = append(args, "-fPIC", "-fvisibility=hidden", "-Wl,-z,nodelete")
			}
			c := r.zigCommand(args...)
			c.Dir, c.Stderr = filepath.Join(root, "gpu", "probe", "csrc"), os.Stderr
			if err := c.Run(); err != nil {
				return fmt.Errorf("%s for %s: %w", p.source, platform, err)
			}
			if replace[platform] == nil {
				replace[platform] = map[string]string{}
			}
			replace[platform][filepath.Join(root, "gpu", "probe", "released", p.name)] = out
		}
	}
	r.overlay = map[string]string{}
	for platform, files := range replace {
		data, err := json.Marshal(map[string]any{"Replace": files})
		if err != nil {
			return err
		}
		r.overlay[platform] = filepath.Join(r.work, strings.ReplaceAll(platform, "/", "-")+".json")
		if err := os.WriteFile(r.overlay[platform], data, 0o600); err != nil {
			return err
		}
	}
	return nil
}

func (r *release) zigCommand(args ...string) *exec.Cmd {
	return exec.Command(r.zig[0], append(r.zig[1:len(r.zig):len(r.zig)], args...)...)
}

// build compiles the program with nothing of this machine in it.
func (r *release) build(t target) (string, error) {
	out := filepath.Join(r.work, t.triple, t.exe(name))
	flags := "-s -w -buildid= -X 'gpubuild/cmd/internal/version.release=" + r.version + " " + r.commit + "'"
	if r.address != "" {
		flags += " -X gpubuild/cmd/internal/version.address=" + r.address
	}
	if r.docs != "" {
		flags += " -X gpubuild/cmd/internal/version.docs=" + r.docs
	}
	c := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-tags=release", "-overlay="+r.overlay[t.os+"/"+t.arch], "-o", out, "-ldflags="+flags, "./cmd/gpubuild")
	c.Dir, c.Env = r.root, append(goEnv(), "CGO_ENABLED=0", "GOOS="+t.os, "GOARCH="+t.arch)
	if t.nvml {
		c.Env = append(c.Env, "CGO_ENABLED=1", "CC=gcc")
	}
	c.Stdout, c.Stderr = os.Stderr, os.Stderr
	return out, c.Run()
}

// goEnv is this environment without what changes what the go command makes.
func goEnv() []string {
	var out []string
	for _, e := range os.Environ() {
		switch n, _, _ := strings.Cut(e, "="); n {
		case "GOFLAGS", "GOEXPERIMENT", "GOAMD64", "GOARM64", "GODEBUG", "GOFIPS140", "CGO_ENABLED", "CGO_CFLAGS", "CGO_LDFLAGS", "CC", "GOOS", "GOARCH", "GOWORK":
		default:
			out = append(out, e)
		}
	}
	return append(out, "GOWORK=off", "GOFLAGS=-mod=readonly")
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
		if what == "man" {
			c = exec.Command(self, what)
		}
		c.Stderr = os.Stderr
		data, err := c.Output()
		if err != nil || len(data) == 0 {
			return nil, errors.Join(err, fmt.Errorf("%v printed %d bytes", c.Args, len(data)))
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
	glibc := loader.NeedsGlibc(program)
	if t.nvml == (glibc == "") {
		return nil, fmt.Errorf("it names %q as the C library that it needs", glibc)
	}
	bom, licences, err := r.materials(t, program, data)
	if err != nil {
		return nil, err
	}
	if t.nvml {
		shared = append(shared[:len(shared):len(shared)], entry{path: "GLIBC.txt", data: []byte("This gpubuild needs Linux x86_64 with glibc " + glibc + " or newer.\n")})
	}
	entries := append([]entry{{path: t.exe(name), data: data, exec: true}, {path: name + ".cdx.json", data: bom},
		{path: "THIRD-PARTY.txt", data: licences}}, shared...)
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

// CycloneDX 1.5, https://cyclonedx.org/docs/1.5/json/.
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
		Expression string `json:"expression"` // of SPDX
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

// licence is the expression of SPDX for the texts of a component, and the texts. One that is not recognized is an error.
func licence(dir string, files ...string) (expression, text string, err error) {
	for _, file := range files {
		names, err := filepath.Glob(filepath.Join(dir, file))
		if err != nil {
			return "", "", err
		}
		for _, n := range names {
			data, err := os.ReadFile(n)
			if err != nil {
				return "", "", err
			}
			text += strings.TrimSpace(string(data)) + "\n\n"
		}
	}
	flat := strings.Join(strings.Fields(text), " ")
	var ids []string
	for _, l := range []struct{ id, has string }{
		{"MIT", "Permission is hereby granted, free of charge, to any person obtaining a copy"}, {"Apache-2.0", "Apache License"},
		{"ISC", "Permission to use, copy, modify, and/or distribute"},
	} {
		if strings.Contains(flat, l.has) {
			ids = append(ids, l.id)
		}
	}
	switch third := regexp.MustCompile("Neither the name|may not be used to endorse"); {
	case !strings.Contains(flat, "Redistribution and use in source and binary forms"):
	case strings.Contains(flat, "Zope Public License (ZPL) Version 2.1"):
		ids = append(ids, "ZPL-2.1")
	case third.MatchString(flat):
		ids = append(ids, "BSD-3-Clause")
	default:
		ids = append(ids, "BSD-2-Clause")
	}
	if len(ids) == 0 {
		return "", "", fmt.Errorf("%s has no licence that is known", dir)
	}
	return strings.Join(ids, " AND "), text, nil
}

// own asks a program for one line.
func own(program string, args ...string) (string, error) {
	c := exec.Command(program, args...)
	c.Stderr = os.Stderr
	out, err := c.Output()
	return strings.TrimSpace(string(out)), err
}

// zigLib is the directory of zig's libraries.
func (r *release) zigLib() (string, error) {
	text, err := own(r.zig[0], append(r.zig[1:len(r.zig):len(r.zig)], "env")...)
	m := regexp.MustCompile(`"?lib_dir"?\s*[:=]\s*"([^"]+)"`).FindStringSubmatch(text)
	if err != nil || m == nil {
		return "", errors.Join(err, fmt.Errorf("`zig env` names no lib_dir: %s", text))
	}
	return m[1], nil
}

// materials says what a program is made of, by what Go wrote into it (debug/buildinfo; `go version -m` shows the same), and the licences of
// all that is linked.
func (r *release) materials(t target, program string, data []byte) (bom, licences []byte, err error) {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return nil, nil, err
	}
	main := cdxComponent{
		Type:     "application",
		Ref:      name + "@" + r.version,
		Name:     name,
		Version:  r.version,
		Hashes:   []cdxHash{{"SHA-256", digest(data)}},
		Props:    []cdxProperty{{"gpubuild:commit", r.commit}, {"gpubuild:target", t.triple}},
		Licenses: []cdxLicense{{"MIT"}},
	}
	standard := strings.TrimPrefix(info.GoVersion, "go")
	parts := []cdxComponent{
		{Type: "library", Ref: "pkg:golang/std@" + standard, Name: "std", Version: standard, PURL: "pkg:golang/std@" + standard},
	}
	var texts strings.Builder
	texts.WriteString("gpubuild holds the following works of others, under these licences.\n\n")
	add := func(c cdxComponent, dir string, files ...string) error {
		expression, text, err := licence(dir, files...)
		c.Licenses = []cdxLicense{{expression}}
		parts = append(parts, c)
		fmt.Fprintf(&texts, "==== %s %s (%s)\n\n%s", c.Name, c.Version, expression, text)
		return err
	}
	root, err := own("go", "env", "GOROOT")
	if err != nil {
		return nil, nil, err
	}
	if err := add(parts[0], root, "LICENSE", "PATENTS"); err != nil {
		return nil, nil, err
	}
	parts = parts[1:]
	if t.carries() { // the probe's programs in it: Linux's watcher links musl, Windows' mingw-w64's start, all of them zig's compiler-rt
		lib, err := r.zigLib()
		if err != nil {
			return nil, nil, err
		}
		zig := cdxComponent{Type: "library", Ref: "zig@" + zigVersion, Name: "zig compiler-rt", Version: zigVersion}
		libc := "musl"
		if t.os == "windows" {
			libc = "mingw"
		}
		c := cdxComponent{Type: "library", Ref: libc + "@zig-" + zigVersion, Name: libc, Version: "of zig " + zigVersion}
		top := filepath.Dir(lib) // next to lib, or above it, as distributions have it
		if err := errors.Join(add(zig, top, "LICENSE"), add(c, filepath.Join(lib, "libc", libc), "COPY*")); err != nil {
			return nil, nil, err
		}
	}
	for _, d := range info.Deps {
		if d.Replace != nil {
			return nil, nil, fmt.Errorf("%s is replaced: a release is made of published modules", d.Path)
		}
		c := cdxComponent{Type: "library", Name: d.Path, Version: d.Version, PURL: "pkg:golang/" + d.Path + "@" + d.Version}
		c.Ref = c.PURL
		if d.Sum != "" {
			c.Props = []cdxProperty{{"go:sum", d.Sum}}
		}
		c2 := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", d.Path)
		c2.Dir, c2.Stderr = r.root, os.Stderr
		dir, err := c2.Output()
		if err == nil {
			err = add(c, strings.TrimSpace(string(dir)), "LICEN[SC]E*", "COPYING*", "NOTICE*")
		}
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", d.Path, err)
		}
	}
	refs := make([]string, len(parts))
	for i, p := range parts {
		refs[i] = p.Ref
	}
	made := cdx{
		"http://cyclonedx.org/schema/bom-1.5.schema.json",
		"CycloneDX",
		"1.5",
		1,
		cdxMetadata{r.when.Format(time.RFC3339), main},
		parts,
		[]cdxDependency{{main.Ref, refs}},
	}
	out, err := json.MarshalIndent(made, "", "  ")
	return append(out, '\n'), []byte(texts.String()), err
}
