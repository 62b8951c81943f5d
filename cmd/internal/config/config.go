// Package config reads gpubuild.toml of the workspace root and the [workspace.metadata.gpubuild] and [package.metadata.gpubuild] tables
// into one Config, in which each value carries where it came from.
//
// A cloned repository may say how it is built and proven; it may not say that
// something is to be fetched, nor from where: such keys are refused here.
package config

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/BurntSushi/toml"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/lazyregexp"
	"gpubuild/gpu"
)

// Source is one place that configuration was read from.
type Source struct {
	Path  string // as it is shown
	Table string // the table inside a manifest, such as workspace.metadata.gpubuild; empty for a gpubuild.toml
	Data  []byte // the whole file
	User  string // where the user's own configuration is
	Owner string // the package whose table it is, if it is one
}

// wrong is what is wrong with a key, which is given below the source's table.
func (s Source) wrong(problem, fix string, key ...string) error {
	return &Error{Path: s.Path, Line: lineIn(s.Data, append(s.below(), key...)...), Problem: problem, Fix: fix}
}

// below is the path of the source's table in its file.
func (s Source) below() []string {
	if s.Table == "" {
		return nil
	}
	return strings.Split(s.Table, ".")
}

// Value is a setting and where it came from; an empty Origin means that nobody set it.
type Value[T any] struct {
	Value  T
	Origin string
}

// Config is what a project says about its own GPU build.
type Config struct {
	GPUFeatures Value[[]string] // further features that ask for GPU work
	GPUPackages Value[[]string] // packages that compile kernels although nothing shows it
	CUDA        Value[string]   // toolkit version or root
	Arch        Value[string]   // such as sm_90
	Strict      Value[bool]
	Prove       Value[*Prove] // not nil: build runs what it built, under the probe
	Test        Value[*Tested]
	Bench       Value[*Marked]
	CI          Value[*CI]
	On          Value[map[string]On]
	Watch       Value[*Watch]
	Scan        Value[*Scan]
	Unread      []string // keys of a selected package that do not count, since another selected package has them, too
}

// Prove is the [prove] table.
type Prove struct {
	// The arguments with which the program is run.
	Args []string `toml:"args"`
	// Regular expressions: the kernels that count. Default: matrix products.
	Kernel Kernels `toml:"kernel"`
	// The exit code with which the program succeeds. Default: 0.
	ExpectExit int `toml:"expect-exit"`
	// How many launches must match, so that a warm-up alone proves nothing. Default: 1.
	MinLaunches *int `toml:"min-launches"`
	// How long these must have run on the device, together, such as "10ms". Default: any time.
	MinGPUTime string `toml:"min-gpu-time"`
	// Stop the program with SIGTERM once its kernel is proven: for a server. Default: false.
	UntilProved bool `toml:"until-proved"`
	// The program to run, if the build makes several.
	Bin    string `toml:"bin"`
	source Source
}

// Scan is the [scan] table.
type Scan struct {
	// How many registers a kernel may take more than at the last commit of `gpubuild report --history`; 4 bytes of stack that it takes more count
	// as one. Beyond it the row fails. Default: any number.
	MaxRegistersGrowth *int `toml:"max-registers-growth"`
}

// Covers reports whether the table is about a package's programs; a package's own table is about no others.
func (p *Prove) Covers(pkg string) bool {
	return p == nil || p.source.Owner == "" || p.source.Owner == pkg
}

// Launches is MinLaunches; 0: nothing is said of it.
func (p *Prove) Launches() uint64 {
	if p.MinLaunches == nil {
		return 0
	}
	return uint64(*p.MinLaunches)
}

// MinTime is MinGPUTime as a duration.
func (p *Prove) MinTime() time.Duration {
	d, _ := time.ParseDuration(p.MinGPUTime) // check has read it
	return d
}

// Unknown is the error of a program that the workspace does not have; have are those that it has.
func (p *Prove) Unknown(bin string, have []string) error {
	return p.source.unknown(bin, have, "prove", "bin")
}

// ExitCode reads a number with which a program can exit.
func ExitCode(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > 255 {
		return 0, fmt.Errorf("%.200q is not an exit code from 0 to 255", text)
	}
	return n, nil
}

