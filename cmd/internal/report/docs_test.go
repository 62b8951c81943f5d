package report_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/finding"
	"gpubuild/cmd/internal/report"
	"gpubuild/gpu/verify"
	"gpubuild/toolchain/explain"
)

// page compares a generated page of docs/ with the file, or writes it.
func page(t *testing.T, name, want string) {
	t.Helper()
	path := filepath.Join(repository, "docs", name)
	if *update {
		noError(t, os.WriteFile(path, []byte(want), 0o644))
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != want {
		t.Errorf("docs/%s is not what the tables say (rewrite it with -update): %v", name, err)
	}
}

// headings are the anchors of a page, each of which must be there once.
func headings(t *testing.T, text string) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(text, -1) {
		anchor := regexp.MustCompile(`[^a-z0-9_-]`).ReplaceAllString(strings.ReplaceAll(strings.ToLower(m[1]), " ", "-"), "")
		if out[anchor] {
			t.Errorf("two headings have the anchor %s", anchor)
		}
		out[anchor] = true
	}
	return out
}

// prose escapes what Markdown would read as markup, except in code.
func prose(s string) string {
	parts := strings.Split(s, "`")
	for i := 0; i < len(parts); i += 2 {
		parts[i] = strings.NewReplacer(`\`, `\\`, "<", "&lt;", "*", `\*`, "_", `\_`, "[", `\[`, "]", `\]`).Replace(parts[i])
	}
	return strings.Join(parts, "`")
}

const generated = "<!-- Generated from %s: run `go test ./cmd/internal/report -run TestDocs -update`. -->\n\n"

// TestDocsOfFindings: docs/findings.md has an entry for every id that the source gives a finding.
func TestDocsOfFindings(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("# Findings\n\n")
	fmt.Fprintf(&b, generated, "buildenv/finding/findings.toml")
	b.WriteString("Each finding of gpubuild has a stable id. `gpubuild explain ID` prints its entry, and `help` of `--json` names that command, or\n" +
		"the address of this page where the release knows it (SARIF: `helpUri`).\n\n" +
		"An *error* makes the command exit with a code other than 0. A *warning* does so only with `--strict`, or if a proof is\n" +
		"required. A *note* never does. A proof that nobody required is a warning whatever stands here.\n")
	group := ""
	for _, r := range finding.Rules() {
		name, _, found := strings.Cut(r.ID, ".")
		switch {
		case r.ID == "cargo":
			b.WriteString("\n## Checks of doctor\n\n`gpubuild doctor` prints each check with what it found. A check that fails is a finding.\n")
			group = "doctor"
		case group != "doctor" && found && name != group:
			fmt.Fprintf(&b, "\n## Findings of %s\n", name)
			group = name
		}
		fmt.Fprintf(&b, "\n### %s\n\n**%s** (%s)\n\n%s\n", r.ID, prose(r.Title), r.Severity, prose(r.Help))
	}
	page(t, "findings.md", b.String())

	anchors := headings(t, b.String())
	ids := idsInSource(t)
	if len(ids) < 50 {
		t.Errorf("only %d ids are in the source: %v", len(ids), ids)
	}
	for id, where := range ids {
		if _, known := finding.Known(id); !known {
			t.Errorf("%s: the finding %s has no rule", where, id)
		}
		if _, anchor, _ := strings.Cut(report.HelpPage(id), "findings/#"); !anchors[anchor] {
			t.Errorf("%s leads to no heading of docs/findings.md", report.HelpPage(id))
		}
	}
	for _, r := range finding.Rules() {
		if ids[r.ID] == "" {
			t.Errorf("no code makes a finding with the id %s", r.ID)
		}
	}
}

// idsInSource are the ids of findings and of doctor's checks, by the file that has them.
func idsInSource(t *testing.T) map[string]string {
	out := map[string]string{}
	for _, k := range verify.Kinds() {
		if k != verify.Proved {
			out["proof."+strings.ReplaceAll(k.String(), " ", "-")] = "kind.go"
		}
	}
	for _, c := range exit.Codes { // of an error without a finding of its own
		out[exit.FindingID(exit.Code(c.Code))] = "exit.go"
	}
	for _, dir := range []string{"cmd", "features", "toolchain", "gpu", "buildenv"} {
		err := filepath.WalkDir(filepath.Join(repository, dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
			if err != nil {
				return err
			}
			take := func(e ast.Expr) {
				if lit, ok := e.(*ast.BasicLit); ok && lit.Kind == token.STRING {
					if id, err := strconv.Unquote(lit.Value); err == nil {
						out[id] = path
					}
				}
			}
			ast.Inspect(file, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.CompositeLit: // finding.Finding{ID: "…"}, doctor's Check{ID: "…"}
					kind := ""
					switch k := n.Type.(type) {
					case *ast.SelectorExpr:
						kind = k.Sel.Name
					case *ast.Ident:
						kind = k.Name
					}
					if kind != "Finding" && !(kind == "Check" && strings.Contains(path, "doctor")) {
						return true
					}
					id, severity := "", false
					for _, e := range n.Elts {
						kv, ok := e.(*ast.KeyValueExpr)
						if ok && fmt.Sprint(kv.Key) == "ID" {
							take(kv.Value)
							if lit, ok := kv.Value.(*ast.BasicLit); ok {
								id, _ = strconv.Unquote(lit.Value)
							}
						}
						severity = severity || ok && fmt.Sprint(kv.Key) == "Severity"
					}
					if kind == "Finding" && id != "" && severity {
						t.Errorf("%s: the severity of %s is the table's: finding.Of", path, id)
					}
				case *ast.CallExpr: // finding.New("…", message)
					if of, ok := n.Fun.(*ast.SelectorExpr); ok && fmt.Sprint(of.X, of.Sel) == "finding New" && len(n.Args) == 2 {
						take(n.Args[0])
					}
				case *ast.ValueSpec: // const IDUnreached = "features.unreached"
					for i, name := range n.Names {
						if strings.HasPrefix(name.Name, "ID") && i < len(n.Values) && (strings.Contains(path, "features") || strings.Contains(path, "elsewhere")) {
							take(n.Values[i])
						}
					}
				case *ast.AssignStmt: // f.ID = "build.failed"
					for i, to := range n.Lhs {
						if s, ok := to.(*ast.SelectorExpr); ok && s.Sel.Name == "ID" && i < len(n.Rhs) {
							take(n.Rhs[i])
						}
					}
				}
				return true
			})
			return nil
		})
		noError(t, err)
	}
	return out
}

