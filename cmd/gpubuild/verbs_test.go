package main_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gpubuild/buildenv/hosttest"
	"gpubuild/toolchain/cargo"
)

// singleVerbs are the questions outside of toolchain/cargo that are about one subcommand and no purpose, by file.
var singleVerbs = map[string][]string{
	"cmd/internal/pipeline/plain.go":  {"clean"},                      // would delete what the build's environment names
	"cmd/internal/pipeline/noop.go":   {"build", "check"},             // whose repetition was shown to print the same
	"cmd/internal/cli/cargo.go":       {"build"},                      // --gpu-audit is its flag
	"cmd/internal/cargorun/build.go":  {"rustc"},                      // what follows its -- decides what is made
	"cmd/internal/proof/marked.go":    {"test", "bench"},              // each has a table of the configuration
	"cmd/internal/proof/coverage.go":  {"test"},                       // benchmarks launch what they measure, not what they check
	"cmd/internal/help/completion.go": {"update", "tree", "metadata"}, // take no files
	"cmd/internal/help/help.go":       {"build", "run"},               // have an example of their own
}

// TestSetsOfVerbsAreInOnePlace: a comparison of a subcommand of cargo's with a literal is a set of verbs of its own, which nobody
// remembers when a verb is added. Such sets are asked for as cargo.Purpose.
func TestSetsOfVerbsAreInOnePlace(t *testing.T) {
	fset, seen := token.NewFileSet(), map[string][]string{}
	for _, path := range goFiles(t) {
		rel := filepath.ToSlash(hosttest.Must(filepath.Rel(rootDir, path))(t))
		if strings.HasPrefix(rel, "toolchain/cargo/") {
			continue
		}
		f := hosttest.Must(parser.ParseFile(fset, path, nil, 0))(t)
		for _, at := range verbLiterals(f) {
			verb, _ := strconv.Unquote(at.Value)
			seen[rel] = append(seen[rel], verb)
			if !slices.Contains(singleVerbs[rel], verb) {
				t.Errorf("%s: compares a subcommand with %q; ask for its cargo.Purpose", fset.Position(at.Pos()), verb)
			}
		}
	}
	for rel, verbs := range singleVerbs {
		for _, verb := range verbs {
			if !slices.Contains(seen[rel], verb) {
				t.Errorf("%s no longer asks for %q: remove it from this test's list", rel, verb)
			}
		}
	}
}

func TestVerbLiteralsAreFound(t *testing.T) {
	f := hosttest.Must(parser.ParseFile(token.NewFileSet(), "x.go", `package x
func f() {
	_ = l.Verb == "run" || "bench" != verb
	_ = slices.Contains([]string{"test", "stale"}, r.Verb)
	switch c.line().Verb { case "doc": }
	switch { case s.verb == "check", l.Verb == "": }
	_ = name == "build"
}`, 0))(t)
	var got []string
	for _, l := range verbLiterals(f) {
		got = append(got, l.Value)
	}
	hosttest.Equal(t, strings.Join(got, " "), `"run" "bench" "test" "doc" "check"`)
}

// verbLiterals are the names of cargo's subcommands with which a file compares a verb: by ==, by switch, or as a member of a list.
func verbLiterals(f *ast.File) (out []*ast.BasicLit) {
	isVerb := func(e ast.Expr) bool {
		switch e := e.(type) {
		case *ast.Ident:
			return strings.EqualFold(e.Name, "verb")
		case *ast.SelectorExpr:
			return strings.EqualFold(e.Sel.Name, "verb")
		}
		return false
	}
	take := func(list ...ast.Expr) {
		for _, e := range list {
			if lit, ok := e.(*ast.BasicLit); ok {
				if word, err := strconv.Unquote(lit.Value); err == nil && slices.Contains(cargo.VerbNames(), word) {
					out = append(out, lit)
				}
			}
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BinaryExpr:
			if (n.Op == token.EQL || n.Op == token.NEQ) && (isVerb(n.X) || isVerb(n.Y)) {
				take(n.X, n.Y)
			}
		case *ast.SwitchStmt:
			if n.Tag == nil || !isVerb(n.Tag) {
				break
			}
			for _, s := range n.Body.List {
				take(s.(*ast.CaseClause).List...)
			}
		case *ast.CallExpr:
			if len(n.Args) == 2 && isVerb(n.Args[1]) {
				if list, ok := n.Args[0].(*ast.CompositeLit); ok {
					take(list.Elts...)
				}
			}
		}
		return true
	})
	return out
}
