package nvcc

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"

	"gpubuild/buildenv"
	"gpubuild/buildenv/cache"
	"gpubuild/buildenv/lazyregexp"
	"gpubuild/buildenv/memo"
)

// schema changes when an older entry must not be used any more.
const schema = "gpubuild kernel cache 10"

// run is one call of nvcc that may be cached.
type run struct {
	call
	host     buildenv.Host // without LD_LIBRARY_PATH
	env      []string      // as nvcc was called
	runner   buildenv.Runner
	real     string // the toolkit's nvcc
	args     []string
	cacheDir string
	readOnly bool
	memo     memo.Store // as the call began
	record   *record    // of a build script's call; see list
	linked   Linked
	tmp      string // a directory of this call's own, once something is compiled or preprocessed
	refused  bool   // nvcc does not take the command line, and reads nothing
	several  bool   // the build is for several architectures
	parts    *parts // what was made for one of them
}

// preprocessed is what a call compiles, as the tools see it.
type preprocessed struct {
	sum     hash.Hash
	tooled  hash.Hash       // of what all steps depend on
	headers []string        // the source, and each file that it includes
	tools   []string        // the programs that take part, and their own files
	dirs    []string        // the directories that were searched for headers, in order
	dropped []string        // those that gcc left out because another one is the same
	seen    map[string]bool // of line markers
	order   []string        // the names of all steps, in the order of --dryrun
	steps   []step          // what is left to be done, with the preprocessed text in files of r.tmp
	env     []string        // of the steps
	out     string          // what the last of them writes
	said    map[string]said // what the preprocessor has to say, by the step's name
	single  []string        // those of headers that can be read only once
	listed  int             // how many of headers -MD lists
	named   bool            // one of headers is named by #line, which gcc's markers then do not enter; -MD does not list it
	times   string          // of headers, where the output has them
	was     []memo.Input    // states of tools
	refused error           // why the result must not be kept; the first reason
}

// step is one of nvcc's. Its name is that of its program and how many of that come before it, in whatever order nvcc lists all.
type step struct{ name, shell string }

// name names the next step.
func name(order []string, shell string) string {
	program := strings.Trim(strings.Fields(shell + " ")[0], `"`)
	program = program[strings.LastIndexByte(program, '/')+1:]
	same := func(n string) bool { return strings.HasPrefix(n, program+" ") }
	n := 0
	for _, was := range order {
		if same(was) {
			n++
		}
	}
	return fmt.Sprint(program, " ", n)
}

func (p *preprocessed) key() string { return hex.EncodeToString(p.sum.Sum(nil)) }

// pipe is a header of which nothing is left for nvcc; empty: there is none.
func (p *preprocessed) pipe() string {
	if p != nil {
		for _, path := range p.single {
			if !ofProcess(path) { // of which shell has another one
				return path
			}
		}
	}
	return ""
}

func (p *preprocessed) refuse(err error) { p.refused = cmp.Or(p.refused, err) }

