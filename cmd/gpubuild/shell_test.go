package main_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"testing"

	"gpubuild/buildenv/hosttest"
)

// TestShellStaysAsItWasMade: what one part of gpubuild sets in the shell, another one would speak by. Who needs another shell makes a copy.
func TestShellStaysAsItWasMade(t *testing.T) {
	t.Parallel()
	fset := token.NewFileSet()
	for _, path := range goFiles(t) {
		for _, at := range shellChanges(hosttest.Must(parser.ParseFile(fset, path, nil, 0))(t)) {
			t.Errorf("%s: changes a shell", fset.Position(at))
		}
	}
	changes := shellChanges(hosttest.Must(parser.ParseFile(fset, "x.go", `package x
func f() {
	m.Shell.Quiet, x = true, 1
	a.Machine.Shell.n++
	m.Shell, shell.Quiet = &shell, true
	s.Shell = nil
}
func (s *Shell) g() { s.Fetch = "" }
func (s *Other) g() { s.Fetch = "" }
`, 0))(t))
	hosttest.Equal(t, len(changes), 3)
}

// shellChanges are the assignments to a field of a shell that somebody else has.
func shellChanges(f *ast.File) (out []token.Pos) {
	own := ""
	note := func(to ast.Expr) {
		field, is := to.(*ast.SelectorExpr)
		if !is {
			return
		}
		switch of := field.X.(type) {
		case *ast.SelectorExpr:
			if of.Sel.Name == "Shell" {
				out = append(out, to.Pos())
			}
		case *ast.Ident:
			if own != "" && of.Name == own {
				out = append(out, to.Pos())
			}
		}
	}
	for _, d := range f.Decls {
		own = ""
		if fn, is := d.(*ast.FuncDecl); is && fn.Recv != nil && len(fn.Recv.List[0].Names) > 0 {
			if star, is := fn.Recv.List[0].Type.(*ast.StarExpr); is {
				if name, is := star.X.(*ast.Ident); is && name.Name == "Shell" {
					own = fn.Recv.List[0].Names[0].Name
				}
			}
		}
		ast.Inspect(d, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.AssignStmt:
				for _, to := range n.Lhs {
					note(to)
				}
			case *ast.IncDecStmt:
				note(n.X)
			}
			return true
		})
	}
	return out
}
