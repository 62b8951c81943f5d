package nvcc

import (
	"bytes"
	"cmp"
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
)

// schema changes when an older entry must not be used any more.
const schema = "gpubuild kernel cache 7"

// run is one call of nvcc that may be cached.
type run struct {
	call
	host   buildenv.Host // without LD_LIBRARY_PATH
	env    []string      // as nvcc was called
	runner runner
	real   string // the toolkit's nvcc
	args   []string
	store  store
	read   map[string]string // what is to be listed; see list
	with   string            // see BuiltWith
	tmp    string            // a directory of this call's own, once something is compiled or preprocessed
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
	tools   []string        // the programs that take part, and their own files
	dirs    []string        // the directories that were searched for headers, in order
	dropped []string        // those that gcc left out because another one is the same
	seen    map[string]bool // of line markers
	steps   []string        // what is left to be done, with the preprocessed text in files of r.tmp
	env     []string        // of the steps
	out     string          // what the last of them writes
	said    []byte          // what the preprocessor has to say
	listed  int             // how many of headers -MD lists
	named   bool            // one of headers is named by #line, which gcc's markers then do not enter; -MD does not list it
	times   string          // of headers, where the output has them
	was     string          // states of tools
	refused error           // why the result must not be kept; the first reason
}

func (p *preprocessed) key() string { return hex.EncodeToString(p.sum.Sum(nil)) }

func (p *preprocessed) refuse(err error) {
	p.refused = cmp.Or(p.refused, err)
}

var (
	variableLine = lazyregexp.New(`^[A-Za-z_][A-Za-z0-9_]*=`)
	temporary    = lazyregexp.New(`(/[^" ]*/)?tmpxft_[0-9a-f]+_[0-9a-f]+(-[0-9]+)?_`)
	passOutput   = lazyregexp.New(` -o "([^"]*tmpxft_[^"]*)" *$`)
	anyOutput    = lazyregexp.New(` -o "[^"]*" *$`)
	ccacheStarts = lazyregexp.New(`(?m)\) ((?:prefix_command\w*|compiler|path) = *\S.*)$`)
	hostPass     = lazyregexp.New(` -c -x c\+\+ (.*)"[^"]*tmpxft_[^"]*" -o "[^"]*" *$`)
	compilerName = lazyregexp.New(`^([a-z0-9_]+-)*(gcc|g\+\+|cc|c\+\+)(-[0-9.]+)?$`)
	firstWord    = lazyregexp.New(`^(?:[^\s"$` + "`" + `\\;&|<>()'*?~]|"[^"$` + "`" + `\\]*")+`)
)

// hidden is what the last pass of the host compiler includes in addition to nvcc's own output: no other pass shows it.
const hidden = "#define __NV_CUBIN_HANDLE_STORAGE__ static\n#define __CUDA_INCLUDE_COMPILER_INTERNAL_HEADERS__\n" +
	"#include <crt/host_runtime.h>\n#include <fatbinary_section.h>\n"