var (
	variableLine = lazyregexp.New(`^[A-Za-z_][A-Za-z0-9_]*=`)
	temporary    = lazyregexp.New(`(/[^" ]*/)?tmpxft_[0-9a-f]+_[0-9a-f]+(-[0-9]+)?_`)
	output       = lazyregexp.New(` -o "([^"]*)" *$`)
	hostPass     = lazyregexp.New(` -c -x c\+\+ (.*)"[^"]*tmpxft_[^"]*" -o "[^"]*" *$`)
	droppedDir   = lazyregexp.New(`^ignoring (?:nonexistent|duplicate) directory "(.*)"$`)
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
	p := &preprocessed{sum: sha256.New(), tooled: sha256.New(), seen: map[string]bool{}, said: map[string]said{},
		out: filepath.Join(r.tmp, "tmpxft_0_0_out."+r.mode)}
	dry, err := r.runner.Run(ctx, r.dryRun(p.out))
	if r.refused = err != nil; err != nil || dry.Truncated {
		return nil, errors.New("nvcc --dryrun failed")
	}
	fmt.Fprintf(p.sum, "%s\n%q\n%q\n", schema, r.real, r.words)
	for _, e := range r.host.Env.Entries() {
		if name, _, _ := strings.Cut(e, "="); Reads(name, r.host.OS) {
			fmt.Fprintf(io.MultiWriter(p.sum, p.tooled), "%q\n", e)
		}
	}
	host, passes, err := r.steps(ctx, string(dry.Stderr), p)
	if err != nil {
		return p, err
	}
	p.env = host.Env.Set("TMPDIR", r.tmp).Entries()
	p.once(&p.tools, r.real)
	if profile := filepath.Join(host.Env.Get("_HERE_"), "nvcc.profile"); host.IsFile(profile) {
		p.once(&p.tools, profile)
	}
	library := host.Env.Get("NVVMIR_LIBRARY_DIR")
	for _, name := range host.Names(library) {
		p.once(&p.tools, filepath.Join(library, name))
	}
	if passes == 0 {
		return p, errors.New("no step of the preprocessor")
	}
	if p.times = r.times(p); p.times != "" {
		fmt.Fprintf(p.sum, "in %q\n%s", r.host.Cwd, p.times)
	}
	escaped := strings.ContainsAny(strings.Join(p.headers, "")+r.out, "#$%:\\\t\n\"'") || r.target == "" && strings.Contains(r.out, " ")
	if r.deps && (escaped || p.named) {
		p.refuse(errors.New("a name that a dependency list has to escape, or that only #line names"))
	}
	p.was = r.memo.Watch(p.tools...)
	for _, tool := range p.tools {
		content, err := r.content(tool)
		p.refuse(err)
		fmt.Fprintf(io.MultiWriter(p.sum, p.tooled), "%q %s\n", tool, content)
	}
	return p, nil
}

// dryRun is the command by which nvcc lists its steps.
func (r *run) dryRun(out string) buildenv.Cmd {
	args := slices.Concat([]string{"--dryrun"}, r.dryrun)
	if r.deps { // may add a pass
		args = append(args, "-MD", "-MF", filepath.Join(r.tmp, "list.d"))
	}
	if r.unknown == "" {
		args = append(args, "-o", out)
	}
	env := r.host.Env.Set("TMPDIR", r.tmp)
	for i, variable := range []string{"NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS"} {
		if env.Get(variable) != "" {
			env = env.Set(variable, r.flags[i])
		}
	}
	return buildenv.Cmd{Path: r.real, Args: args, Env: env.Entries()}
}

// steps reads what nvcc --dryrun listed: it adds each step to the key, and carries out those of the preprocessor. It returns the host with
// the steps' variables, and how many steps were carried out.
func (r *run) steps(ctx context.Context, list string, p *preprocessed) (host buildenv.Host, passes int, err error) {
	host = r.host
	var all []*pass
	for line := range strings.Lines(list) {
		text, ok := strings.CutPrefix(strings.TrimRight(line, "\r\n"), "#$ ")
		switch {
		case !ok:
			p.refuse(errors.New("nvcc --dryrun says: " + line))
			continue
		case strings.HasPrefix(text, "-- Filter Dependencies"): // see writeDependencies
			continue
		case variableLine.MatchString(text):
			name, value, _ := strings.Cut(text, "=")
			host.Env = host.Env.Set(name, value)
			if name != "PATH" && name != "LD_LIBRARY_PATH" {
				fmt.Fprintf(p.sum, "%q\n", text)
			}
			continue
		}
		fmt.Fprintf(p.sum, "%q\n", temporary.ReplaceAllString(text, "T_"))
		p.order = append(p.order, name(p.order, text))
		shell, file, err := r.step(ctx, text, host, p)
		p.refuse(err)
		if file == "" && !strings.HasPrefix(text, "rm ") { // of what may be left of another call
			p.steps = append(p.steps, step{p.order[len(p.order)-1], text})
		}
		if shell != "" {
			all = append(all, &pass{shell: shell + " -v", file: file, name: p.order[len(p.order)-1], host: host,
				text: cmp.Or(file, filepath.Join(r.tmp, fmt.Sprint("pass", len(all))))})
		}
	}
	return host, len(all), r.carryOutPasses(ctx, all, p)
}

