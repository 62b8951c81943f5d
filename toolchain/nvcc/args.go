package nvcc

import (
	"cmp"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"gpubuild/buildenv/lazyregexp"
)

// call is what a command line of nvcc asks for.
type call struct {
	mode    string // extension of the output: o, ptx, cubin, fatbin; empty: not a compilation
	in      []string
	files   []string  // with options
	out     string    // -o; empty: not given
	outDir  string    // -odir
	deps    bool      // -MD
	depFile string    // -MF
	target  string    // -MT
	debug   bool      // debug information: the output names the working directory
	words   []string  // the arguments that count, those of options files and of nvcc's variables included
	dryrun  []string  // the typed arguments without those that say only where an output goes, --threads and --verbose
	flags   [2]string // NVCC_PREPEND_FLAGS and NVCC_APPEND_FLAGS without the last two
	threads int       // compilers that run at the same time; 0: one
	verbose bool
	sources bool   // PTX repeats the lines of the sources, comments included
	forward bool   // what nvcc does not know goes to the host compiler
	unknown string // why this command line is not cached; empty: it may be
}

// switches are the options without a value that are understood; each change of the output that they make shows in nvcc's --dryrun.
var switches = set(`allow-unsupported-compiler use_fast_math extra-device-vectorization
	noeh no-exceptions nohdinitlist no-host-device-initializer-list nohdmoveforward no-host-device-move-forward expt-relaxed-constexpr
	extended-lambda expt-extended-lambda m64 w disable-warnings keep-device-functions restrict Wreorder
	Wdefault-stream-launch Wmissing-launch-bounds Wext-lambda-captures-this Wno-deprecated-declarations Wno-deprecated-gpu-targets
	Wconversion res-usage resource-usage ewp extensible-whole-program no-compress err-no display-error-number no-err-no
	no-display-error-number dlto dlink-time-opt lto simt-only no-align-double O0 O1 O2 O3 m32
	forward-unknown-to-host-compiler forward-unknown-to-host-linker forward-unknown-opts skip-ptx-semantics-check utf-8 reloc-ptx
	relocatable-ptx`)

// valued are the understood options that take a value.
var valued = set(`include pre-include D define-macro U undefine-macro I include-path isystem system-include cudart cudadevrt std x m machine
	arch gpu-architecture code gpu-code gencode generate-code rdc relocatable-device-code maxrregcount ftz prec-div prec-sqrt fmad
	default-stream Werror diag-suppress diag-error diag-warn compress-mode ftemplate-backtrace-limit ftemplate-depth
	brief-diag brief-diagnostics static-global-template-stub device-entity-has-hidden-visibility jtd jump-table-density dopt O optimize
	library library-path l L split-compile
	ccbin compiler-bindir frandom-seed fmax-errors device-stack-protector`)

// passed are the options whose value goes to another program, with the words that are understood there.
var passed = map[string]*lazyregexp.Regexp{
	"Xcompiler": hostFlag, "compiler-options": hostFlag,
	"Xptxas": ptxasFlag, "ptxas-options": ptxasFlag,
	"Xcicc":   lazyregexp.New(`^-O[0-3]$`),
	"Xcudafe": lazyregexp.New(`^(--diag_(suppress|warning|error|remark|default)=\w+|\w+|--display_error_number)$`),
	"Xfatbin": lazyregexp.New(`^--?(compress-all|no-compress|compress=\w+|compress-mode=\w+)$`),
}

