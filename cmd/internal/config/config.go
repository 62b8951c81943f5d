// Package config reads gpubuild.toml of the workspace root and the [workspace.metadata.gpubuild] and [package.metadata.gpubuild] tables
// into one Config, in which each value carries where it came from.
//
// A cloned repository may say how it is built and proven; it may not say that
// something is to be fetched, nor from where: such keys are refused here.
package config

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/BurntSushi/toml"

	"gpubuild/buildenv/exit"
)

// Source is one place that configuration was read from.
type Source struct {
	Path  string // as it is shown
	Table string // the table inside a manifest, such as workspace.metadata.gpubuild; empty for a gpubuild.toml
	Data  []byte // the whole file
}

// Value is a setting and where it came from; an empty Origin means that nobody set it.
type Value[T any] struct {
	Value  T
	Origin string
}

// Config is what a project says about its own GPU build.
type Config struct {
	GPUFeatures Value[[]string] // further features that ask for GPU work
	CUDA        Value[string]   // toolkit version or root
	Arch        Value[string]   // such as sm_90
	Strict      Value[bool]
	Prove       Value[*Prove] // not nil: build runs what it built, under the probe
	Test        Value[*Marked]
	Bench       Value[*Marked]
	Matrix      Value[*Matrix]
	CI          Value[*CI]
}

// Prove is the [prove] table.
type Prove struct {
	Args       []string `toml:"args"`
	Kernel     Kernels  `toml:"kernel"`      // empty: a matrix product
	ExpectExit int      `toml:"expect-exit"` // the program's own exit status when all is well
	Bin        string   `toml:"bin"`         // which binary; empty: the only one
}

type file struct {
	GPUFeatures []string `toml:"gpu-features"`
	Strict      *bool    `toml:"strict"`
	Toolchain   struct {
		CUDA string `toml:"cuda"`
		Arch string `toml:"arch"`
	} `toml:"toolchain"`
	Prove  *Prove  `toml:"prove"`
	Test   *Marked `toml:"test"`
	Bench  *Marked `toml:"bench"`
	Matrix *Matrix `toml:"matrix"`
	CI     *CI     `toml:"ci"`
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
	if e.Detail != "" {
		return place + ": " + e.Problem + "\n" + e.Detail
	}
	return place + ": " + e.Problem
}

// ExitCode is exit.Config.
func (e *Error) ExitCode() int { return exit.Config }

// Hint says what to do.
func (e *Error) Hint() string { return e.Fix }

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
		take(&c.GPUFeatures, f.GPUFeatures, f.GPUFeatures != nil, origin)
		take(&c.CUDA, f.Toolchain.CUDA, f.Toolchain.CUDA != "", origin)
		take(&c.Arch, f.Toolchain.Arch, f.Toolchain.Arch != "", origin)
		if f.Strict != nil {
			take(&c.Strict, *f.Strict, true, origin)
		}
		take(&c.Prove, f.Prove, f.Prove != nil, origin)
		take(&c.Test, f.Test, f.Test != nil, origin)
		take(&c.Bench, f.Bench, f.Bench != nil, origin)
		take(&c.Matrix, f.Matrix, f.Matrix != nil, origin)
		take(&c.CI, f.CI, f.CI != nil, origin)
	}
	return c, nil
}

func take[T any](to *Value[T], v T, set bool, origin string) {
	if set && to.Origin == "" {
		*to = Value[T]{v, origin}
	}
}

func decode(s Source) (file, error) {
	var whole map[string]toml.Primitive
	md, err := toml.NewDecoder(bytes.NewReader(s.Data)).Decode(&whole)
	if err != nil {
		return file{}, syntax(s, err)
	}
	var f file
	if s.Table == "" {
		if md, err = toml.NewDecoder(bytes.NewReader(s.Data)).Decode(&f); err != nil {
			return file{}, syntax(s, err)
		}
		if err := tables(s, md, nil); err != nil {
			return file{}, err
		}
		return f, check(s, f, md.Undecoded(), nil)
	}
	path := strings.Split(s.Table, ".")
	table := whole
	for i, name := range path {
		p, ok := table[name]
		if !ok {
			return file{}, nil
		}
		if i == len(path)-1 {
			if err := md.PrimitiveDecode(p, &f); err != nil {
				return file{}, syntax(s, err)
			}
			break
		}
		table = nil
		if err := md.PrimitiveDecode(p, &table); err != nil {
			return file{}, syntax(s, err)
		}
	}
	if err := tables(s, md, path); err != nil {
		return file{}, err
	}
	return f, check(s, f, md.Undecoded(), path)
}

// tables refuses a value where a table is wanted: the library passes over it in
// silence where the table becomes a map (BurntSushi/toml v1.6, unifyMap).
func tables(s Source, md toml.MetaData, below []string) error {
	for _, key := range []string{"runner", "image", "compilers"} {
		path := append(slices.Clone(below), "matrix", key)
		if is := md.Type(path...); is != "" && is != "Hash" {
			return &Error{
				Path:    s.Path,
				Line:    lineIn(s.Data, path),
				Problem: "matrix." + key + " is no table",
				Fix:     "known keys of " + matrixKeys,
			}
		}
	}
	return nil
}

