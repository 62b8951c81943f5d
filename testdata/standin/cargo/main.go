// Command cargo stands in for cargo.exe under Wine, where no rustc runs. What it is asked about the project it answers from what a real
// cargo said of it, which the test has put into the directory STANDIN_CARGO (metadata.json, graph.json, graph-test.json, version.txt); as
// rustc.exe it only says its version (rustc.txt). A build does the work of the build script of testdata/matmul, by running the nvcc that
// the environment means, prints the messages that cargo prints for the units of the graph, and makes a program with what nvcc made in its
// data, as include_bytes! puts it there. That program is this one, or program.exe of the same directory, which has room of its own and does
// something when it is run. run and test build, and start what was built through the runner that is configured.
//
// Its behaviour follows cargo's documents: "External tools" (messages), "Build Scripts" (rerun-if-env-changed, rerun-if-changed, OUT_DIR,
// output), "Configuration" (target.<triple>.runner) and `cargo clean -p`; and the calls of cargo 1.95 as traced on Linux. Like cargo it
// runs a script again when a variable that the script named or a file has changed, and for no other reason.
package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/BurntSushi/toml"
)

// room is where the program that is built keeps its GPU code: 256 KiB of the data section, found again by its first bytes.
var room = [256 << 10]byte{'r', 'o', 'o', 'm', ' ', 'f', 'o', 'r', ' ', 'G', 'P', 'U', 0xff, 0xfe, 0xfd, 0xfc}

type unit struct {
	PkgID    string          `json:"pkg_id"`
	Target   json.RawMessage `json:"target"`
	Mode     string          `json:"mode"`
	Features []string        `json:"features"`
}

type metadata struct {
	TargetDirectory string `json:"target_directory"`
	Packages        []struct {
		ID           string `json:"id"`
		ManifestPath string `json:"manifest_path"`
	} `json:"packages"`
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		var f *failed
		if errors.As(err, &f) {
			os.Exit(f.code)
		}
		os.Exit(101)
	}
}

func run(args []string) error {
	answers := os.Getenv("STANDIN_CARGO")
	show := func(name string) error {
		data, err := os.ReadFile(filepath.Join(answers, name))
		if err != nil {
			return err
		}
		_, err = os.Stdout.Write(data)
		return err
	}
	if len(args) == 0 {
		return errors.New("stand-in cargo: no words")
	}
	l, err := read(args)
	if err != nil {
		return err
	}
	graph := map[bool]string{true: "graph-test.json", false: "graph.json"}[l.verb == "test"]
	switch {
	case strings.HasPrefix(filepath.Base(os.Args[0]), "rustc") && l.has("-vV"):
		return show("rustc.txt")
	case l.has("-vV"), l.has("-Vv"), l.has("-V"):
		return show("version.txt")
	case l.verb == "metadata":
		return show("metadata.json")
	case l.has("--unit-graph"):
		return show(graph)
	case !slices.Contains([]string{"build", "run", "test", "clean"}, l.verb):
		return fmt.Errorf("stand-in cargo: no such command: `%s`", l.verb)
	}
	b, err := load(answers, graph)
	if err != nil {
		return err
	}
	if l.verb == "clean" {
		return b.clean(l.words)
	}
	messages := io.Discard
	if slices.ContainsFunc(l.words, func(w string) bool { return strings.HasPrefix(w, "--message-format") && strings.Contains(w, "json") }) {
		messages = os.Stdout
	}
	programs, err := b.build(messages)
	if err != nil || l.verb == "build" || l.has("--no-run") {
		return err
	}
	return l.start(programs)
}

// line is a command line of cargo.
type line struct {
	verb   string
	words  []string // without the verb and what follows --
	args   []string // of the program
	runner []string
}

func (l line) has(word string) bool { return slices.Contains(l.words, word) }

// triple is what is built for here.
const triple = "x86_64-pc-windows-msvc"

