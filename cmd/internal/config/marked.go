package config

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Tested is the [test] table.
type Tested struct {
	Marked
	// How many percent of the kernels in the test programs must be launched; below that `gpubuild test` exits with 22.
	Coverage *int `toml:"coverage"`
}

// Marked is the [bench] table, and a part of [test]: which of the programs that cargo starts for it must run a kernel on the GPU.
type Marked struct {
	// Names of targets, or patterns such as integration-*. A kind in front (lib:kernels, bin:*, test:*) or a package (kernels/unit)
	// narrows one.
	GPU []string `toml:"gpu"`
	// Regular expressions: the kernels that count. Default: matrix products.
	Kernel Kernels `toml:"kernel"`

	source Source
	table  string // test or bench
}

// Kernels are regular expressions, of which any may match: one string, or a list.
type Kernels []string

// UnmarshalTOML reads a string or a list of strings.
func (k *Kernels) UnmarshalTOML(v any) error {
	switch v := v.(type) {
	case string:
		*k = Kernels{v}
		return nil
	case []any:
		for _, e := range v {
			one, ok := e.(string)
			if !ok {
				return fmt.Errorf("%v is not a string", e)
			}
			*k = append(*k, one)
		}
		return nil
	}
	return fmt.Errorf("%v is neither a string nor a list of strings", v)
}

// Expression joins them to one expression; nothing where there are none.
func (k Kernels) Expression() string {
	if len(k) == 1 {
		return k[0]
	}
	var parts []string
	for _, one := range k {
		parts = append(parts, "(?:"+one+")")
	}
	return strings.Join(parts, "|")
}

// KernelPattern compiles an expression for the kernels that count. One that also matches the name of our control's kernel, such as `.+`,
// or `x|`, which a shell makes of "x|$UNSET", would match about every kernel: it is an error.
func KernelPattern(text string) (*regexp.Regexp, error) {
	r, err := regexp.Compile(text)
	switch {
	case err != nil:
		return nil, err
	case r.MatchString("gpubuild_control"):
		return nil, fmt.Errorf("%.200q matches gpubuild's own kernel, gpubuild_control, and so about every kernel", text)
	}
	return r, nil
}

func (s Source) checkKernels(table string, k Kernels) error {
	for _, one := range k {
		if _, err := KernelPattern(one); err != nil {
			return s.wrong(table+".kernel: "+err.Error(), "write a regular expression as Go's regexp/syntax has it, or a list of them",
				table, "kernel")
		}
	}
	return nil
}

// targetKinds are the words that may stand in front of a pattern.
var targetKinds = []string{"lib", "bin", "test", "bench", "example"}

// Matches reports whether a pattern means a target of a package. kind is one of cargo's, lib for every kind of library.
func Matches(pattern, pkg, kind, name string) bool {
	if k, rest, ok := strings.Cut(pattern, ":"); ok {
		if k != kind {
			return false
		}
		pattern = rest
	}
	if strings.Contains(pattern, "/") {
		name = pkg + "/" + name
	}
	ok, _ := path.Match(pattern, name) // bad patterns are refused when the file is read
	return ok
}

// Unknown is the error of a pattern that means nothing; have are the names that there are.
func (m *Marked) Unknown(pattern string, have []string) error {
	return m.source.unknown(pattern, have, m.table, "gpu")
}

func (s Source) unknown(name string, have []string, key ...string) error {
	fix := "there are no such programs"
	if len(have) > 0 {
		fix = "there are: " + strings.Join(have, ", ")
	}
	return s.wrong(strings.Join(key, ".")+": no target of this workspace is called "+name, fix, key...)
}

func (m *Marked) bad(problem, fix string) error {
	return m.source.wrong(m.table+".gpu: "+problem, fix, m.table, "gpu")
}

func (s Source) checkTested(t *Tested) error {
	switch {
	case t == nil:
		return nil
	case t.Coverage == nil:
	case *t.Coverage < 1 || *t.Coverage > 100:
		return s.wrong(fmt.Sprintf("test.coverage: %d is not a number from 1 to 100", *t.Coverage), "write one such as 80", "test", "coverage")
	case len(t.GPU)+len(t.Kernel) == 0:
		return nil
	}
	return s.checkMarked("test", &t.Marked)
}

// checkMarked refuses patterns that cannot match.
func (s Source) checkMarked(table string, m *Marked) error {
	if m == nil {
		return nil
	}
	if m.source, m.table = s, table; len(m.GPU) == 0 {
		return m.bad("no target is named", "name targets, such as gpu = [\"kernels\", \"integration-*\"], or leave the table out")
	}
	if err := s.checkKernels(table, m.Kernel); err != nil {
		return err
	}
	for i, p := range m.GPU {
		kind, rest, prefixed := strings.Cut(p, ":")
		if !prefixed {
			rest = p
		}
		_, err := path.Match(rest, "")
		switch {
		case err != nil || rest == "" || !noControl(rest):
			return m.bad(`"`+p+`" is no pattern of names`, "write a name, or a pattern such as integration-*")
		case prefixed && !slices.Contains(targetKinds, kind):
			return m.bad(`"`+kind+`" in "`+p+`" is no kind of target`, "the kinds are "+strings.Join(targetKinds, ", "))
		case slices.Contains(m.GPU[:i], p):
			return m.bad(`"`+p+`" is listed twice`, "remove the second one")
		}
	}
	return nil
}
