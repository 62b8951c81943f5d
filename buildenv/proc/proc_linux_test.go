package proc

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"gpubuild/buildenv/hosttest"
	"gpubuild/buildenv/hosttest/need"
)

// TestCtrlCReachesAProgramOnce: at a terminal the kernel signals every process of the group; we must not signal them again, only those
// that are in a group of their own.
func TestCtrlCReachesAProgramOnce(t *testing.T) {
	for program, code := range map[string]string{"counts": "3", "apart": "0"} {
		t.Run(program, func(t *testing.T) { reachedOnce(t, program, code) })
	}
}

func reachedOnce(t *testing.T, program, code string) {
	master, slave := terminal(t)
	cmd := exec.Command(command("runner").Path, "__helper", "runner", program)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	hosttest.OK(t, cmd.Start())
	slave.Close()
	var out bytes.Buffer
	buf := make([]byte, 4096)
	typed := false
	for {
		n, err := master.Read(buf) // EIO when the last process has closed its end
		out.Write(buf[:n])
		if !typed && strings.Contains(out.String(), "ready\r\n") { // Ctrl-C makes the kernel drop what has not been read yet
			typed = true
			hosttest.Must(master.WriteString("\x03"))(t)
		}
		if err != nil {
			break
		}
	}
	hosttest.Equal(t, cmd.Wait(), nil)
	got := strings.ReplaceAll(strings.ReplaceAll(out.String(), "\r", ""), "^C", "")
	hosttest.Equal(t, got, "ready\ngot interrupt\nbye\ncode "+code+", cancelled true\n")
}

func terminal(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		need.Missing(t, "terminal", "%v", err)
	}
	t.Cleanup(func() { master.Close() })
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		need.Missing(t, "terminal", "%v", err)
	}
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		need.Missing(t, "terminal", "%v", err)
	}
	slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		need.Missing(t, "terminal", "%v", err)
	}
	return master, slave
}