// pass is a step of the preprocessor.
type pass struct {
	shell, file, name string        // file: where nvcc would have its output; name: the step's
	text              string        // the file of its stdout, which it leaves if it fails, too: a pipe would cost a hit a twentieth
	host              buildenv.Host // with the variables of the steps before it
	said              said
}

// atOnce is how many preprocessors run at once: they are short, and each may take 100 MB.
const atOnce = 4

// carryOutPasses runs the preprocessors side by side, also where nvcc does not, and reads what they wrote in the order of the steps.
func (r *run) carryOutPasses(ctx context.Context, all []*pass, p *preprocessed) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for _, one := range all {
		env := one.host.Env.Set("LC_ALL", "C").Unset("MAKEFLAGS") // its messages are read, of which gcc -v makes one of a job server
		group.Go(func() (err error) {
			one.said, err = r.shell(ctx, one.shell+` >"`+one.text+`"`, env.Entries())
			return err
		})
	}
	failed := group.Wait()
	for _, one := range all {
		if err := p.read(one); err != nil {
			failed = cmp.Or(failed, err)
		}
	}
	if failed != nil {
		return errors.New("the preprocessor failed")
	}
	return nil
}

// times are those of all headers, where there is debug information: it names the working directory, and its table of source lines has them;
// where PTX repeats the lines, the content.
func (r *run) times(p *preprocessed) (list string) {
	for _, header := range p.headers {
		if fi, err := os.Stat(header); err == nil && r.debug {
			list += fmt.Sprintf("%q %d\n", header, fi.ModTime().Unix())
			if r.sources {
				sum, err := r.content(header)
				list += fmt.Sprintln(sum, err)
			}
		}
	}
	return list
}

// scratch makes the directory of this call's own. It is in gpubuild's cache: TMPDIR stays clean where the call is killed.
func (r *run) scratch() error {
	parent := filepath.Join(r.cacheDir, Kernels, temporaries)
	if r.readOnly || temporary.MatchString(parent) || strings.ContainsAny(parent, " ,\t\n\"$`\\") || cache.Make(parent) != nil {
		parent = ""
	}
	dir, err := os.MkdirTemp(parent, "gpubuild-nvcc-")
	if err != nil {
		return err
	}
	r.tmp, err = filepath.Abs(dir)
	return err
}

// Reads reports whether nvcc or the programs that it starts look at a variable: NVIDIA, "NVCC Environment Variables" and nvcc.profile; GCC
// manual, "Environment Variables Affecting GCC"; Microsoft, "CL environment variables".
func Reads(name, system string) bool {
	switch name {
	case "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "LC_MESSAGES": // of gcc's messages alone, which a hit repeats
		return true
	case "CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "COMPILER_PATH", "SOURCE_DATE_EPOCH", "INCLUDES",
		"LIBRARIES", "TOP", "_HERE_", "_SPACE_", "USR_INCLUDE", "NOCOLOR", "G++_ROOT", "BINUTILS_ROOT", "POSIXLY_CORRECT", "MALLOC_CONF":
		return true
	case "INCLUDE", "CL", "_CL_":
		return system == buildenv.Windows
	}
	for _, p := range []string{"NVCC", "NV_", "NVVM", "LIBNVVM", "LLVM", "EDG_", "CICC", "CUDAFE", "PTXAS", "OCG_", "NVASM", "NVDISASM",
		"NVLINK", "GCC_", "SYSTEM_INCLUDES", "TILEIRAS"} {
		if strings.HasPrefix(name, p) && name != "NVCC" && name != "CICC_PATH" {
			return true
		}
	}
	return false
}

