package buildenv

import (
	"fmt"
	"slices"
	"strings"
)

// Op is what a Change does to a variable.
type Op string

const (
	Set     Op = "set"     // the variable gets the value
	Prepend Op = "prepend" // the value goes before the list, and out of its later places
	Append  Op = "append"  // the value goes behind the list unless it is there already
	Unset   Op = "unset"   // the variable goes
)

// Change is one change to one variable and why it is made.
type Change struct {
	Name   string `json:"name"`
	Op     Op     `json:"op"`
	Value  string `json:"value,omitempty"`
	Reason string `json:"reason"`
}

// Delta is what a build's environment has that the user's has not, in order.
type Delta struct {
	Changes []Change `json:"changes"`
}

// Add puts a change at the end.
func (d *Delta) Add(op Op, name, value, reason string) {
	d.Changes = append(d.Changes, Change{Name: name, Op: op, Value: value, Reason: reason})
}

// Diff writes what a delta makes of an environment for a person: of each variable the value before and after, once, and each reason.
func Diff(h Host, base Env, d Delta) string {
	var b strings.Builder
	for _, v := range outcomes(h, base, d) {
		if old, was := base.Lookup(v.name); was {
			fmt.Fprintf(&b, "-%s=%s\n", v.name, old)
		}
		if !v.unset {
			fmt.Fprintf(&b, "+%s=%s\n", v.name, v.value)
		}
		var reasons []string
		for _, c := range d.Changes {
			if h.sameName(c.Name, v.name) && !slices.Contains(reasons, c.Reason) {
				reasons = append(reasons, c.Reason)
				fmt.Fprintf(&b, " # %s\n", c.Reason)
			}
		}
	}
	return b.String()
}

// Apply makes the changes in order. Lists are joined with the host's separator; a directory stands in a list once.
func (h Host) Apply(e Env, d Delta) Env {
	out := e.clone()
	out.fold = h.OS == Windows
	for _, c := range d.Changes {
		old, _ := out.Lookup(c.Name)
		switch c.Op {
		case Set:
			out.put(c.Name, c.Value)
		case Unset:
			delete(out.vars, out.key(c.Name))
		case Prepend:
			rest := h.without(h.splitRaw(old), c.Value)
			out.put(c.Name, h.JoinList(append([]string{c.Value}, rest...)...))
		case Append:
			list := h.splitRaw(old)
			if len(h.without(list, c.Value)) == len(list) {
				list = append(list, c.Value)
			}
			out.put(c.Name, h.JoinList(list...))
		}
	}
	return out
}

func (h Host) without(list []string, dir string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(e string) bool { return h.SamePath(h.unquote(e), dir) })
}