// File is gpubuild.toml. The comments of its fields, here and below, are the descriptions of the JSON Schema and of docs/configuration.md.
type File struct {
	// Names of further features that request GPU work.
	GPUFeatures []string `toml:"gpu-features"`
	// Packages that compile kernels although neither the catalog nor their files show it. One whose program shows no GPU gets a warning.
	GPUPackages []string `toml:"gpu-packages"`
	// Treat warnings of the feature check as errors. Default: false.
	Strict *bool `toml:"strict"`
	// The tools to build with.
	Toolchain struct {
		// The CUDA toolkit: a version such as "13.4", or a directory.
		CUDA string `toml:"cuda"`
		// The architecture to build for, such as "sm_90".
		Arch string `toml:"arch"`
	} `toml:"toolchain"`
	// With this table, `gpubuild build` runs the program that it built under the probe and proves it.
	Prove *Prove `toml:"prove"`
	// The targets that must run a kernel on the GPU in `gpubuild test`. Without a GPU its exit code stays;
	// `--gpu-require-proof` makes it 21.
	Test *Tested `toml:"test"`
	// The targets that must run a kernel on the GPU in `gpubuild bench`.
	Bench *Marked `toml:"bench"`
	// Other machines, by a name that --on and --gpu-on take. One that your repository's file names runs only with your consent.
	On map[string]On `toml:"on"`
	// What the workflows of `gpubuild ci init` need.
	CI *CI `toml:"ci"`
	// The thresholds of `gpubuild watch` and `--gpu-watch`.
	Watch *Watch `toml:"watch"`
	// What the device code of a build may take.
	Scan *Scan `toml:"scan"`
}

// Error is a fault in a configuration file, with its place.
type Error struct {
	Path    string
	Line    int // from 1; 0 when unknown
	Problem string
	Detail  string // the text around, with a caret; may be empty
	Fix     string
}

func (e *Error) Error() string {
	place := e.Path
	if e.Line > 0 {
		place = fmt.Sprintf("%s:%d", e.Path, e.Line)
	}
	place += fmt.Sprintf(": %.300s", e.Problem) // a library's words quote a value whole
	if e.Detail != "" {
		place += "\n" + e.Detail
	}
	return place
}

func (e *Error) ExitCode() int { return exit.Config }
func (e *Error) Hint() string  { return e.Fix }

// Read merges the sources; the first one that sets a value wins.
func Read(sources []Source) (Config, error) {
	var c Config
	for _, s := range sources {
		f, err := decode(s)
		if err != nil {
			return Config{}, err
		}
		origin := s.Path
		if s.Table != "" {
			origin = s.Path + " [" + s.Table + "]"
		}
		takeNames(&c.GPUFeatures, f.GPUFeatures, origin)
		takeNames(&c.GPUPackages, f.GPUPackages, origin)
		take(&c, &c.CUDA, "toolchain.cuda", f.Toolchain.CUDA, f.Toolchain.CUDA != "", origin)
		take(&c, &c.Arch, "toolchain.arch", f.Toolchain.Arch, f.Toolchain.Arch != "", origin)
		take(&c, &c.Strict, "strict", f.Strict != nil && *f.Strict, f.Strict != nil, origin)
		take(&c, &c.Prove, "prove", f.Prove, f.Prove != nil, origin)
		take(&c, &c.Test, "test", f.Test, f.Test != nil, origin)
		take(&c, &c.Bench, "bench", f.Bench, f.Bench != nil, origin)
		take(&c, &c.CI, "ci", f.CI, f.CI != nil, origin)
		take(&c, &c.On, "on", f.On, f.On != nil, origin)
		take(&c, &c.Watch, "watch", f.Watch, f.Watch != nil, origin)
		take(&c, &c.Scan, "scan", f.Scan, f.Scan != nil, origin)
	}
	return c, nil
}

const packageTable = " [package.metadata.gpubuild]"

// takeNames joins the names that several packages give.
func takeNames(to *Value[[]string], names []string, origin string) {
	if names != nil && (to.Origin == "" || strings.HasSuffix(to.Origin, packageTable)) {
		*to = Value[[]string]{slices.Concat(to.Value, names), cmp.Or(to.Origin, origin)}
	}
}

