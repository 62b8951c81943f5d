package graph

import (
	"bufio"
	"io"
	"slices"
	"strings"
)

// Tree is the answer of `cargo tree --prefix depth -e normal,no-proc-macro -f '{p} {f}'`: what each selected package links. It knows no
// targets of a package, no build scripts and no sources.
type Tree struct {
	Nodes []TreeNode
	Roots []int
}

// TreeNode is one package with one set of features.
type TreeNode struct {
	Name, Version string
	Platform      string // the target that was asked for, where several were
	Source        string // what stands in brackets: a directory or an address; empty for the default registry
	Features      []string
	ProcMacro     bool
	Children      []int
}

const (
	treeLine  = 1 << 20 // bytes of one line
	maxDepth  = 10000
	treeLimit = 64 << 20
)

// ParseTree reads cargo tree's lines. A package that was printed before carries (*) and no children; it is joined to its first mention. A
// line `[target] TRIPLE` begins the answer for another target. One answer for several, by build.target, is a *Error: it does not say whose
// a line is.
func ParseTree(r io.Reader) (*Tree, error) {
	t := &Tree{}
	known := map[string]int{} // line without its marks → node
	platform := ""
	var stack []int // nodes of the line's ancestors
	sc := bufio.NewScanner(io.LimitReader(r, treeLimit))
	sc.Buffer(make([]byte, 64<<10), treeLine)
	for n := 1; sc.Scan(); n++ {
		line := strings.TrimRight(sc.Text(), "\r")
		if target, ok := strings.CutPrefix(line, "[target] "); ok {
			platform, known, stack = target, map[string]int{}, nil
			continue
		}
		if strings.TrimSpace(line) == "" || strings.HasPrefix(line, "[") {
			continue
		}
		depth, rest, ok := leadingNumber(line)
		if !ok || depth > len(stack) || depth > maxDepth {
			return nil, notUnderstood("cargo tree: line %d is not understood: %q", n, clip(line, 120))
		}
		text, repeated := strings.CutSuffix(strings.TrimRight(rest, " "), " (*)")
		text = strings.TrimRight(text, " ")
		node, seen := known[text]
		if !seen {
			parsed, ok := parseTreeNode(text)
			if !ok {
				return nil, notUnderstood("cargo tree: line %d is not understood: %q", n, clip(line, 120))
			}
			parsed.Platform = platform
			node = len(t.Nodes)
			known[text] = node
			t.Nodes = append(t.Nodes, parsed)
		}
		_ = repeated // the mark adds nothing: the node is known by its text
		if depth == 0 {
			if slices.Contains(t.Roots, node) {
				return nil, notUnderstood("cargo tree: %s is a root twice: the answer is for several targets at once", parsedName(text))
			}
			t.Roots = append(t.Roots, node)
		} else if up := &t.Nodes[stack[depth-1]]; !slices.Contains(up.Children, node) {
			up.Children = append(up.Children, node)
		}
		stack = append(stack[:depth], node)
	}
	if err := sc.Err(); err != nil {
		return nil, notUnderstood("cargo tree: %w", err)
	}
	return t, nil
}

func parsedName(text string) string {
	name, _, _ := strings.Cut(text, " ")
	return name
}

func leadingNumber(s string) (n int, rest string, ok bool) {
	i := 0
	for i < len(s) && '0' <= s[i] && s[i] <= '9' && i < 6 {
		n = n*10 + int(s[i]-'0')
		i++
	}
	return n, s[i:], i > 0
}

// parseTreeNode reads `name v1.2.3 (proc-macro) (source) feat1,feat2`.
func parseTreeNode(s string) (TreeNode, bool) {
	var n TreeNode
	name, rest, ok := strings.Cut(s, " ")
	if !ok || name == "" || !strings.HasPrefix(rest, "v") {
		return n, false
	}
	n.Name = name
	n.Version, rest, _ = strings.Cut(rest[1:], " ")
	for strings.HasPrefix(rest, "(") {
		end := closing(rest)
		if end < 0 {
			return n, false
		}
		if mark := rest[1:end]; mark == "proc-macro" {
			n.ProcMacro = true
		} else {
			n.Source = mark
		}
		rest = strings.TrimLeft(rest[end+1:], " ")
	}
	for _, f := range strings.Split(strings.TrimSpace(rest), ",") {
		if f != "" {
			n.Features = append(n.Features, f)
		}
	}
	return n, true
}

// closing finds the bracket that closes the one s begins with; a directory's name may hold brackets of its own.
func closing(s string) int {
	depth := 0
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '(':
			depth++
		case ')':
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return -1
}

// Linked lists the nodes that become part of a root, the root first; proc-macros are not entered.
func (t *Tree) Linked(root int) []int {
	seen := map[int]bool{root: true}
	list := []int{root}
	for i := 0; i < len(list); i++ {
		for _, c := range t.Nodes[list[i]].Children {
			if !seen[c] && !t.Nodes[c].ProcMacro {
				seen[c] = true
				list = append(list, c)
			}
		}
	}
	return list
}

func clip(s string, n int) string {
	if len(s) > n {
		return strings.ToValidUTF8(s[:n], "") + "…"
	}
	return s
}