// step notes the program of a step, and returns the command that shows what the step reads: empty where other steps show it. What the
// command prints is all that the step makes where a file is named. The error says why the result must not be kept.
func (r *run) step(ctx context.Context, step string, host buildenv.Host, p *preprocessed) (shell, file string, err error) {
	word := strings.ReplaceAll(firstWord.FindString(strings.Replace(step, "$CICC_PATH", host.Env.Get("CICC_PATH"), 1)), `"`, "")
	if word == "rm" {
		return "", "", nil
	}
	if slices.Contains([]string{"cicc", "cudafe++", "ptxas", "fatbinary", "nvlink"}, filepath.Base(word)) {
		_, err = p.program(host, word)
		return "", "", err
	}
	err = r.compiler(ctx, host, word, p)
	without, out := output.ReplaceAllString(step, ""), append(output.FindStringSubmatch(step), "", "")[1]
	switch {
	case strings.Contains(step, " -E ") && filepath.Dir(out) == r.tmp && strings.Contains(out, "tmpxft_"):
		return without, out, err
	case hostPass.MatchString(step):
		return hostPass.ReplaceAllString(step, " -E -x c++ ${1}-"), "", err
	case strings.Contains(step, " -E "):
		return without, "", errors.New("only preprocessed, or into another directory than it is asked to")
	case strings.Contains(step, " -c ") && !strings.Contains(step, "tmpxft"): // a source that is not CUDA
		return strings.Replace(without, " -c ", " -E ", 1), "", errors.New("a source without device code")
	}
	return "", "", errors.New("a step that is not known: " + word)
}

// compiler notes the host compiler and, where an object is made, what it runs after cc1plus, which its own -v names in each pass. Only gcc's
// own driver is known to start no others, and ccache, which is switched off: a program that looks like gcc may start it with more arguments.
func (r *run) compiler(ctx context.Context, host buildenv.Host, name string, p *preprocessed) error {
	known := len(p.tools)
	path, err := p.program(host, name)
	if err != nil || len(p.tools) == known {
		return err
	}
	if filepath.Base(host.Real(path)) != "ccache" {
		err = isDriver(host, path)
	}
	if err != nil || r.mode != "o" {
		return err
	}
	res, err := r.runner.Run(ctx, buildenv.Cmd{Path: path, Args: []string{"-print-prog-name=as"}, Env: host.Env.Entries()})
	if err != nil {
		return errors.New("the host compiler does not name its assembler")
	}
	_, err = p.program(host, strings.TrimSpace(string(res.Stdout)))
	return err
}

// program notes a program of the toolkit or the host compiler, and returns its path. A script may start anything.
func (p *preprocessed) program(host buildenv.Host, name string) (path string, err error) {
	if path = name; !strings.Contains(name, "/") {
		if path, err = host.LookPath(name); err != nil {
			return "", errors.New("no " + name + " on PATH")
		}
	}
	p.once(&p.tools, path)
	return path, isELF(host.Real(path))
}

// isDriver refuses what is not gcc's driver, which is known by two of its texts (COLLECT_GCC_OPTIONS is in pieces in some builds of it).
func isDriver(host buildenv.Host, path string) error {
	real := host.Real(path)
	if !compilerName.MatchString(filepath.Base(real)) {
		return errors.New(path + " is not known as gcc")
	}
	program, err := os.ReadFile(real)
	if err != nil || !bytes.Contains(program, []byte("Reading specs from")) || !bytes.Contains(program, []byte("print-prog-name")) {
		return errors.New(path + " is a program in front of gcc")
	}
	return nil
}

// isELF refuses scripts, which may start anything.
func isELF(path string) error {
	f, err := elf.Open(path)
	if err != nil {
		return errors.New(path + " is no ELF program")
	}
	return f.Close()
}