var (
	hostFlag = lazyregexp.New(`^-(I.+|f(file|debug|macro)-prefix-map=[^,]+|O[0-3sg]?|Ofast|g[0-3]?|ggdb[0-3]?|gdwarf-\d|w|pedantic|pthread|pipe|` +
		`W[a-z][a-z0-9+-]+(=[a-z0-9]+)?|std=[a-z0-9+]+|[DU]\w+(=\w*)?|m[a-z0-9.=_+-]+|` +
		`f(PIC|pic|PIE|pie|openmp|(no-)?(exceptions|rtti|strict-aliasing|omit-frame-pointer|fast-math|math-errno|common|plt|` +
		`function-sections|data-sections|semantic-interposition|unroll-loops|stack-protector|asynchronous-unwind-tables|` +
		`unsafe-math-optimizations|finite-math-only|permissive|wrapv|trapping-math|signed-zeros|inline|threadsafe-statics)|ffast-math|` +
		`function-sections|data-sections|stack-protector-strong|cf-protection(=\w+)?|visibility=\w+|visibility-inlines-hidden|` +
		`fp-contract=\w+|diagnostics-color=\w+|max-errors=\d+|permissive|unroll-loops))$`)
	ptxasFlag = lazyregexp.New(`^--?(v|verbose|w|O[0-4]|opt-level=\d|warn-[a-z-]+|Werror|` +
		`(dlcm|dscm|def-load-cache|def-store-cache)=\w+|maxrregcount=\d+|` +
		`suppress-[a-z-]+|allow-expensive-optimizations=\w+|fmad=\w+|generate-line-info|lineinfo)$`)
)

// linked are arguments for the linker; -ldir and -link are nvcc's own.
var linked = lazyregexp.New(`^-(L.+|l(cu[a-zA-Z]+\w*|nv[a-zA-Z]+\w*|stdc\+\+|pthread|m|dl|rt))$`)

func set(names string) map[string]bool {
	m := map[string]bool{}
	for _, n := range strings.Fields(names) {
		m[n] = true
	}
	return m
}

// parse reads a command line and what NVCC_PREPEND_FLAGS and NVCC_APPEND_FLAGS add to it.
func parse(args []string, before, after string) (c call) {
	if strings.ContainsAny(before+after, "'\\$`") || strings.Count(before+after, `"`)%2 != 0 {
		c.unknown = "quotes in NVCC_PREPEND_FLAGS or NVCC_APPEND_FLAGS"
	}
	c.flags[0] = strings.Join(c.read(plainWord.FindAllString(before, -1), false), " ")
	c.dryrun = nil // nvcc reads these variables itself
	c.read(args, true)
	typed := c.dryrun
	c.flags[1] = strings.Join(c.read(plainWord.FindAllString(after, -1), false), " ")
	c.dryrun = typed
	machine := func(w string) bool {
		return w == "native" || strings.Contains(w, "=native") || strings.Contains(w, "tmpxft")
	}
	switch {
	case c.unknown != "":
	case c.mode == "":
		c.unknown = "not a compilation"
	case len(c.in) != 1:
		c.unknown = "not exactly one input"
	case !slices.Contains(sourceEndings, filepath.Ext(c.in[0])):
		c.unknown = "an input that is no source file"
	case c.out != "" && c.outDir != "":
		c.unknown = "both an output file and an output directory"
	case c.deps && c.out == "":
		c.unknown = "a dependency list without a name"
	case !c.deps && c.depFile+c.target != "":
		c.unknown = "an option for a dependency list that is not asked for"
	case slices.ContainsFunc(c.words, machine):
		c.unknown = "a choice that depends on this machine"
	}
	return c
}

// What an argument is about.
const (
	theResult = iota
	anOutput  // where one goes
	theCall   // how many processes nvcc starts at a time, and whether it lists them
)

// read takes words in, of which those in double quotes have them, and returns those that are about the result. Only those that were typed
// may say where the output goes: --dryrun is asked without them.
func (c *call) read(words []string, typed bool) (kept []string) {
	for i := 0; i < len(words); i++ {
		var plain []string
		for _, w := range words[i:] {
			if !typed {
				w = strings.ReplaceAll(w, `"`, "")
			}
			plain = append(plain, w)
		}
		taken, about := c.word(plain[0], plain[1:], typed)
		if about == anOutput && !typed {
			c.unknown = "an output that is not named on the command line"
		}
		if about == theResult {
			c.words, c.dryrun = append(c.words, plain[:1+taken]...), append(c.dryrun, plain[:1+taken]...)
			kept = append(kept, words[i:i+1+taken]...)
		}
		i += taken
	}
	return kept
}

