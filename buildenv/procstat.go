package buildenv

import (
	"strconv"
	"strings"
)

// ProcStat is what /proc/PID/stat says of a process.
type ProcStat struct {
	Parent  int
	Started uint64 // clock ticks since boot: with the pid it names a process for good
	Ended   bool   // and its parent has not asked yet
}

// ParseStat reads /proc/PID/stat (proc(5)). The name of the program stands in parentheses and may hold anything, so what follows is counted
// from the last one.
func ParseStat(text string) (ProcStat, bool) {
	f := strings.Fields(text[strings.LastIndexByte(text, ')')+1:]) // from field 3 on
	if len(f) < 20 || !strings.Contains(text, ")") {
		return ProcStat{}, false
	}
	parent, err1 := strconv.Atoi(f[1])
	started, err2 := strconv.ParseUint(f[19], 10, 64)
	return ProcStat{parent, started, f[0] == "Z" || f[0] == "X"}, err1 == nil && err2 == nil
}
