// Command cargo stands in for cargo.exe under Wine, where no rustc runs. What it is asked about the project it answers from what a real cargo said of it,
// which the test has put into the directory STANDIN_CARGO (metadata.json, graph.json, version.txt). A build does the work of the build script of
// testdata/matmul, by running the nvcc that the environment means, prints the messages that cargo prints for the units of the graph, and makes a
// program with what nvcc made in its data, as include_bytes! puts it there.
//
// Its behaviour follows cargo's documents: "External tools" (messages), "Build Scripts" (rerun-if-env-changed, rerun-if-changed, OUT_DIR, output) and
// `cargo clean -p`; and the calls of cargo 1.95 as traced on Linux. Like cargo it runs a script again when a variable that the script named or a file
// has changed, and for no other reason.
package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
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
	has := func(word string) bool { return slices.Contains(args, word) }
	switch {
	case len(args) == 0:
		return errors.New("stand-in cargo: no words")
	case has("-vV"), has("-V"):
		return show("version.txt")
	case args[0] == "metadata":
		return show("metadata.json")
	case has("--unit-graph"):
		return show("graph.json")
	case args[0] != "build" && args[0] != "clean":
		return fmt.Errorf("stand-in cargo: no such command: `%s`", args[0])
	}
	b, err := load(answers)
	if err != nil {
		return err
	}
	if args[0] == "clean" {
		return b.clean(args[1:])
	}
	return b.build()
}

// build is one project and what is built of it.
type build struct {
	units []unit
	meta  metadata
}

func load(answers string) (build, error) {
	var b build
	var graph struct {
		Units []unit `json:"units"`
	}
	for name, into := range map[string]any{"graph.json": &graph, "metadata.json": &b.meta} {
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

func (b build) build() error {
	say := json.NewEncoder(os.Stdout)
	began := time.Now()
	for _, u := range slices.Backward(b.units) { // what others need stands behind them
		var target struct {
			Kind []string `json:"kind"`
			Name string   `json:"name"`
		}
		if err := json.Unmarshal(u.Target, &target); err != nil {
			return err
		}
		if u.Mode == "run-custom-build" {
			if err := b.script(u); err != nil {
				return fmt.Errorf("failed to run custom build command for `%s`\n\n%w", u.PkgID, err)
			}
			if err := say.Encode(map[string]any{"reason": "build-script-executed", "package_id": u.PkgID, "linked_libs": []string{}, "linked_paths": []string{},
				"cfgs": []string{}, "env": [][2]string{}, "out_dir": b.outDir(u)}); err != nil {
				return err
			}
			continue
		}
		m := map[string]any{"reason": "compiler-artifact", "package_id": u.PkgID, "manifest_path": b.manifest(u), "target": u.Target, "features": u.Features,
			"profile":   map[string]any{"opt_level": "0", "debuginfo": 2, "debug_assertions": true, "overflow_checks": true, "test": false},
			"filenames": []string{b.debug("deps", "lib"+target.Name+".rlib")}, "executable": nil, "fresh": false}
		if slices.Contains(target.Kind, "bin") {
			program := b.debug(target.Name + ".exe")
			if err := b.link(program); err != nil {
				return err
			}
			m["filenames"], m["executable"] = []string{program}, program
		}
		if err := say.Encode(m); err != nil {
			return err
		}
	}
	if err := say.Encode(map[string]any{"reason": "build-finished", "success": true}); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "    Finished `dev` profile [unoptimized + debuginfo] target(s) in %.2fs\n", time.Since(began).Seconds())
	return nil
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

// script runs a unit's build script unless nothing that it named has changed. That of cudarc, with dynamic-loading and a version in its features, makes nothing.
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
	for _, v := range []string{"CUDA_HOME", "CUDA_PATH"} {
		if root := os.Getenv(v); nvcc == "" && root != "" {
			if p := filepath.Join(root, "bin", "nvcc.exe"); isFile(p) {
				nvcc = p
			}
		}
	}
	if nvcc == "" {
		var err error
		if nvcc, err = exec.LookPath("nvcc"); err != nil {
			return err
		}
	}
	arch := strings.TrimPrefix(strings.ReplaceAll(os.Getenv("CUDA_COMPUTE_CAP"), ".", ""), "sm_")
	for _, w := range [][3]string{{"-fatbin", "sm_", "matmul.fatbin"}, {"-ptx", "compute_", "matmul.ptx"}} {
		args := []string{w[0]}
		if arch != "" {
			args = append(args, "-arch="+w[1]+arch)
		}
		c := exec.Command(nvcc, append(args, "-o", filepath.Join(out, w[2]), "src/matmul.cu")...)
		c.Dir = dir
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

// link makes the program: this one, with the GPU code in its data section.
func (b build) link(program string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	exe, err := os.ReadFile(self)
	if err != nil {
		return err
	}
	at := bytes.Index(exe, room[:16])
	if at < 0 {
		return errors.New("stand-in cargo: no room in its own file")
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
	if err := os.Remove(program); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
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