func syntax(s Source, err error) error {
	var p toml.ParseError
	if errors.As(err, &p) {
		return &Error{
			Path:    s.Path,
			Line:    p.Position.Line,
			Problem: p.Message,
			Detail:  strings.TrimRight(p.ErrorWithPosition(), "\n"),
			Fix:     "mend the TOML at this place",
		}
	}
	if line, key, is, must := mismatch(err.Error()); key != "" {
		return &Error{
			Path:    s.Path,
			Line:    line,
			Problem: fmt.Sprintf("%s is %s; it must be %s", key, is, must),
			Fix:     "mend the value, or see `gpubuild help config`",
		}
	}
	return &Error{Path: s.Path, Problem: err.Error(), Fix: "mend the value, or see `gpubuild help config`"}
}

// The library's words for a value of another type speak of Go's types; it has no error type for it (BurntSushi/toml v1.6: decode.go,
// badtype and unifyStruct).
var typeError = regexp.MustCompile(
	`^toml: line (\d+) \(last key "([^"]+)"\): ` +
		`(?:incompatible types: TOML value has type (\S+); destination has type (\S+)|` +
		`type mismatch for .*: expected (table) but found (\S+))$`,
)

// mismatch words such an error for people; an empty key means that it is another one.
func mismatch(words string) (line int, key, is, must string) {
	m := typeError.FindStringSubmatch(words)
	if m == nil {
		return 0, "", "", ""
	}
	line, err := strconv.Atoi(m[1])
	if err != nil {
		return 0, "", "", ""
	}
	words = m[3] + m[6]
	found := map[string]string{
		"string":               "text in quotes",
		"int64":                "a whole number",
		"float64":              "a number without quotes",
		"bool":                 "true or false",
		"[]any":                "a list",
		"[]interface":          "a list",
		"map[string]any":       "a table",
		"map[string]interface": "a table",
	}
	is, ok := found[strings.TrimSuffix(words, "{}")]
	if !ok {
		is = "something else"
	}
	wanted := map[string]string{
		"string":  "text in quotes",
		"slice":   "a list in brackets",
		"boolean": "true or false",
		"integer": "a whole number",
		"table":   "a table",
		"map":     "a table",
	}
	must, ok = wanted[m[4]+m[5]]
	if !ok {
		return 0, "", "", ""
	}
	return line, m[2], is, must
}

// check refuses unknown keys: a mistyped key that is silently ignored would be a silent skip.
func check(s Source, f file, undecoded []toml.Key, below []string) error {
	for _, key := range undecoded {
		if len(below) > 0 {
			if len(key) <= len(below) || key[:len(below)].String() != toml.Key(below).String() {
				continue
			}
			key = key[len(below):]
		}
		fix := "known keys: gpu-features, strict, toolchain.cuda, toolchain.arch, prove.args, prove.kernel, prove.expect-exit, " +
			"prove.bin, test.gpu, bench.gpu, and the tables [matrix] and [ci]"
		switch key[0] {
		case "matrix":
			fix = "known keys of " + matrixKeys
		case "ci":
			fix = "known keys of " + ciKeys
		}
		switch key[len(key)-1] {
		case "fetch", "base-url", "index-url", "yes":
			fix = "what may be fetched, and from where, is the user's word: use the flag --gpu-toolkit=fetch"
		}
		return &Error{
			Path:    s.Path,
			Line:    lineIn(s.Data, append(slices.Clone(below), key...)),
			Problem: fmt.Sprintf("unknown key %q", key.String()),
			Fix:     fix,
		}
	}
	if f.Toolchain.CUDA == "fetch" {
		return &Error{
			Path:    s.Path,
			Line:    lineOf(s.Data, "cuda"),
			Problem: `toolchain.cuda = "fetch" would let a cloned repository start a download`,
			Fix:     "give a version here, and --gpu-toolkit=fetch on the command line",
		}
	}
	if f.Prove != nil {
		if err := s.checkKernels("prove", f.Prove.Kernel, below); err != nil {
			return err
		}
	}
	if err := s.checkMarked("test", f.Test, below); err != nil {
		return err
	}
	if err := s.checkMarked("bench", f.Bench, below); err != nil {
		return err
	}
	if f.Matrix != nil {
		return s.checkMatrix(f.Matrix, below)
	}
	return nil
}

// lineOf finds the line on which a key or a table of that name stands; 0 when it cannot be told. BurntSushi/toml keeps no positions.
func lineOf(data []byte, key string) int {
	word := regexp.MustCompile(`^\s*(\[+[^\]]*\b|.*[{,]\s*|.*\.)?["']?` + regexp.QuoteMeta(key) + `["']?\s*(=|\]|\.)`)
	for i, line := range strings.Split(string(data), "\n") {
		if word.MatchString(line) {
			return i + 1
		}
	}
	return 0
}
