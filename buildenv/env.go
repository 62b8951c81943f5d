package buildenv

import (
	"maps"
	"slices"
	"sort"
	"strings"
)

// Env is a set of environment variables with the platform's own rules: on Windows names differ in more than letter case, elsewhere not.
// The zero value is an empty environment. An Env is never changed; With makes a new one.
type Env struct {
	fold bool
	vars map[string]variable // by folded name
}

type variable struct{ name, value string }

// NewEnv makes an Env from "NAME=value" entries; the last one of a name wins. Windows' hidden "=C:=C:\dir" entries are kept as they are.
func NewEnv(os string, entries []string) Env {
	e := Env{fold: os == Windows, vars: make(map[string]variable, len(entries))}
	for _, s := range entries {
		i := strings.IndexByte(s[min(1, len(s)):], '=')
		if i < 0 {
			continue
		}
		name := s[:i+1]
		e.vars[e.key(name)] = variable{name, s[i+2:]}
	}
	return e
}

func (e Env) key(name string) string {
	if e.fold {
		return strings.ToUpper(name)
	}
	return name
}

// Lookup returns a variable's value and whether it is set; set and empty are two things.
func (e Env) Lookup(name string) (string, bool) {
	v, ok := e.vars[e.key(name)]
	return v.value, ok
}

// Get returns a variable's value, empty when it is not set.
func (e Env) Get(name string) string { v, _ := e.Lookup(name); return v }

// Entries lists the variables as "NAME=value", sorted.
func (e Env) Entries() []string {
	out := make([]string, 0, len(e.vars))
	for _, v := range e.vars {
		out = append(out, v.name+"="+v.value)
	}
	sort.Strings(out)
	return out
}

// Names lists the names of the variables, sorted, as they were first written.
func (e Env) Names() []string {
	out := make([]string, 0, len(e.vars))
	for _, v := range e.vars {
		out = append(out, v.name)
	}
	sort.Strings(out)
	return out
}

func (e Env) clone() Env {
	c := Env{fold: e.fold, vars: make(map[string]variable, len(e.vars)+1)}
	maps.Copy(c.vars, e.vars)
	return c
}

// Set returns the environment with one variable set; the name keeps the letter case it had.
func (e Env) Set(name, value string) Env {
	c := e.clone()
	c.put(name, value)
	return c
}

func (e Env) put(name, value string) {
	k := e.key(name)
	if old, ok := e.vars[k]; ok {
		name = old.name
	}
	e.vars[k] = variable{name, value}
}

// Unset returns the environment without a variable.
func (e Env) Unset(name string) Env {
	c := e.clone()
	delete(c.vars, c.key(name))
	return c
}

// Asking returns the environment for a program that only answers a question: what it looks for on PATH must not be found in the current
// directory, which an empty entry means, and an empty list.
func (e Env) Asking() Env {
	h := Host{OS: map[bool]string{true: Windows, false: Linux}[e.fold]}
	dirs := slices.DeleteFunc(h.splitRaw(e.Get("PATH")), func(dir string) bool { return !h.IsAbs(h.unquote(dir)) })
	if len(dirs) == 0 {
		return e.Unset("PATH")
	}
	return e.Set("PATH", h.JoinList(dirs...))
}