// word reads one word and returns how many of those that follow are its value, and what it is about.
func (c *call) word(w string, next []string, typed bool) (taken, about int) {
	if file, ok := strings.CutPrefix(w, "@"); ok {
		shown := c.dryrun
		_ = c.optionsFile(file, typed)
		c.dryrun = shown
		return 0, theResult // nvcc 13 refuses such a word next to an input: --dryrun has to see it
	}
	if !strings.HasPrefix(w, "-") || w == "-" {
		c.in = append(c.in, w)
		return 0, theResult
	}
	name, value, joined := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(w, "-"), "-"), "=")
	take := func() string {
		if !joined && len(next) > 0 {
			value, taken = next[0], 1
		}
		return value
	}
	if at := c.placed(name); at != nil {
		c.place(w, at, take())
		return taken, anOutput
	}
	if n, err := strconv.Atoi(strings.TrimPrefix(name, "t")); err == nil && name[0] == 't' && n >= 0 && !joined {
		c.threads = n
		return 0, theCall
	}
	switch name {
	case "c", "compile", "dc", "device-c":
		c.mode = cmp.Or(c.mode, "o")
	case "ptx", "cubin", "fatbin":
		c.mode = name
	case "E", "preprocess", "lib", "dlink", "device-link":
		c.mode = map[string]string{"lib": "a", "dlink": "dlink", "device-link": "dlink"}[name]
		c.mode = cmp.Or(c.mode, "E")
		c.unknown = "the option " + w
	case "MD", "generate-dependencies-with-compile":
		c.deps, about = true, anOutput
	case "t", "threads": // changes the steps' form, not what they make
		n, err := strconv.Atoi(take())
		if err != nil || n < 0 {
			c.unknown = "the option " + w + " " + value
		}
		c.threads, about = n, theCall
		if n == 0 {
			c.threads = runtime.NumCPU()
		}
	case "keep", "save-temps":
		c.unknown, about = "the option "+w, anOutput
	case "keep-dir", "time": // the latter is a file, which --dryrun writes, too
		c.unknown, about = "the option "+w, anOutput
		take()
	case "v", "verbose":
		c.verbose, about = true, theCall
	case "optf", "options-file":
		about = c.optionsFile(take(), typed)
	case "source-in-ptx", "src-in-ptx":
		c.debug, c.sources = true, true
	case "g", "debug", "G", "device-debug", "lineinfo", "generate-line-info":
		c.debug = true
	default:
		c.other(w, name, take)
	}
	return taken, about
}

// placed is where the value of an option about an output is kept.
func (c *call) placed(name string) *string {
	return map[string]*string{"o": &c.out, "output-file": &c.out, "odir": &c.outDir, "output-directory": &c.outDir,
		"MF": &c.depFile, "dependency-output": &c.depFile, "MT": &c.target, "dependency-target-name": &c.target}[name]
}

// place takes the value of an option about an output. nvcc warns of one that was given twice.
func (c *call) place(w string, at *string, value string) {
	if *at != "" {
		c.unknown = "the option " + w + " twice"
	} else if value == "" {
		c.unknown = "the option " + w + " without a value"
	}
	*at = value
}

func (c *call) other(w, name string, take func() string) {
	switch {
	case switches[name]:
		c.forward = c.forward || name == "forward-unknown-to-host-compiler" || name == "forward-unknown-opts"
	case valued[name]:
		take()
	case passed[name] != nil:
		value := take()
		for _, f := range strings.FieldsFunc(value, func(r rune) bool { return r == ',' || r == ' ' }) {
			if !passed[name].MatchString(f) {
				c.unknown = "the option " + w + " " + value
			}
			c.debug = c.debug || strings.HasPrefix(f, "-g")
		}
	case c.forward && hostFlag.MatchString(w) && !strings.HasPrefix(w, "--"): // nvcc itself does not know it
		c.debug = c.debug || strings.HasPrefix(w, "-g")
	case linked.MatchString(w): // for the linker, which does not run
	case len(w) > 2 && (strings.HasPrefix(w, "-I") || strings.HasPrefix(w, "-D") || strings.HasPrefix(w, "-U")):
	default:
		c.unknown = "the option " + w
	}
}

