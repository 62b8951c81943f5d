package proc

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// attributes: macOS has no way to end a child when its parent is killed.
func attributes() *syscall.SysProcAttr { return nil }

const zombie = 5 // SZOMB of <sys/proc.h>

func processes() []process {
	all, err := unix.SysctlKinfoProcSlice("kern.proc.all")
	if err != nil {
		return nil
	}
	out := make([]process, 0, len(all))
	for i := range all {
		out = append(out, convert(&all[i]))
	}
	return out
}

func look(pid int) (process, bool) {
	k, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil || int(k.Proc.P_pid) != pid {
		return process{}, false
	}
	return convert(k), true
}

func convert(k *unix.KinfoProc) process {
	began := uint64(k.Proc.P_starttime.Sec)*1e6 + uint64(k.Proc.P_starttime.Usec)
	return process{pid: int(k.Proc.P_pid), ppid: int(k.Eproc.Ppid), start: began, dead: k.Proc.P_stat == zombie}
}