// read takes what a pass wrote.
func (p *preprocessed) read(one *pass) error {
	fmt.Fprintf(p.sum, "pass %q\n", temporary.ReplaceAllString(one.shell, "T_"))
	text, err := os.ReadFile(one.text)
	if err != nil {
		return err
	}
	_, _ = p.sum.Write(text) // a hash takes all
	if word := ofTheTime(text); word != "" {
		p.refuse(errors.New("the preprocessed text has " + word))
	}
	for line := range bytes.Lines(text) {
		p.line(line)
	}
	if one.file != "" {
		p.listed = len(p.headers)
	}
	driver, rest, _ := strings.Cut(string(one.said.Err), "#include \"...\" search starts here:\n")
	dirs, rest, _ := strings.Cut(rest, "End of search list.\n")
	own, more, _ := strings.Cut(rest, "COMPILER_PATH=")
	_, _ = p.sum.Write([]byte(own)) // a hit says what the preprocessor has to say of this text
	for line := range strings.Lines(driver + more) {
		line = strings.TrimRight(line, "\r\n")
		if path, ok := strings.CutPrefix(line, "COLLECT_GCC="); ok {
			known := len(p.tools)
			if path, err = p.program(one.host, path); err == nil && len(p.tools) > known { // which ccache led to
				err = isDriver(one.host, path)
			}
			p.refuse(err)
		} else if m := droppedDir.FindStringSubmatch(line); m != nil {
			p.once(&p.dropped, m[1])
		} else if strings.HasPrefix(line, " /") {
			program, _, _ := strings.Cut(line[1:], " ")
			_, err := p.program(one.host, program)
			p.refuse(err)
		} else if strings.HasPrefix(line, "Reading specs from ") || strings.Contains(line, ": warning: ") {
			p.refuse(errors.New("gcc says: " + line))
		}
	}
	for line := range strings.Lines(dirs) {
		if dir, ok := strings.CutPrefix(strings.TrimRight(line, "\r\n"), " "); ok {
			p.once(&p.dirs, dir)
		}
	}
	if one.file != "" { // what the last pass says is said again as its step is carried out
		p.said[one.name] = said{Err: []byte(own)}
	}
	return nil
}

func (p *preprocessed) once(list *[]string, path string) {
	if !slices.Contains(*list, path) {
		*list = append(*list, path)
	}
}

// ofTheTime is a macro of the time that a compiler would still expand in preprocessed text.
func ofTheTime(text []byte) string {
	for _, word := range []string{"__TIME", "__DATE__"} {
		if bytes.Contains(text, []byte(word)) {
			return word
		}
	}
	return ""
}

// undecided is what the compilers, which read preprocessed text once more, would find in a line: a directive that a macro made. A pragma
// may compare the times of files.
func undecided(line []byte) string {
	text := bytes.TrimSpace(line)
	if len(text) == 0 || !strings.ContainsRune("#%?", rune(text[0])) {
		return ""
	}
	for _, mark := range []string{"#", "%:", "??="} {
		directive, ok := bytes.CutPrefix(text, []byte(mark))
		if directive = bytes.TrimSpace(directive); ok && (!bytes.HasPrefix(directive, []byte("pragma")) ||
			bytes.Contains(text, []byte("dependency"))) {
			return "the directive " + string(text)
		}
	}
	return ""
}

// line reads a line of preprocessed text. Markers name the files.
func (p *preprocessed) line(line []byte) {
	line, ended := bytes.CutSuffix(line, []byte("\n"))
	if !ended {
		p.refuse(errors.New("the preprocessor's last line has no end"))
	}
	if len(line) < 3 || line[0] != '#' || line[1] != ' ' || line[2] < '0' || line[2] > '9' {
		if what := undecided(line); what != "" {
			p.refuse(errors.New("the preprocessed text has " + what))
		}
		return
	}
	open, end := bytes.IndexByte(line, '"'), bytes.LastIndexByte(line, '"')
	if open < 0 || end == open || p.seen[string(line[open:end+1])] {
		return
	}
	p.seen[string(line[open:end+1])] = true
	path, err := strconv.Unquote(string(line[open : end+1]))
	entered := bytes.HasPrefix(line[end+1:], []byte(" 1"))
	switch {
	case err != nil:
		p.refuse(errors.New("a line marker that is not understood: " + string(line)))
	case strings.HasPrefix(path, "<") || strings.HasSuffix(path, "//"):
	case readOnce(path):
		delete(p.seen, string(line[open:end+1])) // #line may name it before
		if entered {
			p.once(&p.single, path)
		}
		if ofProcess(path) {
			p.refuse(errors.New(onlyOnce + path))
		}
	default:
		p.headers = append(p.headers, path)
		if !entered && len(p.headers) > 1 {
			p.named = true
		}
	}
}
