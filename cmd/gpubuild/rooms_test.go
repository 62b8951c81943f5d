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
)

// floor answers how high a package stands; it may import only what stands lower. The picture is in README, "Rooms".
func floor(pkg string) int {
	switch {
	case pkg == "cmd/gpubuild":
		return 6
	case pkg == "cmd/internal/app":
		return 5
	case strings.HasPrefix(pkg, "cmd/internal/"):
		return 4
	case pkg == "toolchain", pkg == "gpu/verify", pkg == "toolchain/install":
		return 3
	case pkg == "toolchain/explain", pkg == "features", pkg == "buildenv/stale":
		return 1
	case pkg == "buildenv/proc", pkg == "buildenv/local", pkg == "buildenv/cache", pkg == "buildenv/saved", pkg == "buildenv/pefile":
		return 1
	case pkg == "buildenv", pkg == "gpu":
		return 0
	case pkg == "buildenv/hosttest":
		return 1
	case strings.HasPrefix(pkg, "toolchain/"), strings.HasPrefix(pkg, "gpu/"):
		return 2
	}
	return -1
}

// wing answers which of the three parts that never import each other a package belongs to; the vocabulary belongs to none.
func wing(pkg string) string {
	for _, w := range []string{"features", "toolchain", "gpu"} {
		if pkg == w && w != "gpu" || strings.HasPrefix(pkg, w+"/") {
			return w
		}
	}
	return ""
}

func allowedOutside(pkg, what string) bool {
	only := map[string][]string{
		"os/exec":                      {"buildenv/proc"},
		"os.Getenv":                    {"buildenv/local", "buildenv/proc"},
		"os.LookupEnv":                 {"buildenv/local", "buildenv/proc"},
		"os.Environ":                   {"buildenv/local", "buildenv/proc"},
		"runtime.GOOS":                 {"buildenv/local", "buildenv/proc"},
		"os.Exit":                      {"cmd/gpubuild"},
		"os.Setenv":                    nil,
		"github.com/NVIDIA/go-nvml":    {"gpu/driver"},
		"github.com/urfave/cli":        {"cmd/internal/app"},
		"the literal \"Cargo.toml\"":   {"features"},
		"gpubuild/buildenv/hosttest":   nil,
		"func init":                    nil,
		"golang.org/x/sys/windows/reg": {"buildenv/local"},
	}
	rooms, ruled := only[what]
	if !ruled {
		return true
	}
	for _, r := range rooms {
		if r == pkg {
			return true
		}
	}
	return false
}

// TestRoomsImportOnlyDownwards holds the architecture: who may import whom, and which calls stay in which room.
func TestRoomsImportOnlyDownwards(t *testing.T) {
	root := filepath.Join("..", "..")
	fset := token.NewFileSet()
	files := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
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
		files++
		rel, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		checkFile(t, fset, path, filepath.ToSlash(rel))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 30 {
		t.Errorf("only %d files were looked at: the test does not see the repository", files)
	}
}

func checkFile(t *testing.T, fset *token.FileSet, path, pkg string) {
	t.Helper()
	f, err := parser.ParseFile(fset, path, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	here := floor(pkg)
	if here < 0 {
		t.Errorf("%s: package %s is in no room of the architecture", path, pkg)
	}
	for _, im := range f.Imports {
		name, _ := strconv.Unquote(im.Path.Value)
		for _, library := range []string{"os/exec", "github.com/NVIDIA/go-nvml", "github.com/urfave/cli", "gpubuild/buildenv/hosttest", "golang.org/x/sys/windows/reg"} {
			if strings.HasPrefix(name, library) && !allowedOutside(pkg, library) && pkg != "buildenv/hosttest" {
				t.Errorf("%s imports %s", path, name)
			}
		}
		other, ours := strings.CutPrefix(name, "gpubuild/")
		if !ours {
			continue
		}
		if floor(other) >= here {
			t.Errorf("%s: %s (floor %d) imports %s (floor %d)", path, pkg, here, other, floor(other))
		}
		if a, b := wing(pkg), wing(other); a != "" && b != "" && a != b {
			t.Errorf("%s: %s imports %s: only app joins features, toolchain and gpu", path, pkg, other)
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
		case *ast.FuncDecl:
			if n.Recv == nil && n.Name.Name == "init" {
				what = "func init"
			}
		}
		if what != "" && !allowedOutside(pkg, what) {
			t.Errorf("%s: %s has no place in %s", fset.Position(n.Pos()), what, pkg)
		}
		return true
	})
}