// preprocess asks nvcc for its steps, with all of its files in a directory of this call's own, and carries out those of the preprocessor.
// The error says that not all that is read is known.
func (r *run) preprocess(ctx context.Context) (*preprocessed, error) {
	if err := r.scratch(); err != nil {
		return nil, err
	}
	p := &preprocessed{sum: sha256.New(), seen: map[string]bool{}, out: filepath.Join(r.tmp, "tmpxft_0_0_out."+r.mode)}
	args := slices.Concat([]string{"--dryrun"}, r.dryrun)
	if r.deps { // may add a pass
		args = append(args, "-MD", "-MF", filepath.Join(r.tmp, "list.d"))
	}
	if r.unknown == "" {
		args = append(args, "-o", p.out)
	}
	dry, err := r.runner.Run(ctx, buildenv.Cmd{Path: r.real, Args: args, Env: r.host.Env.Set("TMPDIR", r.tmp).Entries()})
	if err != nil {
		return nil, uncached("nvcc --dryrun failed")
	}
	fmt.Fprintf(p.sum, "%s\n%q\n%q\n", schema, r.real, r.words)
	for _, e := range r.host.Env.Entries() {
		if name, _, _ := strings.Cut(e, "="); matters(name) {
			fmt.Fprintf(p.sum, "%q\n", e)
		}
	}
	host := r.host
	passes := 0
	for line := range strings.Lines(string(dry.Stderr)) {
		step, ok := strings.CutPrefix(strings.TrimRight(line, "\r\n"), "#$ ")
		switch {
		case !ok:
			p.refuse(uncached("nvcc --dryrun says: " + line))
			continue
		case strings.HasPrefix(step, "-- Filter Dependencies"): // see writeDependencies
			continue
		case variableLine.MatchString(step):
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
			p.refuse(err)
		}
		if file == "" && !strings.HasPrefix(step, "rm ") { // of what may be left of another call
			p.steps = append(p.steps, step)
		}
		if shell == "" {
			continue
		}
		passes++
		if err := r.pass(ctx, "exec "+shell+" -v", file, host, p); err != nil {
			return p, err
		}
	}
	p.env = host.Env.Set("TMPDIR", r.tmp).Entries()
	if passes == 0 {
		return p, uncached("no step of the preprocessor")
	}
	if p.times = r.times(p); p.times != "" {
		fmt.Fprintf(p.sum, "in %q\n%s", r.host.Cwd, p.times)
	}
	escaped := strings.ContainsAny(strings.Join(p.headers, "")+r.out, "#$%:\\\t\n\"'") || r.target == "" && strings.Contains(r.out, " ")
	if r.deps && p.named {
		p.refuse(uncached("a file that only #line names"))
	}
	if r.deps && escaped {
		p.refuse(uncached("a name that a dependency list has to escape"))
	}
	p.was = p.states()
	for _, tool := range p.tools {
		content, err := r.content(tool)
		if err != nil {
			p.refuse(uncached(err.Error()))
		}
		fmt.Fprintf(p.sum, "%q %s\n", tool, content)
	}
	return p, nil
}

// times are those of all headers, where there is debug information: it names the working directory, and its table of source lines has them.
func (r *run) times(p *preprocessed) (list string) {
	for _, header := range p.headers {
		if fi, err := os.Stat(header); err == nil && r.debug {
			list += fmt.Sprintf("%q %d\n", header, fi.ModTime().Unix())
		}
	}
	return list
}

// states show whether the programs are still the same, where a link leads elsewhere, too.
func (p *preprocessed) states() (list string) {
	for _, tool := range p.tools {
		is, _ := state(tool)
		list += is + "\n"
	}
	return list
}

// scratch makes the directory of this call's own. It is in gpubuild's cache: TMPDIR stays clean where the call is killed.
func (r *run) scratch() (err error) {
	if r.tmp != "" {
		return nil
	}
	parent := filepath.Join(r.store.dir, temporaries)
	if r.store.readOnly || temporary.MatchString(parent) || strings.ContainsAny(parent, " ,\t\n\"$`\\") ||
		os.MkdirAll(parent, 0o700) != nil {
		parent = ""
	}
	dir, err := os.MkdirTemp(parent, "gpubuild-nvcc-")
	if err != nil && parent != "" {
		dir, err = os.MkdirTemp("", "gpubuild-nvcc-")
	}
	if err != nil {
		return uncached(err.Error())
	}
	r.tmp, err = filepath.Abs(dir)
	return err
}

