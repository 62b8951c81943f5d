package nvcc

import (
	"bytes"
	"context"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/lazyregexp"
	"gpubuild/toolchain/loader"
)

// schema changes when an older entry must not be used any more.
const schema = "gpubuild kernel cache 4"

// run is one call of nvcc that may be cached.
type run struct {
	call
	host   buildenv.Host // without LD_LIBRARY_PATH
	env    []string      // as nvcc was called
	runner runner
	real   string // the toolkit's nvcc
	args   []string
	store  store
	tmp    string // a directory of this call's own, once something is compiled or preprocessed
}

type runner interface {
	Run(context.Context, buildenv.Cmd) (buildenv.Result, error)
}

// uncached says why a call cannot be cached.
type uncached string

func (u uncached) Error() string { return string(u) }

// preprocessed is what a call compiles, as the tools see it.
type preprocessed struct {
	sum     hash.Hash
	headers []string        // the source, and each file that it includes
	tools   []string        // the programs that take part, their own files and shared libraries
	shadows []string        // where a file would be loaded in place of one of those libraries
	dirs    []string        // the directories that were searched for headers
	seen    map[string]bool // of headers and dirs
	steps   []string        // what is left to be done, with the preprocessed text in files of r.tmp
	env     []string        // of the steps
	out     string          // what the last of them writes
	warned  bool            // the preprocessor has something to say
}

func (p *preprocessed) key() string { return hex.EncodeToString(p.sum.Sum(nil)) }

var (
	variableLine = lazyregexp.New(`^[A-Za-z_][A-Za-z0-9_]*=`)
	temporary    = lazyregexp.New(`(/[^" ]*/)?tmpxft_[0-9a-f]+_[0-9a-f]+(-[0-9]+)?_`)
	passOutput   = lazyregexp.New(` -o "([^"]*tmpxft_[^"]*)" *$`)
	hostPass     = lazyregexp.New(` -c -x c\+\+ (.*)"[^"]*tmpxft_[^"]*" -o "[^"]*" *$`)
	compilerName = lazyregexp.New(`^([a-z0-9_]+-)*(gcc|g\+\+|cc|c\+\+)(-[0-9.]+)?$`)
)

// hidden is what the last pass of the host compiler includes in addition to nvcc's own output: no other pass shows it.
const hidden = "#define __NV_CUBIN_HANDLE_STORAGE__ static\n#define __CUDA_INCLUDE_COMPILER_INTERNAL_HEADERS__\n" +
	"#include <crt/host_runtime.h>\n#include <fatbinary_section.h>\n"

// preprocess asks nvcc for its steps, with all of its files in a directory of this call's own, and carries out those of the preprocessor.
func (r *run) preprocess(ctx context.Context) (*preprocessed, error) {
	p := &preprocessed{sum: sha256.New(), seen: map[string]bool{}, out: filepath.Join(r.tmp, "tmpxft_0_0_out."+r.mode)}
	dry, err := r.runner.Run(ctx, buildenv.Cmd{
		Path: r.real, Args: slices.Concat([]string{"--dryrun", "-o", p.out}, r.dryrun), Env: r.host.Env.Set("TMPDIR", r.tmp).Entries(),
	})
	if err != nil {
		return nil, uncached("nvcc --dryrun failed")
	}
	r.question(p.sum)
	if r.debug {
		fmt.Fprintf(p.sum, "in %q\n", r.host.Cwd)
	}
	host := r.host
	passes := 0
	for line := range strings.Lines(string(dry.Stderr)) {
		step, ok := strings.CutPrefix(strings.TrimRight(line, "\r\n"), "#$ ")
		if !ok {
			return nil, uncached("nvcc --dryrun says: " + line)
		}
		if variableLine.MatchString(step) {
			name, value, _ := strings.Cut(step, "=")
			host.Env = host.Env.Set(name, value)
			if name != "PATH" && name != "LD_LIBRARY_PATH" {
				fmt.Fprintf(p.sum, "%q\n", step)
			}
			continue
		}
		fmt.Fprintf(p.sum, "%q\n", temporary.ReplaceAllString(step, "T_"))
		shell, file, err := r.step(ctx, step, host, p)
		if err != nil {
			return nil, err
		}
		if file == "" && !strings.HasPrefix(step, "rm ") { // of what may be left of another call
			p.steps = append(p.steps, step)
		}
		if shell == "" {
			continue
		}
		passes++
		if err := r.pass(ctx, "exec "+shell+" -v", file, host, p); err != nil {
			return nil, err
		}
	}
	p.env = host.Env.Entries()
	if passes == 0 {
		return nil, uncached("no step of the preprocessor")
	}
	for _, header := range p.headers {
		if fi, err := os.Stat(header); r.debug && err == nil { // the table of source lines has its time
			fmt.Fprintf(p.sum, "%q %d\n", header, fi.ModTime().Unix())
		}
	}
	for _, tool := range p.tools {
		content, err := r.store.content(tool)
		if err != nil {
			return nil, uncached(err.Error())
		}
		fmt.Fprintf(p.sum, "%q %s\n", tool, content)
	}
	return p, nil
}