// symptom is the text by which a reader finds a rule: the beginning of what a tool prints, else the first sentence of the cause.
func symptom(r *explain.Rule) string {
	const most = 76
	if len(r.Examples) == 0 {
		first, _, _ := strings.Cut(r.Cause, ". ")
		return prose(strings.TrimSuffix(first, "."))
	}
	text := r.Examples[0]
	for line := range strings.Lines(r.Examples[0]) { // the one that the rule looks at
		if slices.ContainsFunc(r.On, func(on string) bool { return strings.Contains(line, on) }) {
			text = line
			break
		}
	}
	text = strings.Join(strings.Fields(text), " ")
	if i := strings.LastIndex(text[:min(len(text), most)], " "); len(text) > most && i > 0 {
		text = text[:i] + " …"
	}
	if strings.Contains(text, "`") {
		return "`` " + text + " ``"
	}
	return "`" + text + "`"
}

// TestDocsOfFailures: docs/failures.md has a line for every rule of explain.
func TestDocsOfFailures(t *testing.T) {
	t.Parallel()
	rules, err := explain.Default()
	noError(t, err)
	stages := []struct{ id, text string }{
		{"locate", "A build script or nvcc does not find the toolkit, a compiler or a header."},
		{"configure", "CMake, a build script or cargo rejects the configuration."},
		{"compile-host", "The C++ compiler or rustc fails."},
		{"compile-nvcc", "nvcc or one of its parts fails."},
		{"link", "The linker does not find a library or a symbol."},
		{"load", "The loader does not find a library, or finds the wrong one."},
		{"run", "The program starts, and CUDA reports an error."},
		{"silent-cpu", "The program works, but without the GPU."},
		{"stale", "cargo reuses what another tool has built."},
	}
	var b strings.Builder
	b.WriteString("# Known failures\n\n")
	fmt.Fprintf(&b, generated, "toolchain/explain/rules.toml")
	fmt.Fprintf(&b, "gpubuild recognizes %d causes of failed GPU builds and runs by their text. If a build by gpubuild fails,\n"+
		"it names the cause by itself. For the log of another build, run:\n\n```console\n$ gpubuild explain build.log\n```\n\n"+
		"This page has one symptom of each. `gpubuild explain NAME` prints the cause, the fix and the sources, with the name at the end of\n"+
		"a line; `gpubuild explain LNK1181` prints all entries with that code.\n", len(rules.All))
	written := 0
	for _, s := range stages {
		title := explain.Stages[s.id]
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n", strings.ToUpper(title[:1])+title[1:], s.text)
		for _, r := range rules.All {
			if r.Stage != s.id {
				continue
			}
			written++
			fmt.Fprintf(&b, "- <a id=\"%s\"></a>%s: `%s`\n", strings.ToLower(r.ID), symptom(r), r.ID)
		}
	}
	if written != len(rules.All) {
		t.Errorf("%d of %d rules have one of the stages", written, len(rules.All))
	}
	page(t, "failures.md", b.String())
	for _, r := range rules.All {
		if _, anchor, _ := strings.Cut(report.HelpPage("explain."+r.ID), "failures/#"); strings.Count(b.String(), `id="`+anchor+`"`) != 1 {
			t.Errorf("%s leads to no line of docs/failures.md", report.HelpPage("explain."+r.ID))
		}
	}
}
