package proc

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"

	"gpubuild/buildenv"
)

// tree is a child in a job object of its own.
type tree struct {
	root *os.Process
	job  windows.Handle // 0 when there is none: only the child itself can be ended then
}

// startTree starts the child suspended, so that it is in the job before it can start anything.
func startTree(cmd *exec.Cmd) (*tree, error) {
	t := &tree{job: newJob()}
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: windows.CREATE_SUSPENDED}
	err := throughShell(cmd)
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.close()
		return nil, err
	}
	t.root = cmd.Process
	pid := uint32(t.root.Pid)
	if t.job != 0 && assign(t.job, pid) != nil {
		t.close()
	}
	if err := resume(pid); err != nil {
		_ = t.root.Kill()
		_ = cmd.Wait()
		t.close()
		return nil, err
	}
	return t, nil
}

// throughShell has a script of cmd.exe started with a command line that cmd.exe reads as it is meant: Go's is made for programs.
func throughShell(cmd *exec.Cmd) error {
	if !isBatch(cmd.Path) {
		return nil
	}
	line, err := batchLine(cmd.Path, cmd.Args[1:])
	if err != nil {
		return err
	}
	system, err := windows.GetSystemDirectory()
	if err != nil {
		return err
	}
	cmd.Path, cmd.SysProcAttr.CmdLine = filepath.Join(system, "cmd.exe"), line
	return nil
}

func newJob() windows.Handle {
	job, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return 0
	}
	if setLimit(job, windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE) != nil {
		windows.CloseHandle(job)
		return 0
	}
	return job
}

func setLimit(job windows.Handle, flags uint32) error {
	var info windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION
	info.BasicLimitInformation.LimitFlags = flags
	_, err := windows.SetInformationJobObject(
		job,
		windows.JobObjectExtendedLimitInformation,
		uintptr(unsafe.Pointer(&info)),
		uint32(unsafe.Sizeof(info)),
	)
	return err
}

func assign(job windows.Handle, pid uint32) error {
	p, err := windows.OpenProcess(windows.PROCESS_SET_QUOTA|windows.PROCESS_TERMINATE, false, pid)
	if err != nil {
		return err
	}
	defer windows.CloseHandle(p)
	return windows.AssignProcessToJobObject(job, p)
}

// resume lets every thread of a suspended process run; it has one.
func resume(pid uint32) error {
	snap, err := windows.CreateToolhelp32Snapshot(windows.TH32CS_SNAPTHREAD, 0)
	if err != nil {
		return err
	}
	defer windows.CloseHandle(snap)
	entry := windows.ThreadEntry32{Size: uint32(unsafe.Sizeof(windows.ThreadEntry32{}))}
	for err = windows.Thread32First(snap, &entry); err == nil; err = windows.Thread32Next(snap, &entry) {
		if entry.OwnerProcessID != pid {
			continue
		}
		thread, err := windows.OpenThread(windows.THREAD_SUSPEND_RESUME, false, entry.ThreadID)
		if err != nil {
			return err
		}
		_, err = windows.ResumeThread(thread)
		windows.CloseHandle(thread)
		if err != nil {
			return err
		}
	}
	return nil
}

// leave lets go of the job, so that what the child left running goes on running.
func (t *tree) leave() {
	if t.job != 0 && setLimit(t.job, 0) == nil {
		t.close()
	}
}

func (t *tree) close() {
	if t.job != 0 {
		windows.CloseHandle(t.job)
		t.job = 0
	}
}

// ask asks nobody: a console event reaches all who share the console, the user's shell too, or a process group of its own,
// which could not read the console.
func (t *tree) ask(_ os.Signal, delivered bool) bool { return delivered }

func (t *tree) kill() {
	if t.job == 0 {
		_ = t.root.Kill()
		return
	}
	_ = windows.TerminateJobObject(t.job, 1)
}

// alive reports whether the job still holds a process; without a job that is not known.
func (t *tree) alive() bool {
	if t.job == 0 {
		return false
	}
	// JOBOBJECT_BASIC_ACCOUNTING_INFORMATION of winnt.h, which x/sys does not have.
	var info struct {
		times                                  [4]int64
		faults, total, active, terminatedCount uint32
	}
	const basicAccounting = 1 // JobObjectBasicAccountingInformation
	err := windows.QueryInformationJobObject(t.job, basicAccounting, uintptr(unsafe.Pointer(&info)), uint32(unsafe.Sizeof(info)), nil)
	if err != nil || info.active == 0 {
		t.close()
		return false
	}
	return true
}

// fromTerminal: Go makes SIGINT of Ctrl-C and Ctrl-Break and SIGTERM of a closing console, and the console sends it to all its processes.
func fromTerminal(os.Signal) bool { return true }

// status takes the code with which Windows ends a program on Ctrl-C for what a shell elsewhere says of it.
func status(s *os.ProcessState) (code int, signal string) {
	if uint32(s.ExitCode()) == uint32(windows.STATUS_CONTROL_C_EXIT) {
		return 128 + int(syscall.SIGINT), "SIGINT"
	}
	return s.ExitCode(), ""
}

// Become does nothing: on Windows no program can take the place of another one.
func Become(buildenv.Cmd) {}
