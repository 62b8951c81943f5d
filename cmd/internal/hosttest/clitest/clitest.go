// Package clitest is what the tests of package cli and those of its scripts share: the stand-in driver, and the comparison of an answer
// with its schema. Only tests import it. root is the repository's directory.
package clitest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"

	"github.com/google/jsonschema-go/jsonschema"

	"gpubuild/buildenv"
	"gpubuild/buildenv/local"
	"gpubuild/buildenv/proc"
	"gpubuild/cmd/internal/proof"
	"gpubuild/cmd/internal/session"
	"gpubuild/gpu/probe"
	"gpubuild/gpu/verify"
)

// Nodes are the files that stand-in drivers open in place of a device.
func Nodes(h buildenv.Host) []string {
	var out []string
	for _, dir := range h.SplitList(h.Env.Get("LD_LIBRARY_PATH")) {
		if node := filepath.Join(dir, "node"); h.IsFile(node) {
			out = append(out, node)
		}
	}
	return out
}

// IsReal is the predicate that only a test may pass in.
func IsReal(buildenv.Host) func(verify.Loaded) (bool, string) {
	return func(l verify.Loaded) (bool, string) {
		if strings.Contains(l.LibCUDA, "standin") {
			return true, ""
		}
		return false, "not the stand-in of this test"
	}
}

var standin, built struct {
	sync.Once
	dir string
	err error
}

// Standin compiles the stand-in driver, CUPTI and nvidia-smi, once.
func Standin(root string) (string, error) {
	standin.Do(func() { standin.dir, standin.err = compile(filepath.Join(root, "testdata", "standin")) })
	return standin.dir, standin.err
}

func compile(sources string) (string, error) {
	dir, err := os.MkdirTemp("", "standin")
	if err != nil {
		return "", err
	}
	h, err := local.Host()
	if err != nil {
		return "", err
	}
	gcc, err := h.LookPath("gcc")
	if err != nil {
		return "", err
	}
	for file, out := range map[string]string{"cuda.c": "libcuda.so.1", "cupti.c": "libcupti.so.13", "smi.c": "nvidia-smi"} {
		args := []string{"-O2", "-pthread", filepath.Join(sources, file), "-o", filepath.Join(dir, out), "-ldl"}
		if file != "smi.c" {
			args = append(args, "-shared", "-fPIC", "-Wl,-soname,"+out)
		}
		if r, err := (proc.Runner{}).Run(context.Background(), buildenv.Cmd{Path: gcc, Args: args, Env: h.Env.Entries()}); err != nil {
			return "", fmt.Errorf("%w: %s", err, r.Stderr)
		}
	}
	return dir, nil
}

// Probe compiles the probe, once: a cache that holds nothing else.
func Probe(root string) (string, error) {
	built.Do(func() {
		var from string
		if from, built.err = Standin(root); built.err != nil {
			return
		}
		var h buildenv.Host
		if h, built.err = local.Host(); built.err != nil {
			return
		}
		built.dir = filepath.Join(from, "cache")
		compiler := proof.ProbeCompiler(context.Background(), &session.Machine{Host: h, Runner: proc.Runner{}})
		_, built.err = probe.Build(context.Background(), h, proc.Runner{}, built.dir, compiler, probe.CUDA)
	})
	return built.dir, built.err
}

// SchemaFile is where the schema of that name is, in the repository's root.
func SchemaFile(root, name string) string { return filepath.Join(root, "schema", name+".schema.json") }

// Validate compares a document with the schema that it names.
func Validate(root string, data []byte) error {
	var head struct{ Schema string }
	if err := json.Unmarshal(data, &head); err != nil {
		return err
	}
	name, ours := strings.CutPrefix(head.Schema, "gpubuild/")
	name, first := strings.CutSuffix(name, "/1")
	if !ours || !first || strings.ContainsAny(name, "/.") {
		return fmt.Errorf("%.200q is no schema of ours", head.Schema)
	}
	return ValidateBy(root, name, data)
}

// ValidateBy uses a library that does nothing at the start of a process: this binary is also the gpubuild of the scripts, which start it a
// thousand times.
func ValidateBy(root, name string, data []byte) error {
	read := func(name string) (*jsonschema.Schema, error) {
		text, err := os.ReadFile(SchemaFile(root, name))
		if err != nil {
			return nil, err
		}
		s := &jsonschema.Schema{}
		return s, json.Unmarshal(text, s)
	}
	s, err := read(name)
	if err != nil {
		return err
	}
	sibling := func(at *url.URL) (*jsonschema.Schema, error) {
		return read(strings.TrimSuffix(path.Base(at.Path), ".schema.json"))
	}
	resolved, err := s.Resolve(&jsonschema.ResolveOptions{BaseURI: "file:///schema/", Loader: sibling})
	if err != nil {
		return err
	}
	var v any
	if err := json.Unmarshal(data, &v); err != nil {
		return err
	}
	return resolved.Validate(v)
}
