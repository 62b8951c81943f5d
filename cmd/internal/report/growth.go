package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"gpubuild/gpu/fatbin"
)

// Grown is a kernel that takes more than at the commit before.
type Grown struct {
	Kernel
	Before fatbin.Resources `json:"before"`
}

// by is by how many registers it grew, 4 bytes of stack for one: a limit on registers moves them there.
func (g Grown) by() int {
	more := func(now, before uint64) int { return max(0, int(now)-int(before)) }
	return more(g.Registers, g.Before.Registers) + more(g.Stack, g.Before.Stack)/4
}

func (g Grown) String() string {
	var parts []string
	for _, p := range []struct {
		what        string
		before, now uint64
	}{{"registers", g.Before.Registers, g.Registers}, {"stack", g.Before.Stack, g.Stack}, {"shared", g.Before.Shared, g.Shared},
		{"constant", g.Before.Constant, g.Constant}} {
		if p.now != p.before {
			parts = append(parts, fmt.Sprintf("%s %d → %d", p.what, p.before, p.now))
		}
	}
	return fmt.Sprintf("%s (%s): %s", Sanitize(g.Name), g.Arch, strings.Join(parts, ", "))
}

// grown compares the kernels of a row's newest run, of each command, with those of the commit before. Only what one compiler made for one
// architecture can be compared; none: nothing could be, although there were kernels.
func (r *Row) grown() {
	seen := map[string]bool{}
	for i, o := range r.results {
		command := commandOf(o.Result)
		if o.Earlier || seen[command] || len(o.Result.Kernels) == 0 {
			continue
		}
		seen[command] = true
		older := func(same func(Observation) bool) int {
			return slices.IndexFunc(r.results[i+1:], func(b Observation) bool {
				commit := b.Result.from().Commit
				return len(b.Result.Kernels) > 0 && same(b) && (commit == "" || commit != o.Result.from().Commit)
			})
		}
		at := older(func(b Observation) bool { return commandOf(b.Result) == command })
		if at < 0 { // its flags are others now
			at = older(func(b Observation) bool { return b.Result.Verb == o.Result.Verb })
		}
		if at < 0 {
			continue
		}
		before := map[Kernel][]fatbin.Resources{} // of those with one name the heaviest is compared with the heaviest, and so on
		for _, k := range heaviest(r.results[i+1+at].Result.Kernels) {
			before[k.key()] = append(before[k.key()], k.Resources)
		}
		var more []Grown
		same := 0
		for _, k := range heaviest(o.Result.Kernels) {
			list := before[k.key()]
			if len(list) == 0 {
				continue
			}
			b := list[0]
			before[k.key()] = list[1:]
			if k.StackUnknown || b.StackUnknown {
				b.Stack = k.Stack // of which nothing can be said
			}
			if same++; k.Registers > b.Registers || k.Stack > b.Stack || k.Shared > b.Shared || k.Constant > b.Constant {
				more = append(more, Grown{k, b})
			}
		}
		slices.SortStableFunc(more, func(a, b Grown) int { return cmp.Or(b.by()-a.by(), strings.Compare(a.Name, b.Name)) })
		r.Grown = append(r.Grown, more...)
		limit := o.Result.Growth
		switch {
		case limit == nil || r.Status.bad():
		case same == 0:
			r.Why = strings.TrimPrefix(r.Why+"; its registers are not compared: no kernel has the name, compiler and architecture of one at the commit before", "; ")
		case len(more) > 0 && more[0].by() > *limit:
			r.Status, r.TooMuch, r.At, r.Since = StatusFailed, true, o.Result.At, o.Result.At
			r.Before, r.First = r.results[i+1+at].Result.from().Commit, o.Result.from().Commit
			r.Why = fmt.Sprintf("%s; [scan] max-registers-growth is %d", more[0], *limit)
		}
	}
}

// keepsKernels reports whether the history keeps the kernels of a row's i-th result: those of the newest two commits with some, by command.
func (r Row) keepsKernels(i int) bool {
	newer := map[string]bool{}
	for _, o := range r.results[:i] {
		if commandOf(o.Result) == commandOf(r.results[i].Result) && len(o.Result.Kernels) > 0 {
			if newer[o.Result.from().Commit] = true; o.Result.from().Commit == r.results[i].Result.from().Commit {
				return false
			}
		}
	}
	return len(newer) < 2
}