// read finds the verb and the runner: --config beats the variable, and of several the last counts.
func read(args []string) (l line, err error) {
	for i := 0; i < len(args); i++ {
		switch w := args[i]; {
		case w == "--":
			l.args = args[i+1:]
			i = len(args)
		case w == "--config" && i+1 < len(args):
			i++
			var given struct {
				Target map[string]struct {
					Runner any `toml:"runner"`
				} `toml:"target"`
			}
			if _, err := toml.Decode(args[i], &given); err != nil {
				return l, fmt.Errorf("stand-in cargo: --config %s: %w", args[i], err)
			}
			switch r := given.Target[triple].Runner.(type) {
			case string:
				l.runner = strings.Fields(r)
			case []any:
				l.runner = nil
				for _, word := range r {
					l.runner = append(l.runner, fmt.Sprint(word))
				}
			}
		case l.verb == "" && !strings.HasPrefix(w, "-"):
			l.verb = w
		default:
			l.words = append(l.words, w)
		}
	}
	if l.runner == nil {
		l.runner = strings.Fields(os.Getenv("CARGO_TARGET_X86_64_PC_WINDOWS_MSVC_RUNNER"))
	}
	return l, nil
}

// failed ends cargo with a program's own status, as cargo run and cargo test do.
type failed struct {
	command string
	code    int
}

func (f *failed) Error() string {
	return fmt.Sprintf("process didn't exit successfully: `%s` (exit code: %d)", f.command, f.code)
}