func take[T any](c *Config, to *Value[T], key string, v T, set bool, origin string) {
	switch {
	case set && to.Origin == "":
		*to = Value[T]{v, origin}
	case set && strings.HasSuffix(to.Origin, packageTable):
		c.Unread = append(c.Unread, fmt.Sprintf("%s: %s is not read, since %s has it, too", origin, key, to.Origin))
	}
}

func decode(s Source) (File, error) {
	type holder struct {
		Metadata struct{ Gpubuild File }
	}
	var manifest struct{ Workspace, Package holder }
	var f File
	into := any(&f)
	if s.Table != "" {
		into = &manifest
	}
	var md toml.MetaData
	err := buildenv.TooDeep(s.Data)
	if err == nil {
		md, err = toml.Decode(string(s.Data), into)
	}
	if _, isSyntax := errors.AsType[toml.ParseError](err); isSyntax && s.Table != "" { // cargo says best what is wrong
		return File{}, nil
	}
	if err != nil {
		return File{}, syntax(s, err)
	}
	switch s.Table {
	case "workspace.metadata.gpubuild":
		f = manifest.Workspace.Metadata.Gpubuild
	case "package.metadata.gpubuild":
		f = manifest.Package.Metadata.Gpubuild
	}
	return f, check(s, f, md)
}

func syntax(s Source, err error) error {
	if wrong, ok := errors.AsType[toml.ParseError](err); ok {
		line, message, excerpt := place(s.Data, wrong)
		return &Error{Path: s.Path, Line: line, Problem: message, Detail: excerpt, Fix: "correct the TOML on this line"}
	}
	if m := wrongType.FindStringSubmatch(err.Error()); m != nil {
		line, _ := strconv.Atoi(m[1])
		return &Error{Path: s.Path, Line: line, Problem: m[2] + " has a value of the wrong type",
			Fix: cmp.Or(typeFix[m[3]], correctIt)}
	}
	return &Error{Path: s.Path, Problem: err.Error(), Fix: correctIt}
}

// wrongType is the library's error for a value of another type, which speaks of Go's types: it has no error type for it.
var wrongType = lazyregexp.New(`^toml: line (\d+) \(last key "([^"]+)"\): (?:incompatible types|type mismatch)(?:.*type (\S+)$)?`)

// typeFix says what to write for such a type.
var typeFix = map[string]string{
	"slice": `write a list of strings: ["a", "b"]`, "boolean": "write true or false", "string": "write a string, in quotes",
	"integer": "write a number",
}

const correctIt = "correct the value (a version is a string, in quotes), or see `gpubuild help config`"

// longestPath is Linux's PATH_MAX; Windows' paths of Win32 are shorter unless a program asks for more.
const longestPath = 4096

var known = strings.Fields("gpu-features gpu-packages strict toolchain.cuda toolchain.arch prove.args prove.kernel prove.expect-exit " +
	"prove.min-launches prove.min-gpu-time prove.until-proved prove.bin test.gpu test.kernel test.coverage bench.gpu bench.kernel " +
	"watch.temperature watch.memory watch.hold watch.idle watch.fail-on scan.max-registers-growth")

