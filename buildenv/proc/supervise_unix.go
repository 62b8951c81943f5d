//go:build linux || darwin

package proc

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"
)

func supervisorAttributes() (*syscall.SysProcAttr, bool) {
	return &syscall.SysProcAttr{Setsid: true}, true
}

// announced is the line that names a child to the supervisor, forgotten the line for one that has ended.
func (t *tree) announced() string {
	return fmt.Sprintf("+ %d %d %d\n", t.root.Pid, t.known[t.root.Pid], t.mark)
}

func forgotten(pid int) string { return fmt.Sprintf("- %d\n", pid) }

// giveUp is when a supervisor ends although a process does not, because it hangs in the kernel. Nobody waits for it, and on a machine with
// much to do it gets little time.
const giveUp = time.Minute

// Supervise reads which children a gpubuild has until that gpubuild is gone, and kills the trees of those that had not ended.
func Supervise(r io.Reader) {
	left := map[int]*tree{}
	for lines := bufio.NewScanner(r); lines.Scan(); {
		var sign string
		var pid int
		var start, mark uint64
		n, _ := fmt.Sscan(lines.Text(), &sign, &pid, &start, &mark) // a line that was cut by the kill says nothing
		switch {
		case n == 4 && sign == "+":
			left[pid] = &tree{mark: mark, known: map[int]uint64{pid: start}}
		case n == 2 && sign == "-":
			delete(left, pid)
		}
	}
	for began := time.Now(); len(left) > 0 && time.Since(began) < giveUp; time.Sleep(poll / 5) {
		for pid, t := range left {
			// Members are collected before any is killed: afterwards nobody knows whose child an unmarked orphan was.
			members := t.members()
			if len(members) == 0 {
				delete(left, pid)
			}
			for _, member := range members {
				if p, ok := look(member); ok && p.start == t.known[member] && member != os.Getpid() {
					_ = syscall.Kill(member, syscall.SIGKILL) // it is gone, or setuid and no longer ours to end
				}
			}
		}
	}
}
