package ci

import (
	"bytes"
	"fmt"
	"strings"
	"text/tabwriter"
)

// Text lists the rows for a person; size words a number of bytes.
func Text(m Matrix, size func(int64) string) []byte {
	var out bytes.Buffer
	var all Estimate
	unknown := false
	t := tabwriter.NewWriter(&out, 0, 8, 2, ' ', 0)
	for _, kind := range []string{Compile, Proof} {
		rows := m.Of(kind)
		if len(rows) == 0 {
			continue
		}
		fmt.Fprintf(t, "%s\ton\ttoolkit\tdisk\ttime\n", map[string]string{Compile: "compile", Proof: "prove"}[kind])
		for _, r := range rows {
			where := strings.Join(r.Runner, ",")
			if r.Container != "" {
				where = r.Container
			}
			if len(r.Wrapper) > 0 {
				where += ", by " + r.Wrapper[0]
			}
			from := r.Toolkit
			if r.Estimate.Fetch > 0 {
				from += " " + size(r.Estimate.Fetch)
			}
			time := fmt.Sprintf("~%s", minutes(r.Estimate.Seconds))
			if !r.Estimate.Kernels {
				time += " and its own kernels"
				unknown = true
			}
			fmt.Fprintf(t, "  %s\t%s\t%s\t~%s\t%s\n", r.ID, OneLine(where), from, size(r.Estimate.Disk), time)
			all.Seconds += r.Estimate.Seconds
			all.Fetch += r.Estimate.Fetch
		}
	}
	_ = t.Flush() // into memory
	if len(m.LeftOut) > 0 {
		out.WriteString("left out\n" + Reasons(m.LeftOut))
	}
	fmt.Fprintf(&out, "%d rows compile, %d prove, %d are left out; with empty caches about %s of runner time and %s of toolkits",
		len(m.Of(Compile)), len(m.Of(Proof)), len(m.LeftOut), minutes(all.Seconds), size(all.Fetch))
	if unknown {
		out.WriteString(", and the kernels whose time is not known")
	}
	out.WriteByte('\n')
	return out.Bytes()
}

func minutes(seconds int) string {
	switch {
	case seconds < 90:
		return fmt.Sprintf("%d s", seconds)
	case seconds < 90*60:
		return fmt.Sprintf("%d min", (seconds+30)/60)
	}
	return fmt.Sprintf("%.1f h", float64(seconds)/3600)
}