// check refuses unknown keys: a mistyped key that is silently ignored would be a silent skip. Of one with a capital the library takes what
// it likes, also next to the right one. Only the NAME of [on.NAME] may have them.
func check(s Source, f File, md toml.MetaData) error {
	capital := func(key toml.Key) bool {
		if at := len(s.below()); len(key) > at+1 && key[at] == "on" {
			key = append(key[:at:at], key[at+2:]...)
		}
		return strings.ToLower(key.String()) != key.String()
	}
	for _, key := range append(md.Undecoded(), slices.DeleteFunc(md.Keys(), func(k toml.Key) bool { return !capital(k) })...) {
		if below := s.below(); len(below) > 0 {
			if len(key) <= len(below) || key[:len(below)].String() != toml.Key(below).String() {
				continue
			}
			key = key[len(below):]
		}
		fix := "known keys: " + strings.Join(known, ", ") + ", and the tables [ci] and [on.NAME]"
		inTables := slices.DeleteFunc(slices.Clone(known), func(k string) bool { return !strings.HasSuffix(k, "."+key.String()) })
		tables := append(strings.Fields("toolchain prove test bench watch scan ci on"), known...)
		if near := cmp.Or(strings.Join(inTables, "` or `"), exit.Nearest(key.String(), tables)); near != "" {
			fix = "did you mean `" + near + "`? " + fix
		}
		switch key[0] {
		case "trust", "redist":
			fix = "only your own configuration has this key: move it to " + s.User
		case "ci":
			fix = "known keys of " + ciKeys
		case "on":
			fix = "known keys of " + onKeys
		}
		switch key[len(key)-1] {
		case "fetch", "base-url", "index-url", "yes":
			fix = "what may be fetched, and from where, is the user's word: use the flag --gpu-toolkit=fetch"
		}
		return s.wrong(fmt.Sprintf("unknown key %.200q", key.String()), fix, key...)
	}
	if f.Toolchain.CUDA == "fetch" {
		return s.wrong(`toolchain.cuda = "fetch" would let a cloned repository start a download`,
			"give a version here, and --gpu-toolkit=fetch on the command line", "toolchain", "cuda")
	}
	if len(f.Toolchain.CUDA) > longestPath {
		return s.wrong(fmt.Sprintf("toolchain.cuda has %d bytes, which no path has", len(f.Toolchain.CUDA)),
			`give a version such as "13.4", or a directory`, "toolchain", "cuda")
	}
	if _, err := gpu.ParseArchs(f.Toolchain.Arch); f.Toolchain.Arch != "" && err != nil {
		return s.wrong("toolchain.arch: "+err.Error(), `write one such as "sm_90"`, "toolchain", "arch")
	}
	if f.Scan != nil && f.Scan.MaxRegistersGrowth != nil && *f.Scan.MaxRegistersGrowth < 0 {
		return s.wrong("scan.max-registers-growth: less than 0", "write one such as 8", "scan", "max-registers-growth")
	}
	if f.Prove != nil {
		f.Prove.source = s
		if err := s.checkKernels("prove", f.Prove.Kernel); err != nil {
			return err
		}
		if _, err := ExitCode(strconv.Itoa(f.Prove.ExpectExit)); err != nil {
			return s.wrong("prove.expect-exit: "+err.Error(), "write one such as 0", "prove", "expect-exit")
		}
		if n := f.Prove.MinLaunches; n != nil && *n < 1 {
			return s.wrong(fmt.Sprintf("prove.min-launches: %d is not a number from 1 on", *n), "write one such as 100, or leave it out",
				"prove", "min-launches")
		}
		if d, err := time.ParseDuration(f.Prove.MinGPUTime); f.Prove.MinGPUTime != "" && (err != nil || d <= 0) {
			return s.wrong(fmt.Sprintf("prove.min-gpu-time: %.200q is not a duration", f.Prove.MinGPUTime), `write one such as "10ms"`,
				"prove", "min-gpu-time")
		}
	}
	return cmp.Or(s.checkTested(f.Test), s.checkMarked("bench", f.Bench), s.checkWatch(f.Watch), s.checkOn(f.On))
}

var notTab = lazyregexp.New(`[^\t]`)

// place is where a TOML text is wrong, in the reader's words and with the line and a caret below the place. ParseError.ErrorWithPosition of
// BurntSushi/toml v1.6 is not called: it panics on a file with CRLF and an unterminated string. Its offsets are right where lines end with
// a single byte.
func place(data []byte, wrong toml.ParseError) (line int, message, excerpt string) {
	text := string(data)
	if strings.Contains(text, "\r\n") {
		text = strings.ReplaceAll(text, "\r\n", "\n")
		_, again := toml.Decode(text, &map[string]any{})
		errors.As(again, &wrong)
	}
	start := min(max(wrong.Position.Start, 0), len(text))
	begin := strings.LastIndexByte(text[:start], '\n') + 1
	shown, _, _ := strings.Cut(text[begin:], "\n")
	shown = strings.ToValidUTF8(shown[:min(len(shown), 200)], "\uFFFD")
	line = strings.Count(text[:start], "\n") + 1
	if shown != "" {
		n := strconv.Itoa(line)
		gap := strings.Repeat(" ", len(n))
		// tabs are kept, so that the caret is below its character
		caret := notTab.ReplaceAllString(shown[:min(start-begin, len(shown))], " ") + "^"
		excerpt = fmt.Sprintf("%s |\n%s | %s\n%s | %s", gap, n, shown, gap, caret)
	}
	return line, cmp.Or(wrong.Message, strings.TrimPrefix(wrong.Error(), "toml: ")), excerpt
}