// start runs what was built with cargo's own streams.
func (l line) start(programs []string) error {
	if len(programs) == 0 {
		return errors.New("a bin target must be available for `cargo run`")
	}
	for _, p := range programs {
		words := append(append(slices.Clone(l.runner), p), l.args...)
		fmt.Fprintf(os.Stderr, "     Running `%s`\n", strings.Join(append([]string{p}, l.args...), " "))
		c := exec.Command(words[0], words[1:]...)
		c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
		err := c.Run()
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			return &failed{strings.Join(words, " "), exit.ExitCode()}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// build is one project and what is built of it.
type build struct {
	units []unit
	meta  metadata
}

func load(answers, units string) (build, error) {
	var b build
	var graph struct {
		Units []unit `json:"units"`
	}
	for name, into := range map[string]any{units: &graph, "metadata.json": &b.meta} {
		data, err := os.ReadFile(filepath.Join(answers, name))
		if err == nil {
			err = json.Unmarshal(data, into)
		}
		if err != nil {
			return b, err
		}
	}
	b.units = graph.Units
	return b, nil
}

func (b build) debug(elem ...string) string {
	return filepath.Join(append([]string{b.meta.TargetDirectory, "debug"}, elem...)...)
}

// name is the package's name: "registry+https://…#cudarc@0.19.10", "path+file:///…/matmul#0.1.0".
func (u unit) name() string {
	url, fragment, _ := strings.Cut(u.PkgID, "#")
	if name, _, ok := strings.Cut(fragment, "@"); ok {
		return name
	}
	return url[strings.LastIndexByte(url, '/')+1:]
}

func (b build) outDir(u unit) string {
	sum := sha256.Sum256([]byte(u.PkgID + strings.Join(u.Features, ",")))
	return b.debug("build", u.name()+"-"+hex.EncodeToString(sum[:8]), "out")
}

// build answers the programs that it made: of a test those that are tests.
func (b build) build(messages io.Writer) (programs []string, err error) {
	say := json.NewEncoder(messages)
	began := time.Now()
	tests := slices.ContainsFunc(b.units, func(u unit) bool { return u.Mode == "test" })
	for _, u := range slices.Backward(b.units) { // what others need stands behind them
		var target struct {
			Kind []string `json:"kind"`
			Name string   `json:"name"`
		}
		if err := json.Unmarshal(u.Target, &target); err != nil {
			return nil, err
		}
		if u.Mode == "doctest" { // rustdoc's matter, which has no program
			continue
		}
		if u.Mode == "run-custom-build" {
			if err := b.script(u); err != nil {
				return nil, fmt.Errorf("failed to run custom build command for `%s`\n\n%w", u.PkgID, err)
			}
			if err := say.Encode(map[string]any{"reason": "build-script-executed", "package_id": u.PkgID, "linked_libs": []string{}, "linked_paths": []string{},
				"cfgs": []string{}, "env": [][2]string{}, "out_dir": b.outDir(u)}); err != nil {
				return nil, err
			}
			continue
		}
		m := map[string]any{"reason": "compiler-artifact", "package_id": u.PkgID, "manifest_path": b.manifest(u), "target": u.Target, "features": u.Features,
			"profile":   map[string]any{"opt_level": "0", "debuginfo": 2, "debug_assertions": true, "overflow_checks": true, "test": u.Mode == "test"},
			"filenames": []string{b.debug("deps", "lib"+target.Name+".rlib")}, "executable": nil, "fresh": false}
		if u.Mode == "test" || slices.Contains(target.Kind, "bin") {
			program := b.debug(target.Name + ".exe")
			if u.Mode == "test" {
				sum := sha256.Sum256(u.Target)
				program = b.debug("deps", target.Name+"-"+hex.EncodeToString(sum[:8])+".exe")
			}
			if err := b.link(program); err != nil {
				return nil, err
			}
			m["filenames"], m["executable"] = []string{program}, program
			if tests == (u.Mode == "test") {
				programs = append(programs, program)
			}
		}
		if err := say.Encode(m); err != nil {
			return nil, err
		}
	}
	if err := say.Encode(map[string]any{"reason": "build-finished", "success": true}); err != nil {
		return nil, err
	}
	fmt.Fprintf(os.Stderr, "    Finished `dev` profile [unoptimized + debuginfo] target(s) in %.2fs\n", time.Since(began).Seconds())
	return programs, nil
}

func (b build) manifest(u unit) string {
	for _, p := range b.meta.Packages {
		if p.ID == u.PkgID {
			return p.ManifestPath
		}
	}
	return ""
}

// What the build script of testdata/matmul names to cargo.
var (
	variables = []string{"NVCC", "CUDA_HOME", "CUDA_PATH", "CUDA_COMPUTE_CAP", "NVCC_CCBIN"}
	files     = []string{"build.rs", "src/matmul.cu"}
)

// script runs a unit's build script unless nothing that it named has changed. That of cudarc, with dynamic-loading and a version in its
// features, makes nothing.
func (b build) script(u unit) error {
	out := b.outDir(u)
	ours := b.manifest(u) != ""
	now := map[string]string{}
	if ours {
		for _, v := range variables {
			if value, ok := os.LookupEnv(v); ok {
				now["$"+v] = value
			}
		}
		for _, f := range files {
			fi, err := os.Stat(filepath.Join(filepath.Dir(b.manifest(u)), f))
			if err != nil {
				return err
			}
			now[f] = fi.ModTime().String()
		}
	}
	fingerprint, err := json.Marshal(now)
	if err != nil {
		return err
	}
	stamp := filepath.Join(filepath.Dir(out), "standin-fingerprint")
	if old, err := os.ReadFile(stamp); err == nil && bytes.Equal(old, fingerprint) {
		return nil
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(filepath.Dir(out), "invoked.timestamp"), []byte("This file has an mtime of when this was started."), 0o644); err != nil {
		return err
	}
	text := "cargo:rerun-if-changed=build.rs\n"
	if ours {
		fmt.Fprintf(os.Stderr, "   Compiling %s (build script)\n", u.name())
		text += "cargo:rerun-if-changed=src/matmul.cu\n"
		for _, v := range variables {
			text += "cargo:rerun-if-env-changed=" + v + "\n"
		}
		if err := compile(filepath.Dir(b.manifest(u)), out); err != nil {
			return err
		}
	}
	for name, content := range map[string]string{"output": text, "stderr": "", "root-output": out} {
		if err := os.WriteFile(filepath.Join(filepath.Dir(out), name), []byte(content), 0o644); err != nil {
			return err
		}
	}
	return os.WriteFile(stamp, fingerprint, 0o644)
}

// compile is compile() of testdata/matmul/build.rs.
func compile(dir, out string) error {
	nvcc := os.Getenv("NVCC")
	if path, err := exec.LookPath("nvcc"); nvcc == "" && err == nil {
		nvcc = path
	}
	for _, v := range []string{"CUDA_HOME", "CUDA_PATH"} {
		if root := os.Getenv(v); nvcc == "" && root != "" {
			if p := filepath.Join(root, "bin", "nvcc.exe"); isFile(p) {
				nvcc = p
			}
		}
	}
	if nvcc == "" {
		return errors.New("no nvcc")
	}
	arch := strings.TrimPrefix(strings.ReplaceAll(os.Getenv("CUDA_COMPUTE_CAP"), ".", ""), "sm_")
	for _, w := range [][3]string{{"-fatbin", "sm_", "matmul.fatbin"}, {"-ptx", "compute_", "matmul.ptx"}} {
		args := []string{w[0]}
		if arch != "" {
			args = append(args, "-arch="+w[1]+arch)
		}
		c := exec.Command(nvcc, append(args, "-o", filepath.Join(out, w[2]), "src/matmul.cu")...)
		c.Dir, c.Env = dir, append(os.Environ(), "OUT_DIR="+out)
		if said, err := c.CombinedOutput(); err != nil {
			return fmt.Errorf("nvcc could not compile src/matmul.cu (%w)\ncommand: %s\n%s", err, c, said)
		}
	}
	return nil
}

func isFile(path string) bool {
	fi, err := os.Stat(path)
	return err == nil && !fi.IsDir()
}

// link makes the program: this one or program.exe, with the GPU code in its data section.
func (b build) link(program string) error {
	self := filepath.Join(os.Getenv("STANDIN_CARGO"), "program.exe")
	if !isFile(self) {
		var err error
		if self, err = os.Executable(); err != nil {
			return err
		}
	}
	exe, err := os.ReadFile(self)
	if err != nil {
		return err
	}
	at := bytes.Index(exe, room[:16])
	if at < 0 {
		return fmt.Errorf("stand-in cargo: no room in %s", self)
	}
	if err := os.MkdirAll(filepath.Dir(program), 0o755); err != nil {
		return err
	}
	end := at + len(room)
	for _, u := range b.units {
		if u.Mode != "run-custom-build" || b.manifest(u) == "" {
			continue
		}
		for _, name := range []string{"matmul.fatbin", "matmul.ptx"} {
			code, err := os.ReadFile(filepath.Join(b.outDir(u), name))
			if err != nil {
				return err
			}
			at = (at + 15) / 16 * 16
			if at+len(code)+1 > end {
				return fmt.Errorf("stand-in cargo: no room for %s", name)
			}
			at += copy(exe[at:], append(code, 0))
		}
	}
	if err := os.Remove(program); err != nil && !errors.Is(err, fs.ErrNotExist) { // worded as by cargo-util's paths::remove_file
		return fmt.Errorf("failed to remove file `%s`\n\nCaused by:\n  %w (os error 5)", program, errors.Unwrap(err))
	}
	return os.WriteFile(program, exe, 0o755)
}

// clean is `cargo clean -p NAME …`: what was built of packages goes.
func (b build) clean(words []string) error {
	files := 0
	for i, w := range words {
		if w != "-p" || i+1 == len(words) {
			continue
		}
		dirs, err := filepath.Glob(b.debug("build", words[i+1]+"-*"))
		if err != nil {
			return err
		}
		for _, dir := range append(dirs, b.debug(words[i+1]+".exe")) {
			var all []string
			if err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
				if err == nil {
					all = append(all, path)
				}
				return nil
			}); err != nil {
				return err
			}
			for _, path := range slices.Backward(all) { // one by one: os.RemoveAll asks Windows for a kind of removal that Wine 8 has not
				if err := os.Remove(path); err != nil {
					return err
				}
			}
			files += len(all)
		}
	}
	fmt.Fprintf(os.Stderr, "     Removed %d files, 1.0KiB total\n", files)
	return nil
}
