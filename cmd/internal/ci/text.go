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
	var download int64
	var seconds float64
	timed := 0
	fetched := map[string]bool{}
	t := tabwriter.NewWriter(&out, 0, 8, 2, ' ', 0)
	for _, kind := range []string{Compile, Proof} {
		rows := m.Of(kind)
		if len(rows) == 0 {
			continue
		}
		fmt.Fprintf(t, "%s\ton\ttoolkit\tlast time\n", map[string]string{Compile: "compile", Proof: "prove"}[kind])
		for _, r := range rows {
			where := strings.Join(r.Runner, ",")
			if r.Container != "" {
				where = r.Container
			}
			if len(r.Wrapper) > 0 {
				where += ", by " + r.Wrapper[0]
			}
			from := r.Toolkit
			if r.Download > 0 {
				from += " " + size(r.Download)
				if key := r.Platform + r.CUDA + strings.Join(r.Parts, ","); !fetched[key] {
					fetched[key] = true
					download += r.Download
				}
			}
			time := "-"
			if r.Seconds > 0 {
				time = minutes(int(r.Seconds))
				seconds += r.Seconds
				timed++
			}
			fmt.Fprintf(t, "  %s\t%s\t%s\t%s\n", r.ID, OneLine(where), from, time)
		}
	}
	_ = t.Flush() // into memory
	if len(m.LeftOut) > 0 {
		out.WriteString("left out\n" + Reasons(m.LeftOut))
	}
	fmt.Fprintf(&out, "rows: %d to compile, %d to prove, %d left out", len(m.Of(Compile)), len(m.Of(Proof)), len(m.LeftOut))
	if m.Same > 0 {
		fmt.Fprintf(&out, "; merged duplicates: %d", m.Same)
	}
	if download > 0 {
		fmt.Fprintf(&out, "; %s of toolkits to download", size(download))
	}
	if timed > 0 {
		rows := "1 row"
		if timed > 1 {
			rows = fmt.Sprint(timed, " rows")
		}
		fmt.Fprintf(&out, "; %s took %s last time", rows, minutes(int(seconds)))
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
