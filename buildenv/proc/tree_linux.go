package proc

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// rlimitLocks is RLIMIT_LOCKS of <asm-generic/resource.h>, the same on every processor that CUDA knows.
const rlimitLocks = 10

// setMark marks a process and all that it will start, and answers the mark; 0 when it could not.
func setMark(pid int) uint64 {
	// Never the same for two trees: pids come again, but not at the same time.
	mark := 1<<62 | uint64(pid&0x3fffff)<<40 | uint64(time.Now().UnixNano())>>10&(1<<40-1)
	var old unix.Rlimit
	if unix.Prlimit(pid, rlimitLocks, nil, &old) != nil || old.Max < mark {
		return 0
	}
	if unix.Prlimit(pid, rlimitLocks, &unix.Rlimit{Cur: mark, Max: old.Max}, nil) != nil {
		return 0
	}
	return mark
}

func processes(marks bool) []process {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1) // what could be read is worth looking at
	var out []process
	for _, n := range names {
		pid, err := strconv.Atoi(n)
		if err != nil {
			continue
		}
		p, ok := look(pid)
		if !ok {
			continue
		}
		if marks {
			text, _ := os.ReadFile("/proc/" + n + "/limits") // a stranger's may be unreadable: no mark of ours
			p.mark = parseMark(text)
		}
		out = append(out, p)
	}
	return out
}

func look(pid int) (process, bool) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return process{}, false
	}
	return parseStat(pid, text)
}

// parseStat reads /proc/PID/stat (proc(5)). The name of the program stands in parentheses and may hold anything, so what follows is
// counted from the last one.
func parseStat(pid int, text []byte) (process, bool) {
	i := bytes.LastIndexByte(text, ')')
	if i < 0 {
		return process{}, false
	}
	f := strings.Fields(string(text[i+1:]))
	if len(f) < 20 {
		return process{}, false
	}
	ppid, err := strconv.Atoi(f[1])
	start, err2 := strconv.ParseUint(f[19], 10, 64)
	if err != nil || err2 != nil {
		return process{}, false
	}
	return process{pid: pid, ppid: ppid, start: start, dead: f[0] == "Z" || f[0] == "X"}, true
}

// parseMark reads the soft limit on file locks of /proc/PID/limits; "unlimited" is no mark.
func parseMark(text []byte) uint64 {
	_, rest, ok := strings.Cut(string(text), "Max file locks")
	if !ok {
		return 0
	}
	f := strings.Fields(rest)
	if len(f) == 0 {
		return 0
	}
	n, err := strconv.ParseUint(f[0], 10, 64)
	if err != nil {
		return 0
	}
	return n
}