// question hashes what can be known of a call before anything is run.
func (r *run) question(sum io.Writer) {
	fmt.Fprintf(sum, "%s\n%q\n%q\n", schema, r.real, r.words)
	if r.deps {
		fmt.Fprintf(sum, "%q\n", r.outputs)
	}
	for _, e := range r.host.Env.Entries() {
		if name, _, _ := strings.Cut(e, "="); matters(name) {
			fmt.Fprintf(sum, "%q\n", e)
		}
	}
}

// matters says whether nvcc or the programs that it starts look at a variable.
func matters(name string) bool {
	switch name {
	case "CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "COMPILER_PATH", "SOURCE_DATE_EPOCH", "LANG", "LANGUAGE",
		"INCLUDES", "LIBRARIES", "TOP", "_HERE_", "_SPACE_", "USR_INCLUDE", "NOCOLOR", "G++_ROOT",
		"BINUTILS_ROOT", "POSIXLY_CORRECT", "MALLOC_CONF":
		return true
	}
	for _, p := range []string{"NVCC", "NV_", "NVVM", "LIBNVVM", "LLVM", "EDG_", "CICC", "CUDAFE", "PTXAS", "OCG_", "NVASM", "NVDISASM",
		"NVLINK", "GCC_", "LC_", "SYSTEM_INCLUDES", "TILEIRAS"} {
		if strings.HasPrefix(name, p) && name != "NVCC" {
			return true
		}
	}
	return false
}

// step notes the program of a step, and returns the command that shows what the step reads: empty where other steps show it. What the
// command prints is all that the step makes where a file is named.
func (r *run) step(ctx context.Context, step string, host buildenv.Host, p *preprocessed) (shell, file string, err error) {
	word, _, _ := strings.Cut(step, " ")
	word = strings.Trim(word, `"`)
	if rest, ok := strings.CutPrefix(word, "$CICC_PATH/"); ok {
		word = filepath.Join(host.Env.Get("CICC_PATH"), rest)
	}
	path := word
	if !strings.Contains(word, "/") {
		if path, err = host.LookPath(word); err != nil {
			return "", "", uncached("no " + word + " on PATH")
		}
	} else if path, err = filepath.Abs(word); err != nil {
		return "", "", uncached(err.Error())
	}
	switch base := filepath.Base(word); {
	case base == "rm":
		return "", "", nil
	case base == "cicc" || base == "cudafe++" || base == "ptxas" || base == "fatbinary" || base == "nvlink":
		return "", "", r.toolkit(host, path, p)
	case compilerName.MatchString(filepath.Base(host.Real(path))):
		if err := r.compilerTools(ctx, host, path, p); err != nil {
			return "", "", err
		}
	default:
		return "", "", uncached("a step that is not known: " + step)
	}
	switch {
	case strings.Contains(step, " -E ") && passOutput.MatchString(step):
		file = passOutput.FindStringSubmatch(step)[1]
		if filepath.Dir(file) != r.tmp {
			return "", "", uncached("nvcc writes to another directory than it is asked to")
		}
		return passOutput.ReplaceAllString(step, ""), file, nil
	case hostPass.MatchString(step):
		return hostPass.ReplaceAllString(step, " -E -x c++ ${1}-"), "", nil
	}
	return "", "", uncached("a step that is not known: " + step)
}

// toolkit notes a program of the toolkit, and with the first one those that every call uses.
func (r *run) toolkit(host buildenv.Host, program string, p *preprocessed) error {
	here := host.Env.Get("_HERE_")
	files := []string{program, r.real, filepath.Join(here, host.Exe("nvcc"))}
	if profile := filepath.Join(here, "nvcc.profile"); host.IsFile(profile) {
		files = append(files, profile)
	}
	library := host.Env.Get("NVVMIR_LIBRARY_DIR")
	for _, name := range host.Names(library) {
		files = append(files, filepath.Join(library, name))
	}
	for _, f := range files[:3] {
		if err := isELF(host.Real(f)); err != nil {
			return err
		}
	}
	p.tool(files...)
	return p.libraries(host, files[:3]...)
}

// libraries notes the shared libraries that programs load.
func (p *preprocessed) libraries(host buildenv.Host, programs ...string) error {
	for _, program := range programs {
		if p.seen["libraries "+program] {
			continue
		}
		p.seen["libraries "+program] = true
		list, err := loader.Resolve(host, host.Real(program), nil)
		if err != nil {
			return uncached(err.Error())
		}
		for _, l := range list {
			if l.Path == "" {
				return uncached(program + " lacks " + l.Name)
			}
			p.tool(l.Path)
			for _, dir := range strings.Split(host.Env.Get("LD_LIBRARY_PATH"), ":") { // nvcc's own; an empty one is the current directory
				p.shadows = append(p.shadows, filepath.Join(dir, l.Name))
			}
		}
	}
	return nil
}

