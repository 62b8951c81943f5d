package main_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"gpubuild/buildenv/hosttest"
)

// layers lists the packages from the bottom up; a package may import only packages of the layers below its own. A name that ends with /
// stands for every package below it that has no line of its own. The picture is in docs/architecture.md.
var layers = [][]string{
	{"buildenv/lazyregexp"},
	{"buildenv", "gpu", "buildenv/finding"},
	{"buildenv/exit", "buildenv/regular"},
	{"features/catalog", "buildenv/cache", "buildenv/hosttest", "buildenv/hosttest/need", "buildenv/local", "buildenv/pefile", "buildenv/proc",
		"buildenv/stale"},
	{"buildenv/memo", "features/manifest", "toolchain/explain"},
	{"features/edit", "features/graph", "gpu/", "toolchain/"},
	// toolchain/nvcc imports toolchain/loader, toolchain/msvc toolchain/cuda, the other two toolchain/install/tree.
	{"features/source", "toolchain/nvcc", "toolchain/msvc", "toolchain/install/redist", "toolchain/install/wheel"},
	{"features", "gpu/runs", "gpu/verify", "toolchain", "toolchain/install"},
	{"cmd/internal/config", "cmd/internal/console", "cmd/internal/origin", "cmd/internal/version"},
	{"cmd/internal/audit", "cmd/internal/receipt", "cmd/internal/session"},
	{"cmd/internal/reach", "cmd/internal/tools"},
	{"cmd/internal/cargorun", "cmd/internal/fresh/inputs"},
	{"cmd/internal/fresh", "cmd/internal/proof"},
	{"cmd/internal/bundle", "cmd/internal/diagnose"},
	{"cmd/internal/"}, // doctor, report
	{"cmd/internal/initfile", "cmd/internal/watch"},
	{"cmd/internal/ci", "cmd/internal/pipeline", "cmd/internal/scan", "cmd/internal/toolkits"},
	{"cmd/internal/cli"},
	{"cmd/gpubuild"},
}

// layer is the index of a package's layer, or -1.
func layer(pkg string) int {
	below := -1
	for i, names := range layers {
		for _, name := range names {
			if name == pkg {
				return i
			}
			if strings.HasSuffix(name, "/") && strings.HasPrefix(pkg, name) {
				below = i
			}
		}
	}
	return below
}

const rootDir = "../.."

// tree is which of the three trees that never import each other a package belongs to; the root package gpu is vocabulary and belongs to
// none.
func tree(pkg string) string {
	for _, w := range []string{"features", "toolchain", "gpu"} {
		if pkg == w && w != "gpu" || strings.HasPrefix(pkg, w+"/") {
			return w
		}
	}
	return ""
}

// ofOwnFiles are the packages that read files of gpubuild's own, or that the command line names, or nvcc's during a build. A file that a
// repository may have is read by buildenv.Host.ReadFile, cache.Hash or regular.Open.
var ofOwnFiles = []string{"buildenv/cache", "buildenv/local", "buildenv/proc", "buildenv/regular", "cmd/internal/audit", "cmd/internal/bundle",
	"cmd/internal/cli", "cmd/internal/elsewhere", "cmd/internal/pipeline", "cmd/internal/proof", "gpu/probe", "gpu/verify",
	"toolchain/install/redist", "toolchain/install/tree", "toolchain/nvcc", ".ci/release", "testdata/standin/cargo", "testdata/standin/cl",
	"buildenv/hosttest", "buildenv/hosttest/need", "cmd/internal/hosttest/clitest"}

// pasted takes TOML out of a text: what a user pastes is whole.
var pasted = strings.NewReplacer("= [%q]", "", "cuda = %q", "")

func allowedOutside(pkg, what string) bool {
	only := map[string][]string{
		"os/exec":      {"buildenv/proc", "buildenv/hosttest/need"},
		"os.Getenv":    {"buildenv/local", "buildenv/proc", "buildenv/hosttest/need"},
		"os.LookupEnv": {"buildenv/local", "buildenv/proc"},
		"os.Environ":   {"buildenv/local", "buildenv/proc"},
		"runtime.GOOS": {"buildenv/local", "buildenv/proc"},
		"os.Exit":      {"cmd/gpubuild"},
		"os.Setenv":    {"buildenv/hosttest/need"},
		"os.Open":      ofOwnFiles,
		// Text that somebody else wrote is quoted with %.200q, which also shows control characters; these write for hashes and compilers.
		"%q without a length":             {"buildenv/memo", "toolchain/nvcc", "cmd/internal/audit", "buildenv/hosttest", "buildenv/hosttest/need"},
		"strconv.Quote":                   {"buildenv/stale", "cmd/internal/ci"},
		"os.ReadFile":                     ofOwnFiles,
		"github.com/NVIDIA/go-nvml":       {"gpu/driver"},
		"the literal \"Cargo.toml\"":      {"buildenv", "buildenv/hosttest/need"},
		"gpubuild/buildenv/hosttest":      nil,
		"gpubuild/buildenv/hosttest/need": nil,
		"gpubuild/cmd/internal/hosttest":  nil,
		"func init":                       nil,
		"printing past the console":       {"cmd/internal/console"},
		"golang.org/x/sys/windows/reg":    {"buildenv/local"},
	}
	packages, ruled := only[what]
	if !ruled {
		return true
	}
	for _, r := range packages {
		if r == pkg {
			return true
		}
	}
	return false
}