// matters says whether nvcc or the programs that it starts look at a variable.
func matters(name string) bool {
	switch name {
	case "LD_PRELOAD", "CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "COMPILER_PATH", "SOURCE_DATE_EPOCH", "LANG", "LANGUAGE",
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
// command prints is all that the step makes where a file is named. The error says why the result must not be kept.
func (r *run) step(ctx context.Context, step string, host buildenv.Host, p *preprocessed) (shell, file string, err error) {
	word := strings.ReplaceAll(firstWord.FindString(strings.Replace(step, "$CICC_PATH", host.Env.Get("CICC_PATH"), 1)), `"`, "")
	path := word
	if !strings.Contains(word, "/") {
		if path, err = host.LookPath(word); err != nil {
			err = uncached("no " + word + " on PATH")
		}
	} else if path, err = filepath.Abs(word); err != nil {
		err = uncached(err.Error())
	}
	switch base := filepath.Base(word); {
	case base == "rm":
		return "", "", nil
	case base == "cicc" || base == "cudafe++" || base == "ptxas" || base == "fatbinary" || base == "nvlink":
		return "", "", cmp.Or(err, r.toolkit(host, path, p))
	}
	if err == nil {
		err = r.compilerTools(ctx, host, path, p)
	}
	switch {
	case strings.Contains(step, " -E ") && passOutput.MatchString(step):
		file = passOutput.FindStringSubmatch(step)[1]
		if filepath.Dir(file) != r.tmp {
			return passOutput.ReplaceAllString(step, ""), "", uncached("nvcc writes to another directory than it is asked to")
		}
		return passOutput.ReplaceAllString(step, ""), file, err
	case hostPass.MatchString(step):
		return hostPass.ReplaceAllString(step, " -E -x c++ ${1}-"), "", err
	case strings.Contains(step, " -E "):
		return anyOutput.ReplaceAllString(step, ""), "", uncached("only preprocessed")
	case strings.Contains(step, " -c ") && !strings.Contains(step, "tmpxft"): // a source that is not CUDA
		return anyOutput.ReplaceAllString(strings.Replace(step, " -c ", " -E ", 1), ""), "", uncached("a source without device code")
	}
	return "", "", uncached("a step that is not known: " + word)
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
	return nil
}

// compilerTools notes the host compiler and its assembler; its cc1plus is what its own -v names in each pass. Only gcc's own driver is
// known to start no others: a script, or a program that looks like gcc and starts it with more arguments, is not.
func (r *run) compilerTools(ctx context.Context, host buildenv.Host, path string, p *preprocessed) error {
	if slices.Contains(p.tools, path) {
		return nil
	}
	p.tool(path)
	if ccache := host.Real(path); filepath.Base(ccache) == "ccache" {
		if err := r.ccache(ctx, host, ccache, p); err != nil {
			return err
		}
	} else if err := isDriver(host, path); err != nil {
		return err
	}
	res, err := r.runner.Run(ctx, buildenv.Cmd{Path: path, Args: []string{"-print-prog-name=as"}, Env: host.Env.Entries()})
	if err != nil {
		return uncached("the host compiler does not name its assembler")
	}
	_, err = p.compilerPart(host, strings.TrimSpace(string(res.Stdout)))
	return err
}

// compilerPart notes a program that the host compiler starts, or is, and returns its path.
func (p *preprocessed) compilerPart(host buildenv.Host, program string) (path string, err error) {
	if path = program; !strings.Contains(program, "/") {
		if path, err = host.LookPath(program); err != nil {
			return "", uncached(err.Error())
		}
	}
	p.tool(path)
	return path, isELF(host.Real(path))
}

// ccache counts with its whole configuration, and may start nothing else than the compiler, which says its own name in each pass.
func (r *run) ccache(ctx context.Context, host buildenv.Host, ccache string, p *preprocessed) error {
	res, err := r.runner.Run(ctx, buildenv.Cmd{Path: ccache, Args: []string{"--show-config"}, Env: host.Env.Entries()})
	if err != nil {
		return uncached("ccache does not show its configuration")
	}
	if m := ccacheStarts.FindSubmatch(res.Stdout); m != nil {
		return uncached("ccache's " + string(m[1]))
	}
	_, _ = p.sum.Write(res.Stdout) // a hash takes all
	return nil
}

// isDriver refuses what is not gcc's driver, which is known by two of its texts (COLLECT_GCC_OPTIONS is in pieces in some builds of it).
func isDriver(host buildenv.Host, path string) error {
	real := host.Real(path)
	if !compilerName.MatchString(filepath.Base(real)) {
		return uncached(path + " is not known as gcc")
	}
	if err := isELF(real); err != nil {
		return err
	}
	program, err := os.ReadFile(real)
	if err != nil || !bytes.Contains(program, []byte("Reading specs from")) || !bytes.Contains(program, []byte("print-prog-name")) {
		return uncached(path + " is a program in front of gcc")
	}
	return nil
}

func (p *preprocessed) tool(files ...string) {
	for _, f := range files {
		p.once(&p.tools, f)
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
	if err != nil {
		return uncached("the preprocessor failed")
	}
	if len(text.rest) > 0 {
		p.refuse(uncached("the preprocessor's last line has no end"))
	}
	if file != "" {
		p.listed = len(p.headers)
	}
	searching, own := false, false
	for line := range strings.Lines(string(res.Stderr)) {
		line = strings.TrimRight(line, "\r\n")
		driver, isDriven := strings.CutPrefix(line, "COLLECT_GCC=")
		missing, isMissing := strings.CutPrefix(line, `ignoring nonexistent directory "`)
		same, isSame := strings.CutPrefix(line, `ignoring duplicate directory "`)
		switch {
		case strings.HasPrefix(line, "#include "):
			searching = true
		case line == "End of search list.":
			searching, own = false, true
		case strings.HasPrefix(line, "COMPILER_PATH="):
			own = false
		case !own && isDriven:
			path, err := p.compilerPart(host, driver)
			p.refuse(cmp.Or(err, isDriver(host, path)))
		case !own && strings.HasPrefix(line, "Reading specs from "):
			p.refuse(uncached("gcc reads its specs from a file"))
		case !own && !searching && strings.HasPrefix(line, " /"):
			program, _, _ := strings.Cut(line[1:], " ")
			_, err := p.compilerPart(host, program)
			p.refuse(err)
		case own && file != "": // what the last pass says is said again as its step is carried out
			p.said = append(p.said, line+"\n"...)
		case own:
		case strings.Contains(line, ": warning: "):
			p.refuse(uncached("a warning about an option"))
		case searching && strings.HasPrefix(line, " "):
			p.once(&p.dirs, line[1:])
		case isMissing:
			p.once(&p.dropped, strings.TrimSuffix(missing, `"`))
		case isSame:
			p.once(&p.dropped, strings.TrimSuffix(same, `"`))
		}
	}
	return nil
}

func (p *preprocessed) once(list *[]string, path string) {
	if !slices.Contains(*list, path) {
		*list = append(*list, path)
	}
}

// passText hashes preprocessed text and reads its line markers, which name the files.
type passText struct {
	into *preprocessed
	rest []byte
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

// undecided is what the compilers, which read preprocessed text once more, would find in a line: the time, or a directive that a macro
// made. A pragma may compare the times of files.
func undecided(line []byte) string {
	for _, word := range []string{"__TIME", "__DATE__"} {
		if bytes.Contains(line, []byte(word)) {
			return word
		}
	}
	text := bytes.TrimSpace(line)
	for _, mark := range []string{"#", "%:", "??="} {
		directive, ok := bytes.CutPrefix(text, []byte(mark))
		if directive = bytes.TrimSpace(directive); ok && (!bytes.HasPrefix(directive, []byte("pragma")) ||
			bytes.Contains(text, []byte("dependency"))) {
			return "the directive " + string(text)
		}
	}
	return ""
}

func (t *passText) line(line []byte) {
	if len(line) < 3 || line[0] != '#' || line[1] != ' ' || line[2] < '0' || line[2] > '9' {
		if what := undecided(line); what != "" {
			t.into.refuse(uncached("the preprocessed text has " + what))
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
		t.into.refuse(uncached("a line marker that is not understood: " + string(line)))
	case strings.HasPrefix(path, "<") || strings.HasSuffix(path, "//"):
	default:
		t.into.headers = append(t.into.headers, path)
		if entered := bytes.HasPrefix(line[end+1:], []byte(" 1")); !entered && len(t.into.headers) > 1 {
			t.into.named = true
		}
	}
}