// compilerTools notes the host compiler and the programs that it starts.
func (r *run) compilerTools(ctx context.Context, host buildenv.Host, path string, p *preprocessed) error {
	if slices.Contains(p.tools, path) {
		return nil
	}
	p.tool(path)
	if err := isELF(host.Real(path)); err != nil {
		return err
	}
	for _, ask := range []string{"-print-prog-name=cc1plus", "-print-prog-name=as", "-print-file-name=specs"} {
		res, err := r.runner.Run(ctx, buildenv.Cmd{Path: path, Args: []string{ask}, Env: host.Env.Entries()})
		if err != nil {
			return uncached("the host compiler does not answer " + ask)
		}
		file := strings.TrimSpace(string(res.Stdout))
		if !strings.Contains(file, "/") {
			if strings.HasSuffix(ask, "specs") {
				continue // there are none
			}
			if file, err = host.LookPath(file); err != nil {
				return uncached(err.Error())
			}
		}
		p.tool(file)
		if !strings.HasSuffix(ask, "specs") {
			if err := p.libraries(host, file); err != nil {
				return err
			}
		}
	}
	return p.libraries(host, path)
}

func (p *preprocessed) tool(files ...string) {
	for _, f := range files {
		if !slices.Contains(p.tools, f) {
			p.tools = append(p.tools, f)
		}
	}
}

// isELF refuses scripts, which may start anything.
func isELF(path string) error {
	f, err := elf.Open(path)
	if err != nil {
		return uncached(path + " is no ELF program")
	}
	return f.Close()
}

// pass runs the preprocessor, reads what it writes and keeps that in a file, if one is named.
func (r *run) pass(ctx context.Context, shell, file string, host buildenv.Host, p *preprocessed) error {
	fmt.Fprintf(p.sum, "pass %q\n", temporary.ReplaceAllString(shell, "T_"))
	text := &passText{into: p}
	to := io.Writer(text)
	if file != "" {
		f, err := os.Create(file)
		if err != nil {
			return uncached(err.Error())
		}
		defer f.Close()
		to = io.MultiWriter(text, f)
	}
	res, err := r.runner.Run(ctx, buildenv.Cmd{
		Path: "/bin/sh", Args: []string{"-c", shell}, Stdin: strings.NewReader(hidden), Stdout: to,
		Env: host.Env.Set("LC_ALL", "C").Entries(), // its messages are read
	})
	switch {
	case err != nil:
		return uncached("the preprocessor failed")
	case text.err != nil:
		return text.err
	case len(text.rest) > 0:
		return uncached("the preprocessor's last line has no end")
	}
	searching, own := false, false
	for line := range strings.Lines(string(res.Stderr)) {
		line = strings.TrimRight(line, "\r\n")
		switch {
		case strings.HasPrefix(line, "#include "):
			searching = true
		case line == "End of search list.":
			searching, own = false, true
		case strings.HasPrefix(line, "COMPILER_PATH="):
			own = false
		case own || strings.Contains(line, ": warning: "): // one about an option comes first
			p.warned = true
		case searching && strings.HasPrefix(line, " "):
			p.dir(line[1:])
		default:
			if dir, ok := strings.CutPrefix(line, `ignoring nonexistent directory "`); ok {
				p.dir(strings.TrimSuffix(dir, `"`))
			}
		}
	}
	return nil
}

func (p *preprocessed) dir(path string) {
	if !p.seen["dir "+path] {
		p.seen["dir "+path] = true
		p.dirs = append(p.dirs, path)
	}
}

// passText hashes preprocessed text and reads its line markers, which name the files.
type passText struct {
	into *preprocessed
	rest []byte
	err  error
}

func (t *passText) Write(b []byte) (int, error) {
	n := len(b)
	t.into.sum.Write(b)
	for {
		i := bytes.IndexByte(b, '\n')
		if i < 0 {
			t.rest = append(t.rest, b...)
			return n, nil
		}
		line := b[:i]
		if len(t.rest) > 0 {
			line = append(t.rest, line...)
		}
		t.line(line)
		t.rest, b = t.rest[:0], b[i+1:]
	}
}

func (t *passText) line(line []byte) {
	if len(line) < 3 || line[0] != '#' || line[1] != ' ' || line[2] < '0' || line[2] > '9' {
		if bytes.Contains(line, []byte(".incbin")) || bytes.Contains(line, []byte(".include")) {
			t.err = uncached("inline assembly that reads a file")
		}
		return
	}
	open, end := bytes.IndexByte(line, '"'), bytes.LastIndexByte(line, '"')
	if open < 0 || end == open || t.into.seen[string(line[open:end+1])] {
		return
	}
	t.into.seen[string(line[open:end+1])] = true
	path, err := strconv.Unquote(string(line[open : end+1]))
	switch {
	case err != nil:
		t.err = uncached("a line marker that is not understood: " + string(line))
	case strings.HasPrefix(path, "<") || strings.HasSuffix(path, "//"):
	default:
		t.into.headers = append(t.into.headers, path)
	}
}
