package proc

import (
	"os"
	"syscall"
	"time"
	"unsafe"
)

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
