package edit

import (
	"fmt"
	"strings"
)

// Diff is the unified diff of two texts, empty when they are the same. It is correct for any two texts and short for those that differ by
// insertions, which are the only changes that are made here.
func Diff(path string, old, now []byte) string {
	a, b := textLines(old), textLines(now)
	const around = 3
	var ops []diffOp
	i, j := 0, 0
	for i < len(a) || j < len(b) {
		if i < len(a) && j < len(b) && a[i] == b[j] {
			ops = append(ops, diffOp{' ', a[i]})
			i, j = i+1, j+1
			continue
		}
		di, dj := resync(a[i:], b[j:])
		for ; di > 0; di-- {
			ops = append(ops, diffOp{'-', a[i]})
			i++
		}
		for ; dj > 0; dj-- {
			ops = append(ops, diffOp{'+', b[j]})
			j++
		}
	}
	var out strings.Builder
	lineA, lineB := 1, 1
	for at := 0; at < len(ops); {
		if ops[at].kind == ' ' {
			at, lineA, lineB = at+1, lineA+1, lineB+1
			continue
		}
		begin := max(0, at-around)
		end, quiet := at, 0 // end: behind the last change that belongs to this hunk
		for k := at; k < len(ops) && quiet <= 2*around; k++ {
			if quiet++; ops[k].kind != ' ' {
				end, quiet = k+1, 0
			}
		}
		stop := min(len(ops), end+around)
		startA, startB := lineA-(at-begin), lineB-(at-begin)
		countA, countB := 0, 0
		var body strings.Builder
		for _, op := range ops[begin:stop] {
			if op.kind != '+' {
				countA++
			}
			if op.kind != '-' {
				countB++
			}
			body.WriteByte(op.kind)
			body.WriteString(op.line)
			if !strings.HasSuffix(op.line, "\n") {
				body.WriteString("\n\\ No newline at end of file\n")
			}
		}
		if out.Len() == 0 {
			fmt.Fprintf(&out, "--- a/%s\n+++ b/%s\n", path, path)
		}
		fmt.Fprintf(&out, "@@ -%s +%s @@\n%s", diffRange(startA, countA), diffRange(startB, countB), body.String())
		lineA, lineB, at = startA+countA, startB+countB, stop
	}
	return out.String()
}

type diffOp struct {
	kind byte // ' ', '-', '+'
	line string
}

func diffRange(start, count int) string {
	if count == 0 {
		start-- // an empty range is named by the line before it
	}
	return fmt.Sprintf("%d,%d", start, count)
}

// resync answers how many lines of each text to pass until both go on alike: the nearest place.
func resync(a, b []string) (int, int) {
	for sum := 1; sum < len(a)+len(b); sum++ {
		for i := max(0, sum-len(b)); i <= min(sum, len(a)); i++ {
			if j := sum - i; i < len(a) && j < len(b) && a[i] == b[j] {
				return i, j
			}
		}
	}
	return len(a), len(b)
}

func textLines(data []byte) []string {
	lines := strings.SplitAfter(string(data), "\n")
	if lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	return lines
}
