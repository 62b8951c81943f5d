package proc

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// attributes have the kernel end a child when we are killed. It reaches only the direct child, which for `run` is the program's own runner.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

// limitMemory is called when the child has begun: what it has by then is counted, too.
func limitMemory(pid int, most uint64) {
	_ = unix.Prlimit(pid, unix.RLIMIT_DATA, &unix.Rlimit{Cur: most, Max: most}, nil) // it may have ended
}

func processes() []process {
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
		if p, ok := look(pid); ok {
			out = append(out, p)
		}
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
