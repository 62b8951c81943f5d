package nvcc

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/lazyregexp"
)

// deviceModes are the options of calls that make no host code.
var deviceModes = set("ptx cubin fatbin")

// recorded runs nvcc with cl.exe, and lists what it read after it succeeded. nvcc lists an object's headers itself, by -MD, which starts no
// further process (measured, 13.4). In a call for device code that would add the host's pass, which may fail where the call does not: there
// the preprocessed text is asked for.
func (r *run) recorded(ctx context.Context, stdin io.Reader, stdout, stderr io.Writer) int {
	if !r.compiles() {
		r.list(nil, nil)
	}
	if r.host.Env.Get("OUT_DIR") == "" || !r.compiles() || r.scratch() != nil {
		return r.plain(ctx, stdin, stdout, stderr)
	}
	defer os.RemoveAll(r.tmp)
	if !r.deps && slices.ContainsFunc(r.args, asksForList) {
		r.list(nil, uncached("an option that asks for a dependency list"))
		return r.plain(ctx, stdin, stdout, stderr)
	}
	args, rule := r.args, r.dependencies()
	if r.mode == "o" && !r.deps {
		rule = filepath.Join(r.tmp, "read.d")
		args = append(slices.Clone(args), "-MD", "-MF", rule)
	}
	res, err := r.runner.Run(ctx, buildenv.Cmd{Path: r.real, Args: args, Env: r.env, Stdin: stdin, Stdout: stdout, Stderr: stderr})
	code := status(res, err, stderr)
	if code != 0 {
		return code
	}
	p, failed := &preprocessed{}, error(nil)
	if data, err := os.ReadFile(rule); r.mode == "o" && err == nil {
		p.headers = prerequisites(string(data))
	} else {
		p.headers, failed = r.preprocessedFiles(ctx)
	}
	for i, path := range p.headers {
		p.headers[i] = filepath.Clean(path) // nvcc writes Z:/a and Z:\a
	}
	r.list(p, failed)
	return 0
}

// asksForList reports whether an argument is one of the -M options, which run as they are.
func asksForList(arg string) bool {
	return strings.HasPrefix(arg, "-M") || strings.Contains(arg, "-generate-") && strings.Contains(arg, "dependencies")
}

// sourceLine is how cl.exe marks where preprocessed text comes from.
var sourceLine = lazyregexp.New(`(?m)^#line \d+ "((?:[^"\\\n]|\\.)+)"`)

// preprocessedFiles lists the files that nvcc -E names.
func (r *run) preprocessedFiles(ctx context.Context) (files []string, err error) {
	args := slices.DeleteFunc(slices.Clone(r.dryrun), func(w string) bool { return deviceModes[strings.TrimLeft(w, "-")] })
	res, err := r.runner.Run(ctx, buildenv.Cmd{Path: r.real, Args: append(args, "-E"), Env: r.env})
	if err != nil {
		return nil, uncached("nvcc -E failed")
	}
	seen := map[string]bool{}
	for _, m := range sourceLine.FindAllSubmatch(res.Stdout, -1) {
		name := string(bytes.ReplaceAll(m[1], []byte(`\\`), []byte(`\`)))
		if !seen[name] && !strings.HasPrefix(name, "<") {
			seen[name] = true
			files = append(files, name)
		}
	}
	if len(files) == 0 {
		return nil, uncached("nvcc -E names no file")
	}
	return files, nil
}
