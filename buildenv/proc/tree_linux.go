package proc

import (
	"os"
	"strconv"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"gpubuild/buildenv"
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
	s, ok := buildenv.ParseStat(string(text))
	return process{pid: pid, ppid: s.Parent, start: s.Started, dead: s.Ended}, ok
}

// DieBy ends this process by a signal, as the program ended that it ran: who started us sees what the program's own parent would have
// seen; 0 is no signal. It leaves no core file, of which the program has left its own. It returns where that cannot be done.
//
// The Go runtime handles the signals of a fault itself, and os/signal does not give them back: the default is set past it, in the form
// that rt_sigaction(2) takes on every Linux (handler, flags, restorer, mask; all zero is SIG_DFL).
func DieBy(signal int) {
	if signal <= 0 || syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{}) != nil {
		return
	}
	var standard [4]uint64
	const maskSize = 8
	// SIGKILL and SIGSTOP have no handler, and refuse one.
	_, _, _ = syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(signal), uintptr(unsafe.Pointer(&standard)), 0, maskSize, 0, 0)
	if syscall.Kill(os.Getpid(), syscall.Signal(signal)) == nil {
		time.Sleep(killDelay) // it is on its way
	}
}