// optionsFile reads the words of a file, which then are in its place: what is an output among them is not for --dryrun. A file that has more
// than words and plain double quotes is not understood.
func (c *call) optionsFile(file string, typed bool) (about int) {
	c.files = append(c.files, file)
	if readOnce(file) { // and nvcc reads it
		c.unknown = "an options file"
		return theResult
	}
	data, err := os.ReadFile(file)
	text := string(data)
	if !typed || err != nil || strings.ContainsAny(text, "'\\$`#@") || strings.Count(text, `"`)%2 != 0 || strings.Contains(file, ",") {
		c.unknown = "an options file"
		return theResult
	}
	_ = c.read(plainWord.FindAllString(text, -1), false)
	return theCall
}

// consumed names an input that can be read only once, by nvcc itself; empty: there is none.
func (c *call) consumed() string {
	for _, word := range slices.Concat(c.in, c.files, c.words) {
		for _, name := range strings.FieldsFunc(word, func(r rune) bool { return r == '=' || r == ',' || r == '@' }) {
			if readOnce(name) {
				return name
			}
		}
	}
	return ""
}

// readOnce reports whether whoever reads an input leaves nothing of it to others: standard input, a FIFO, or what a shell makes of <(…).
func readOnce(path string) bool {
	fi, err := os.Stat(path)
	if err == nil && fi.IsDir() {
		return false
	}
	return path == "-" || err == nil && !fi.Mode().IsRegular() && path != os.DevNull || ofProcess(path)
}

// ofProcess reports whether a path leads elsewhere in another process, as /dev/stdin and /dev/fd/7 do.
func ofProcess(path string) bool {
	for range 40 {
		if strings.HasPrefix(path, "/dev/") || strings.HasPrefix(path, "/proc/") { // not in /dev/shm, and not what /proc/self/cwd leads to
			dir, err := filepath.EvalSymlinks(filepath.Dir(path))
			if err != nil || strings.HasPrefix(dir+"/", "/proc/") {
				return true
			}
		}
		to, err := os.Readlink(path)
		if err != nil {
			return false
		}
		if !filepath.IsAbs(to) {
			to = filepath.Join(filepath.Dir(path), to)
		}
		path = to
	}
	return true
}

// plainWord is a word with double quotes around its white space.
var plainWord = lazyregexp.New(`(?:[^\s"]|"[^"]*")+`)

// output is the file that the call writes.
func (c call) output() string {
	if c.out != "" {
		return c.out
	}
	base := filepath.Base(c.in[0])
	return filepath.Join(c.outDir, strings.TrimSuffix(base, filepath.Ext(base))+"."+c.mode)
}

// outputs are the files that a call writes which compiles or links device code; of one that packs an archive there are none.
func (c call) outputs() (paths []string) {
	switch {
	case c.mode == "a" || c.mode == "E":
		return nil
	case c.out != "":
		return []string{c.out}
	case c.mode == "" || c.mode == "dlink":
		return []string{"a.out", "a_dlink.o"}
	}
	for _, c.in[0] = range slices.Clone(c.in) {
		paths = append(paths, c.output())
	}
	return paths
}

// dependencies is the file of the dependency list; empty where none is asked for.
func (c call) dependencies() string {
	switch {
	case !c.deps:
		return ""
	case c.depFile != "":
		return c.depFile
	}
	return strings.TrimSuffix(c.out, filepath.Ext(c.out)) + ".d"
}
