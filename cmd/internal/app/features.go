package app

import (
	"context"
	"fmt"
	"gpubuild/features"
	"gpubuild/toolchain/cargo"
	"strings"
)

func runFeatures(a *app, ctx context.Context, o Options, l cargo.Line) error {
	j, err := a.lookAt(ctx, o, l)
	if err != nil {
		return err
	}
	if o.JSON == nil {
		a.printFeatures(j)
	} else if err := a.answer(o, "features", !j.reach.Stops, j.findings, struct {
		*features.Answer
		Findings struct{} `json:"-"`
	}{Answer: j.reach}); err != nil {
		return err
	}
	if j.reach.Stops {
		return codeError(codeUnreached)
	}
	return nil
}

// printFeatures prints for each root a table of what is linked, then the paths of the features.
func (a *app) printFeatures(j *journey) {
	var b strings.Builder
	for i, r := range j.reach.Roots {
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "%s %s (%s %s), by %s\n", r.Package, r.Version, orWord(r.Kind, "target"), r.Target, j.reach.Via)
		for _, c := range r.Crates {
			state := "off"
			if c.On {
				state = "on"
			}
			fmt.Fprintf(&b, "  %-3s  %-28s %-8s %s\n", state, c.Name+" "+c.Version, c.Backend, strings.Join(c.Features, ","))
			if c.Note != "" {
				fmt.Fprintf(&b, "       %s\n", c.Note)
			}
		}
	}
	for i, w := range j.reach.Paths {
		if i == 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "%s\n", pathLine(w))
	}
	n := needsOf(j.reach)
	if len(n.Because) > 0 {
		b.WriteString("\nto build:\n")
		for _, s := range n.Because {
			fmt.Fprintf(&b, "  %s\n", s)
		}
	}
	if j.reach.Needs.DriverOnly {
		b.WriteString("\nno nvcc and no toolkit is needed: these crates load the driver when they run\n")
	}
	fmt.Fprint(a.shell.Out, b.String())
	for _, f := range j.findings {
		a.shell.Finding(f)
	}
}

func orWord(s, other string) string {
	if s == "" {
		return other
	}
	return s
}