// TestPackagesImportOnlyDownwards checks the layers, and that some calls are made in one package only.
func TestPackagesImportOnlyDownwards(t *testing.T) {
	fset := token.NewFileSet()
	for _, path := range goFiles(t) {
		checkFile(t, fset, path, filepath.ToSlash(hosttest.Must(filepath.Rel(rootDir, filepath.Dir(path)))(t)))
	}
}

// goFiles are the files of the repository's packages, without tests.
func goFiles(t *testing.T) (files []string) {
	t.Helper()
	hosttest.OK(t, filepath.WalkDir(rootDir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); name == "testdata" || name == "target" || strings.HasPrefix(name, ".") && name != "." && name != ".." {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		files = append(files, path)
		return nil
	}))
	if len(files) < 30 {
		t.Errorf("only %d files were looked at: the test does not see the repository", len(files))
	}
	return files
}

func checkFile(t *testing.T, fset *token.FileSet, path, pkg string) {
	t.Helper()
	f := hosttest.Must(parser.ParseFile(fset, path, nil, 0))(t)
	here := layer(pkg)
	if here < 0 {
		t.Errorf("%s: package %s is in no layer", path, pkg)
	}
	for _, im := range f.Imports {
		name, _ := strconv.Unquote(im.Path.Value)
		for _, library := range []string{"os/exec", "github.com/NVIDIA/go-nvml",
			"gpubuild/buildenv/hosttest", "gpubuild/buildenv/hosttest/need", "gpubuild/cmd/internal/hosttest", "golang.org/x/sys/windows/reg"} {
			if strings.HasPrefix(name, library) && !allowedOutside(pkg, library) && pkg != "buildenv/hosttest" {
				t.Errorf("%s imports %s", path, name)
			}
		}
		other, ours := strings.CutPrefix(name, "gpubuild/")
		if !ours {
			continue
		}
		if layer(other) >= here {
			t.Errorf("%s: %s (layer %d) imports %s (layer %d)", path, pkg, here, other, layer(other))
		}
		if a, b := tree(pkg), tree(other); a != "" && b != "" && a != b {
			t.Errorf("%s: %s imports %s: features, toolchain and gpu do not import each other", path, pkg, other)
		}
	}
	for _, d := range f.Decls {
		if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.VAR {
			compiledAtStart(t, fset, g, pkg)
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		var what string
		switch n := n.(type) {
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && x.Obj == nil {
				what = x.Name + "." + n.Sel.Name
			}
		case *ast.BasicLit:
			if n.Value == `"Cargo.toml"` {
				what = "the literal \"Cargo.toml\""
			}
			if strings.Contains(pasted.Replace(n.Value), "%q") {
				what = "%q without a length"
			}
		case *ast.CallExpr:
			if printsPast(n) && !strings.HasSuffix(path, "ci/run.go") { // the marks by which CI folds its log
				what = "printing past the console"
			}
		case *ast.FuncDecl:
			if n.Recv == nil && n.Name.Name == "init" {
				what = "func init"
			}
		}
		if what != "" && !allowedOutside(pkg, what) {
			t.Errorf("%s: %s is not allowed in %s", fset.Position(n.Pos()), what, pkg)
		}
		return true
	})
}

// compiledAtStart reports a package variable whose regular expression is compiled whenever the program starts.
func compiledAtStart(t *testing.T, fset *token.FileSet, vars *ast.GenDecl, pkg string) {
	t.Helper()
	ast.Inspect(vars, func(n ast.Node) bool {
		if _, later := n.(*ast.FuncLit); later {
			return false
		}
		if s, ok := n.(*ast.SelectorExpr); ok && s.Sel.Name == "MustCompile" && !strings.HasPrefix(pkg, "testdata") {
			t.Errorf("%s: use lazyregexp.New: this is compiled in each process", fset.Position(n.Pos()))
		}
		return true
	})
}

// printsPast reports whether a call prints text to a Shell's stream itself, so that nothing filters it. What is already text of cargo, JSON
// or a mark is written by name.
func printsPast(call *ast.CallExpr) bool {
	fun, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || len(call.Args) < 2 {
		return false
	}
	pkg, ok := fun.X.(*ast.Ident)
	if !ok || !(pkg.Name == "fmt" && strings.HasPrefix(fun.Sel.Name, "Fprint") || pkg.Name == "io" && fun.Sel.Name == "WriteString") {
		return false
	}
	stream, ok := call.Args[0].(*ast.SelectorExpr)
	if !ok || stream.Sel.Name != "Out" && stream.Sel.Name != "Err" {
		return false
	}
	switch text := call.Args[1].(type) {
	case *ast.CallExpr: // Annotations(…), whose texts are plain
		f, ok := text.Fun.(*ast.Ident)
		return !ok || f.Name != "Annotations"
	}
	return true
}
