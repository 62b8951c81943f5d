package verify

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"gpubuild/buildenv"
	"gpubuild/buildenv/hosttest"
	"gpubuild/gpu"
	"gpubuild/gpu/probe"
)

const uuid = "GPU-11111111-2222-3333-4444-555555555555"

// proven is the evidence of an orderly run; each test spoils one thing of it.
func proven() Evidence {
	loaded := Loaded{LibCUDA: "/usr/lib/libcuda.so.1", Real: "/usr/lib/libcuda.so.580.65.06", Version: "580.65.06", Module: "580.65.06", Nodes: []string{"/dev/nvidia0"}}
	return Evidence{
		Schema: 1, Binary: "/x/app", Ran: true,
		Control: Control{Outcome: ControlRecorded, Device: "H200", UUID: uuid, Loaded: loaded, Real: true, Nodes: []string{"/dev/nvidiactl"}},
		Watch:   Watch{Pid: 7, Started: 99, Watched: 2, Nodes: []string{"/dev/nvidiactl"}, Complete: true, Kept: true, Seen: []Seen{{Pid: 7, Started: 99, Root: true, Exe: "/x/app"}}},
		Processes: []Process{{
			Self: true, Real: true, Loaded: loaded,
			Process: probe.Process{
				Identity: probe.Identity{Pid: 7, Started: 99, Exe: "/x/app"}, Recording: true, LibCUDA: loaded.LibCUDA,
				Devices: []probe.Device{{Ordinal: 0, UUID: uuid, Name: "H200", Capability: gpu.Capability{Major: 9}}},
				Kernels: []probe.Kernel{{Name: "matmul", Count: 3, Total: 3000, Start: 1, End: 9000, Context: 1, Last: 5, Waited: 3}},
				Waits:   []probe.Wait{{Context: 1, Function: "cuCtxSynchronize", Correlation: 9, Probe: true}},
				End:     &probe.End{Kernels: 3, Accepted: 3, Exited: true},
			},
		}},
	}
}

// silent is the evidence of a run that launched nothing.
func silent() Evidence {
	e := proven()
	e.Processes, e.Watch.Nodes = nil, nil
	return e
}

// idle is the evidence of a run that opened the driver and launched nothing.
func idle() Evidence {
	e := proven()
	e.Processes[0].Kernels, e.Processes[0].End = nil, &probe.End{Status: new(int)}
	return e
}

// fork is the evidence of a run in which not the program launched the kernel, but a child of the same binary, which said that it ends with a status.
func fork(status int) func() Evidence {
	return func() Evidence {
		e := proven()
		e.Launcher, e.Processes[0].Tree, e.Processes[0].Pid, e.Processes[0].End.Status, e.Processes[0].End.Exited = true, true, 8, &status, true
		return e
	}
}

// other is the evidence of a run that launched another kernel.
func other() Evidence {
	e := proven()
	e.Processes[0].Kernels[0].Name = "relu"
	return e
}

// TestStatusOfAChild: a child of a launcher ended well with 0, or as the program is to end.
func TestStatusOfAChild(t *testing.T) {
	for status := range 4 {
		for expected := range 4 {
			e := fork(status)()
			e.Exit.Code = expected
			if v := Judge(e, Rules{ExpectExit: expected}); (v.Kind == Proved) != (status == 0 || status == expected) {
				t.Errorf("it ended with %d, expected was %d: %s: %s", status, expected, v.Kind, v.Why)
			}
		}
	}
}

func TestJudge(t *testing.T) {
	rules := Rules{}
	tests := []struct {
		story string
		from  func() Evidence
		spoil func(*Evidence)
		want  Kind
		why   string
	}{
		{"everything fits", proven, func(*Evidence) {}, Proved, ""},
		{"it became another program afterwards", proven, func(e *Evidence) {
			e.Watch.Kept, e.Processes[0].End = false, nil
		}, Unproved, "became another program (exec)"},
		{"an exit handler of it became another program", proven, func(e *Evidence) {
			e.Watch.Kept, e.Processes[0].End.Exited = false, false
		}, Unproved, "became another program (exec)"},
		{"it ended at once, as itself", proven, func(e *Evidence) { e.Watch.Kept, e.Processes[0].End = true, nil }, Proved, ""},
		{"it became another program, which the probe recorded", proven, func(e *Evidence) {
			e.Watch.Kept, e.Processes[0].End = true, nil
			e.Processes = append(e.Processes, e.Processes[0])
			e.Processes[1].ExeInode++
			e.Processes[1].Self, e.Processes[1].Kernels = false, nil
		}, Unproved, "became another program (exec)"},
		{"nothing of its end is known, but that it exited in an orderly way", proven, func(e *Evidence) { e.Watch.Kept = false }, Proved, ""},
		{"nothing was launched", silent, func(*Evidence) {}, NotUsed, "in this program and its children"},
		{"another kernel", other, func(*Evidence) {}, OtherKernels, ""},
		{"no evidence at all", func() Evidence { return Evidence{} }, func(*Evidence) {}, Unproved, "not run"},

		{"the control was not run", proven, func(e *Evidence) { e.Control = Control{} }, Unproved, "no positive control"},
		{"the control was not recorded", proven, func(e *Evidence) { e.Control.Outcome = ControlUnrecorded }, Unproved, "was not recorded"},
		{"the control failed", proven, func(e *Evidence) { e.Control.Outcome = ControlFailed }, Unproved, "control failed"},
		{"the control could not run", silent, func(e *Evidence) { e.Control.Outcome = ControlCannotRun }, Unproved, "control failed"},
		{"the control's driver is a stand-in", proven, func(e *Evidence) { e.Control.Real, e.Control.RealNote = false, "this driver is a stand-in: /x" }, Unproved, "stand-in: /x"},
		{"the program's driver is a stand-in", proven, func(e *Evidence) {
			e.Processes[0].Real, e.Processes[0].RealNote = false, "this driver is a stand-in: /y"
		}, Unproved, "stand-in: /y"},
		{"a child's driver is a stand-in", proven, func(e *Evidence) {
			c := e.Processes[0]
			c.Self, c.Real, c.Pid = false, false, 8
			e.Processes = append(e.Processes, c)
		}, Unproved, "stand-in"},
		{"the control finds no device, yet kernels were recorded", proven, func(e *Evidence) { e.Control.Outcome = ControlNoDevice }, Unproved, "conflict"},
		{"no device", silent, func(e *Evidence) { e.Control.Outcome = ControlNoDevice }, NoDevice, "no GPU"},
		{"no device, and the program failed", silent, func(e *Evidence) { e.Control.Outcome, e.Exit.Code = ControlNoDevice, 1 }, NoDevice, "no GPU"},
		{"no driver", silent, func(e *Evidence) { e.Control.Outcome = ControlNoLibrary }, NoDevice, "no CUDA driver"},
		{"a driver that only the program finds", idle, func(e *Evidence) { e.Control.Outcome = ControlNoLibrary }, Unproved, "conflict: a driver was opened"},
		{"hidden", silent, func(e *Evidence) { e.Control.Outcome, e.Hidden = ControlNoDevice, "CUDA_VISIBLE_DEVICES=" }, NoDevice, "hidden"},

		{"status 1", proven, func(e *Evidence) { e.Exit.Code = 1 }, Unproved, "status 1, expected was 0"},
		{"a signal", proven, func(e *Evidence) { e.Exit.Signal = "SIGSEGV" }, Unproved, "SIGSEGV"},
		{"a timeout", proven, func(e *Evidence) { e.Exit = Exit{Code: 143, Signal: "SIGTERM", TimedOut: true} }, Unproved, "before it was done"},
		{"a timeout, at which it ends as expected", proven, func(e *Evidence) { e.Exit.TimedOut = true }, Proved, ""},
		{"a timeout, at which it fails", proven, func(e *Evidence) { e.Exit = Exit{Code: 3, TimedOut: true} }, Unproved, "before it was done"},
		{"a timeout of one that used no GPU", idle, func(e *Evidence) { e.Exit.TimedOut = true }, Unproved, "before it was done"},
		{"stopped once it was proven", proven, func(e *Evidence) { e.Exit = Exit{Code: 143, Signal: "SIGTERM", Stopped: true} }, Proved, ""},
		{"stopped, and killed after its time", proven, func(e *Evidence) { e.Exit = Exit{Code: 137, Signal: "SIGKILL", Stopped: true} }, Proved, ""},
		{"stopped, and ends with a status of its own", proven, func(e *Evidence) { e.Exit = Exit{Code: 3, Stopped: true} }, Unproved, "and then ended with status 3"},
		{"stopped, and ends as a shell says it", proven, func(e *Evidence) { e.Exit = Exit{Code: 143, Stopped: true} }, Proved, ""},
		{"stopped, with 143 for a timeout", proven, func(e *Evidence) { e.Exit = Exit{Code: 143, TimedOut: true} }, Unproved, "before it was done"},
		{"stopped, and crashes", proven, func(e *Evidence) { e.Exit = Exit{Code: 139, Signal: "SIGSEGV", Stopped: true} }, Unproved, "and then was ended by SIGSEGV"},
		{"stopped, and nothing is proven", idle, func(e *Evidence) { e.Exit.Stopped = true }, Unproved, "was stopped after"},
		{"the file changed", proven, func(e *Evidence) { e.Changed = true }, Unproved, "changed while it ran"},
		{"something speaks against it", proven, func(e *Evidence) { e.Conflicts = []Conflict{{"LD_PRELOAD=/x is set", true}} }, Unproved, "LD_PRELOAD"},
		{"something should be known", proven, func(e *Evidence) { e.Conflicts = []Conflict{{"NSYS_X is set", false}} }, Proved, ""},
		{"somebody else wrote records", proven, func(e *Evidence) { e.BadLines = 1 }, Unproved, "not written by the probe"},
		{"kernels of a process that never recorded", proven, func(e *Evidence) { e.Processes[0].Recording = false }, Unproved, "never began to record"},
		{"no UUID", proven, func(e *Evidence) { e.Processes[0].Devices = nil }, Unproved, "not identified"},
		{"a UUID of zeros", proven, func(e *Evidence) { e.Processes[0].Devices[0].UUID = "GPU-00000000-0000-0000-0000-000000000000" }, Unproved, "not identified"},
		{"kernels of a fork", other, func(e *Evidence) {
			f := e.Processes[0]
			f.Pid, f.Forked, f.End, f.Self = 8, true, nil, true
			e.Processes = append(e.Processes, f)
		}, Unproved, "process 8, a fork"},
		{"another executable", proven, func(e *Evidence) { e.Processes[0].Self = false }, Unproved, "became another program (exec)"},
		{"a forked process", proven, func(e *Evidence) { e.Processes[0].Forked = true }, Unproved, ""},
		{"the end is missing", proven, func(e *Evidence) { e.Processes[0].End = nil }, Proved, ""},
		{"records were dropped", proven, func(e *Evidence) { e.Processes[0].Dropped = 5 }, Proved, ""},

		{"other, and the end is missing", other, func(e *Evidence) { e.Processes[0].End = nil }, Unproved, "orderly"},
		{"other, and records were dropped", other, func(e *Evidence) { e.Processes[0].Dropped = 5 }, Unproved, "dropped 5"},
		{"other, and dropped is told at the end", other, func(e *Evidence) { e.Processes[0].End.Dropped = 5 }, Unproved, "dropped 5"},
		{"other, and one did not finish", other, func(e *Evidence) { e.Processes[0].End.Unfinished = 1 }, Unproved, "end was not recorded"},
		{"other, and the flush failed", other, func(e *Evidence) { e.Processes[0].End.Flush = 999 }, Unproved, "flush"},
		{"other, and writes were lost", other, func(e *Evidence) { e.Processes[0].End.LostWrites = 1 }, Unproved, "could not write"},
		{"other, and fewer lines than kernels", other, func(e *Evidence) { e.Processes[0].End.Kernels = 9 }, Unproved, "could not write"},
		{"other, and launches without records", other, func(e *Evidence) { e.Processes[0].End.Accepted = 9 }, Unproved, "of 9 launches that the driver accepted"},
		{"other, and a file is cut", other, func(e *Evidence) { e.CutFiles = 1 }, Unproved, "not whole"},
		{"other, and names were left out", other, func(e *Evidence) { e.Truncated = true }, Unproved, "not whole"},
		{"other, and a buffer was bad", other, func(e *Evidence) { e.Processes[0].BadBuffers = 1 }, Unproved, "could not read"},

		{"other, and records could not be written", other, func(e *Evidence) { e.LostFiles = 1 }, Unproved, "could not write its records"},
		{"other, and a second of it lost the variable", other, func(e *Evidence) {
			e.Watch.Seen = append(e.Watch.Seen, Seen{Pid: 8, Exe: "/x/app", NoInjection: true})
		}, Unproved, "process 8 (/x/app) has lost the variable"},
		{"other, and something that may be it may not be looked into", other, func(e *Evidence) {
			e.Watch.Seen = append(e.Watch.Seen, Seen{Pid: 8, Closed: true})
		}, Unproved, "process 8 may not be looked into"},
		{"other, and a child that does not count lost the variable", other, func(e *Evidence) {
			e.Watch.Seen = append(e.Watch.Seen, Seen{Pid: 8, Exe: "/bin/sh", NoInjection: true})
		}, OtherKernels, ""},

		{"a device was opened, and a child was seen", idle, func(e *Evidence) { e.Watch.Seen = append(e.Watch.Seen, Seen{Pid: 8}) }, Unproved, "other processes"},
		{"a device was opened, and a child was waited for", idle, func(e *Evidence) { e.Watch.Children = true }, Unproved, "other processes"},
		{"silent, and a child was left", silent, func(e *Evidence) { e.Watch.Left = true }, Unproved, "left a running process"},
		{"a device was opened, and an orphan ended", idle, func(e *Evidence) { e.Watch.Orphans = 1 }, Unproved, "other processes"},
		{"a device was opened, and children were ignored", idle, func(e *Evidence) { e.Watch.Ignored = true }, Unproved, "other processes"},
		{"silent, and nobody watched", silent, func(e *Evidence) { e.Watch = Watch{} }, Unproved, "could not be watched"},
		{"a heartbeat, a driver, no launch", proven, func(e *Evidence) {
			e.Processes[0].Kernels, e.Processes[0].End = nil, &probe.End{}
		}, NotUsed, "in this program and its children"},
		{"a heartbeat, no launch, and a fork", proven, func(e *Evidence) {
			e.Processes[0].Kernels, e.Processes[0].End = nil, &probe.End{Forks: 1}
		}, Unproved, "other processes"},
		{"a heartbeat, no launch, and its children vanish", proven, func(e *Evidence) {
			e.Processes[0].Kernels, e.Processes[0].End = nil, &probe.End{Ignores: true}
		}, Unproved, "it started other processes"},
		{"a heartbeat, no launch, and the end is missing", proven, func(e *Evidence) { e.Processes[0].Kernels, e.Processes[0].End = nil, nil }, Unproved, "orderly"},
		{"a heartbeat, no launch recorded, but one accepted", proven, func(e *Evidence) {
			e.Processes[0].Kernels, e.Processes[0].End = nil, &probe.End{Accepted: 1}
		}, Unproved, "accepted"},
		{"a heartbeat, no launch, and launches are not counted", proven, func(e *Evidence) {
			e.Processes[0].Kernels, e.Processes[0].End, e.Processes[0].Callbacks = nil, &probe.End{}, 39
		}, Unproved, "could not be counted"},
		{"a heartbeat, and CUPTI refused", proven, func(e *Evidence) {
			e.Processes[0].Process = probe.Process{Identity: probe.Identity{Pid: 7, Started: 99}, Unavailable: &probe.Unavailable{Step: "enable", RC: 35}}
		}, Unproved, "enable: CUPTI answered 35"},
		{"silent, and somebody opened a device", silent, func(e *Evidence) { e.Watch.Nodes = []string{"/dev/nvidiactl"} }, Unproved, "/dev/nvidiactl was opened while it ran, but the probe never started"},
		{"silent, and devices could not be watched", silent, func(e *Evidence) { e.Watch.Watched = -1 }, Unproved, "is not known"},
		{"silent, and even the control's opening of it was not seen", silent, func(e *Evidence) { e.Control.Nodes = nil }, Unproved, "even the control's opening of it was not seen"},
		{"silent, and another API was used", silent, func(e *Evidence) { e.Watch.Nodes = []string{"/dev/dri/renderD128"} }, Unproved, "/dev/dri/renderD128 was opened while it ran: by another API"},
		{"a device was opened, and another API was used, too", idle, func(e *Evidence) { e.Watch.Nodes = append(e.Watch.Nodes, "/dev/dri/renderD128") }, Unproved, "by another API"},
		{"silent, and there were children of whatever kind", silent, func(e *Evidence) {
			e.Watch.Children, e.Watch.Ignored, e.Watch.Orphans = true, true, 3
			e.Watch.Seen = append(e.Watch.Seen, Seen{Pid: 8, NoInjection: true})
		}, NotUsed, "no GPU use was seen in this program and its children"},
		{"a device was opened, by a process with two drivers", idle, func(e *Evidence) {
			e.Processes[0].Process.Drivers = []string{"/a/libcuda.so.1", "/b/libcuda.so.1"}
		}, Unproved, "more than one driver loaded: /a/libcuda.so.1, /b/libcuda.so.1"},
		{"a device was opened, by WSL2's pair of drivers", idle, func(e *Evidence) {
			e.Processes[0].Process.Drivers = []string{"/usr/lib/wsl/lib/libcuda.so.1", "/usr/lib/wsl/drivers/nv/libcuda.so.1.1"}
		}, NotUsed, ""},

		{"its kernel failed", proven, func(e *Evidence) {
			e.Processes[0].Refused = []probe.Refusal{{RC: 700, Function: "cuStreamSynchronize", Kind: probe.Waits, Context: 1, Correlation: 6}}
		}, Unproved, "cuStreamSynchronize answered CUDA error 700"},
		{"a wait behind it says that the handle has ended, and the last that went well was before it", proven, func(e *Evidence) {
			e.Processes[0].Waits[0].Correlation = 3
			e.Processes[0].Refused = []probe.Refusal{{RC: 400, Function: "cuStreamSynchronize", Kind: probe.Waits, Context: 1, Correlation: 6}}
		}, Unproved, "error 400"},
		{"a wait says that the handle has ended, and only one after that went well", proven, func(e *Evidence) {
			e.Processes[0].Refused = []probe.Refusal{{RC: 400, Function: "cuStreamSynchronize", Kind: probe.Waits, Context: 1, Correlation: 6}}
		}, Unproved, "error 400"},
		{"a wait says that the handle has ended, and one of the kernel's went well before", proven, func(e *Evidence) {
			e.Processes[0].Refused = []probe.Refusal{{RC: 400, Function: "cuStreamSynchronize", Kind: probe.Waits, Context: 1, Correlation: 8,
				Before: []probe.Wait{{Context: 1, Correlation: 6}}}}
		}, Proved, ""},
		{"a copy has no context, and another stream's wait went well before", proven, func(e *Evidence) {
			e.Processes[0].Refused = []probe.Refusal{{RC: 201, Function: "cuMemcpyDtoH_v2", Kind: probe.Copies, Correlation: 8,
				Before: []probe.Wait{{Context: 1, Stream: new(uint32(7)), Correlation: 6}}}}
		}, Unproved, "error 201"},
		{"a child of it failed", fork(1), func(*Evidence) {}, Unproved, "process 8 (/x/app), which launched it, ended with status 1"},
		{"a child of it ended well, behind a launcher", fork(0), func(*Evidence) {}, Proved, ""},
		{"a child of it ended well", fork(0), func(e *Evidence) { e.Launcher = false }, Unproved, "how that process ended is not known"},
		{"a child's exit handlers did not come to their end", fork(0), func(e *Evidence) { e.Processes[0].End.Exited = false }, Unproved, "did not end in an orderly way"},
		{"a launch was refused after it", proven, func(e *Evidence) {
			e.Processes[0].Refused = []probe.Refusal{{RC: 2, Function: "cuMemAlloc_v2", Kind: probe.Memory, Correlation: 6}}
		}, Unproved, "cuMemAlloc_v2 answered CUDA error 2"},
		{"a launch was refused before it", proven, func(e *Evidence) {
			e.Processes[0].Refused = []probe.Refusal{{RC: 2, Function: "cuMemAlloc_v2", Kind: probe.Memory, Correlation: 4}}
		}, Proved, ""},
		{"device code was refused after it", proven, func(e *Evidence) {
			e.Processes[0].Refused = []probe.Refusal{{RC: 209, Function: "cuModuleLoadData", Kind: probe.Code, Correlation: 6}}
		}, Unproved, "cuModuleLoadData answered CUDA error 209"},
		{"a process of the same number and start in another namespace failed", fork(3), func(e *Evidence) {
			e.Processes[0].Pid, e.Processes[0].Namespace, e.Watch.Namespace = 7, 4026532000, 4026531836
		}, Unproved, "which launched it, ended with status 3"},
		{"the heartbeat is that of a process in another namespace", proven, func(e *Evidence) {
			e.Processes[0].Kernels, e.Processes[0].End, e.Processes[0].Namespace = nil, &probe.End{}, 4026532000
		}, Unproved, "probe never started"},
		{"more records than are read, and a kernel that matches", proven, func(e *Evidence) { e.Truncated = true }, Unproved, "at most 4,096 processes"},
		{"a child that still ran, and nobody stopped the program", fork(0), func(e *Evidence) {
			e.Processes[0].Running, e.Processes[0].End = true, nil
		}, Unproved, "did not end in an orderly way"},
		{"a child of another PID namespace", fork(0), func(e *Evidence) {
			e.Processes[0].Tree, e.Processes[0].Namespace = false, e.Watch.Namespace+1
		}, Unproved, "in another PID namespace"},
		{"a child in another time namespace", fork(0), func(e *Evidence) {
			e.Watch.Watcher = [2]uint64{6, 100}
			e.Processes[0].Tree, e.Processes[0].Ancestors = false, [][2]uint64{{6, 900}}
		}, Unproved, "in another time namespace"},
		{"a child that somebody else started", fork(0), func(e *Evidence) { e.Processes[0].Tree = false }, Unproved, "which neither the program nor"},
		{"after an exec of itself the driver refused a copy", proven, func(e *Evidence) {
			second := e.Processes[0]
			second.Kernels, second.Refused = nil, []probe.Refusal{{RC: 1, Kind: probe.Copies, Function: "cuMemcpyDtoH_v2"}}
			e.Processes[0].End, e.Watch.Kept = nil, true
			e.Processes = append(e.Processes, second)
		}, Unproved, "became another program (exec)"},
		{"a CUPTI that it brought, and it ended by _exit", proven, func(e *Evidence) {
			e.Processes[0].ByRecords, e.Processes[0].End, e.Watch.Kept = true, nil, true
		}, Unproved, "what the driver answered last"},
		{"a CUPTI that it brought, and that it took for itself", proven, func(e *Evidence) {
			e.Processes[0].ByRecords, e.Processes[0].End.Flush = true, multipleSubscribers
		}, Unproved, "took the records for itself"},
		{"nothing waited for it", proven, func(e *Evidence) { e.Processes[0].Kernels[0].Waited = 0 }, Unproved, "nothing waited for them"},
		{"launched at the end", idle, func(e *Evidence) { e.Processes[0].Late = true }, Unproved, "while it ended"},
		{"a second driver", idle, func(e *Evidence) { e.Processes[0].Another = "/x/libcuda.so.1" }, Unproved, "a second driver"},
		{"another API", idle, func(e *Evidence) { e.Processes[0].APIs = []string{"/x/libvulkan.so.1"} }, Unproved, "another API"},
		{"one launch more is written down than the probe counted", proven, func(e *Evidence) {
			e.Processes[0].End.Written = e.Processes[0].End.Kernels + 1
		}, Unproved, "more launches are written down"},
		{"a child with another root", silent, func(e *Evidence) {
			e.Watch.Seen = append(e.Watch.Seen, Seen{Pid: 8, Exe: "/x/child", OwnRoot: true})
		}, Unproved, "process 8 (/x/child) had a root or mounts of its own"},
		{"another root", silent, func(e *Evidence) { e.Watch.Seen[0].OwnRoot = true }, Unproved, "a root or mounts of its own"},
		{"the records are gone", silent, func(e *Evidence) { e.Removed = "no such directory" }, Unproved, "no such directory"},
		{"a child of it ended as it was to", fork(3), func(e *Evidence) { e.Exit.Code = 3 }, Unproved, "ended with status 3, expected was 0"},
		{"a child of it ended in no orderly way", fork(0), func(e *Evidence) { e.Processes[0].End = nil }, Unproved, "did not end in an orderly way"},
		{"how a child of it ended is not known", fork(0), func(e *Evidence) { e.Processes[0].End.Status = nil }, Unproved, "failed is not known"},
		{"a kernel faulted: CUPTI has no times of it", other, func(e *Evidence) {
			e.Processes[0].End.Untimed, e.Processes[0].End.Accepted = 2, 5
			e.Processes[0].Refused = []probe.Refusal{{RC: 700, Kind: probe.Waits, Function: "cuCtxSynchronize"}}
		}, Unproved, "the kernel failed: cuCtxSynchronize answered CUDA error 700"},
		{"CUPTI could not collect the times", other, func(e *Evidence) { e.Processes[0].End.Untimed, e.Processes[0].End.Accepted = 2, 5 }, Unproved, "of 2 launches CUPTI could not collect the times"},
		{"opened, with a heartbeat", proven, func(e *Evidence) {
			e.Processes[0].Kernels, e.Processes[0].End, e.Watch.Nodes = nil, &probe.End{}, []string{"/dev/nvidia0", "/dev/nvidiactl"}
		}, NotUsed, ""},
		{"silent, and the control was not run again", silent, func(e *Evidence) { e.After = nil }, Unproved, "once more"},
		{"silent, and the control failed afterwards", silent, func(e *Evidence) { e.After = &Control{Outcome: ControlNoDevice, Real: true} }, Unproved, "after the program had run: no device"},
		{"silent, and the driver afterwards is a stand-in", silent, func(e *Evidence) { e.After.Real = false }, Unproved, "stand-in"},
		{"other, and the control failed afterwards", other, func(e *Evidence) { e.After.Outcome = ControlUnrecorded }, Unproved, "after the program had run: unrecorded"},
		{"another process of the same number had the heartbeat", proven, func(e *Evidence) {
			e.Processes[0].Kernels, e.Processes[0].End, e.Processes[0].Started = nil, &probe.End{}, 98
		}, Unproved, "other processes"},
	}
	windows := func(from func() Evidence) func() Evidence { // what the watcher cannot tell there
		return func() Evidence {
			e := from()
			e.OS, e.Watch.Watched, e.Watch.Nodes, e.Control.Nodes = "windows", -1, nil, nil
			return e
		}
	}
	tests = append(tests, []struct {
		story string
		from  func() Evidence
		spoil func(*Evidence)
		want  Kind
		why   string
	}{
		{"Windows, everything fits", windows(proven), func(*Evidence) {}, Proved, ""},
		{"Windows, nothing came of it", windows(silent), func(*Evidence) {}, Unproved, "is not known"},
		{"Windows, the driver was loaded and the probe was not", windows(silent), func(e *Evidence) { e.Watch.Seen = []Seen{{Pid: 7, Root: true, Driver: `C:\nvcuda.dll`}} }, Unproved, "had loaded the driver"},
		{"Windows, a child that lost the variable", windows(silent), func(e *Evidence) { e.Watch.Seen = []Seen{{Pid: 8, NoInjection: true}} }, Unproved, "whether a GPU was opened"},
		{"Windows, a child that may not be looked into", windows(silent), func(e *Evidence) { e.Watch.Seen = []Seen{{Pid: 8, Closed: true}} }, Unproved, "whether a GPU was opened"},
		{"Windows, a heartbeat and no launch", windows(proven), func(e *Evidence) { e.Processes[0].Kernels, e.Processes[0].End = nil, &probe.End{} }, NotUsed, "in this program and its children"},
		{"Windows, a heartbeat, no launch and no end", windows(proven), func(e *Evidence) { e.Processes[0].Kernels, e.Processes[0].End = nil, nil }, Unproved, "TerminateProcess"},
		{"Windows, an access violation", windows(proven), func(e *Evidence) { e.Exit.Code = 0xC0000005 }, Unproved, "was ended by Windows (0xC0000005)"},
	}...)
	for _, tt := range tests {
		t.Run(tt.story, func(t *testing.T) {
			e := tt.from()
			e.After = &Control{Outcome: ControlRecorded, Real: true}
			tt.spoil(&e)
			v := Judge(e, rules)
			if v.Kind != tt.want || !strings.Contains(v.Why, tt.why) {
				t.Errorf("got %s: %s\nwant %s: %s", v.Kind, v.Why, tt.want, tt.why)
			}
			if len(v.Lines) > 6 || len(v.Lines) == 0 {
				t.Errorf("lines: %q", v.Lines)
			}
			// A stored evidence is judged the same.
			data := hosttest.Must(json.Marshal(e))(t)
			var again Evidence
			hosttest.OK(t, json.Unmarshal(data, &again))
			if w := Judge(again, rules); fmt.Sprint(w) != fmt.Sprint(v) {
				t.Errorf("stored: %+v\nfresh: %+v", w, v)
			}
		})
	}
}

func TestRulesBesideTheName(t *testing.T) {
	second := func(e *Evidence) { // the product ran on the second of two devices, something else on the first
		p := &e.Processes[0]
		p.Devices = append(p.Devices, probe.Device{Ordinal: 1, UUID: "GPU-99999999-2222-3333-4444-555555555555", Name: "A10"})
		p.Kernels[0].Device = 1
		p.Kernels = append(p.Kernels, probe.Kernel{Name: "fill", Count: 1, Total: 5})
	}
	inChild := func(e *Evidence) {
		e.Processes[0].Self, e.Processes[0].Tree, e.Processes[0].Exe, e.Processes[0].Pid = false, true, "/venv/bin/python3.11", 8
		e.Processes[0].End.Status, e.Processes[0].End.Exited = new(int), true
	}
	for _, tt := range []struct {
		story string
		spoil func(*Evidence)
		rules Rules
		want  Kind
		why   string
	}{
		{"its device by UUID", nil, Rules{Device: uuid}, Proved, ""},
		{"its device by UUID in other letters", nil, Rules{Device: strings.ToUpper(uuid)}, Proved, ""},
		{"its device by the beginning of the UUID", nil, Rules{Device: uuid[:12]}, Proved, ""},
		{"its slice of a device, as nvidia-smi writes it", nil, Rules{Device: "MIG-" + uuid[4:]}, Proved, ""},
		{"another slice", nil, Rules{Device: "MIG-99999999" + uuid[12:]}, OtherKernels, "not on device MIG-9"},
		{"too short a beginning", nil, Rules{Device: uuid[:11]}, OtherKernels, "H200, " + uuid},
		{"its device by number", nil, Rules{Device: "0"}, Proved, ""},
		{"another number", nil, Rules{Device: "1"}, OtherKernels, "not on device 1"},
		{"another UUID", nil, Rules{Device: "GPU-99999999-2222-3333-4444-555555555555"}, OtherKernels, "not on device GPU-9"},
		{"wrong device of two", second, Rules{Device: "0"}, OtherKernels, "A10, GPU-99999999-2222-3333-4444-555555555555 (number 1), not on device 0"},
		{"right device of two", second, Rules{Device: "1"}, Proved, ""},
		{"wrong device of two, by UUID", second, Rules{Device: uuid}, OtherKernels, "A10"},
		{"a child that was asked for lost the variable", func(e *Evidence) {
			e.Processes[0].Kernels[0].Name = "fill"
			e.Watch.Seen = append(e.Watch.Seen, Seen{Pid: 8, Exe: "/venv/bin/python3.11", NoInjection: true})
		}, Rules{Child: "python*"}, Unproved, "process 8 (/venv/bin/python3.11) has lost the variable"},
		{"a child that was asked for computed, and another one of its name lost the variable", func(e *Evidence) {
			inChild(e)
			e.Watch.Seen = append(e.Watch.Seen, Seen{Pid: 8, Exe: "/venv/bin/python3.11", NoInjection: true})
		}, Rules{Child: "python*"}, Unproved, "process 8 (/venv/bin/python3.11) has lost the variable"},
		{"a child that was asked for, by name", inChild, Rules{Child: "python*"}, Proved, ""},
		{"a child that was asked for, by path", inChild, Rules{Child: "/venv/bin/*"}, Proved, ""},
		{"a child that was asked for, by the end of its path", inChild, Rules{Child: "*/bin/python*"}, Proved, ""},
		{"a child of that name elsewhere", inChild, Rules{Child: "lib/python*"}, Unproved, "not by the binary itself"},
		{"another child", inChild, Rules{Child: "ruby*"}, Unproved, "not by the binary itself"},
		{"a glob that is none", inChild, Rules{Child: "[python"}, Unproved, "not by the binary itself"},
		{"a child on Windows, by name", func(e *Evidence) { inChild(e); e.Processes[0].Exe = `C:\venv\Scripts\Python3.11.exe` }, Rules{Child: "python*"}, Proved, ""},
		{"a child on Windows, by path", func(e *Evidence) { inChild(e); e.Processes[0].Exe = `C:\venv\Scripts\python3.11.exe` }, Rules{Child: `c:\venv\Scripts\*`}, Proved, ""},
		{"another child on Windows", func(e *Evidence) { inChild(e); e.Processes[0].Exe = `C:\venv\Scripts\python3.11.exe` }, Rules{Child: `ruby*`}, Unproved, "not by the binary itself"},
		{"a child without its name", func(e *Evidence) { inChild(e); e.Processes[0].Exe = "" }, Rules{Child: "*"}, Unproved, "not by the binary itself"},
	} {
		t.Run(tt.story, func(t *testing.T) {
			e := proven()
			e.After = &Control{Outcome: ControlRecorded, Real: true}
			if tt.spoil != nil {
				tt.spoil(&e)
			}
			v := Judge(e, tt.rules)
			if v.Kind != tt.want || !strings.Contains(v.Why, tt.why) {
				t.Errorf("got %s: %s, want %s: %s\n%s", v.Kind, v.Why, tt.want, tt.why, strings.Join(v.Lines, "\n"))
			}
			if v.Kind == Proved && tt.rules.Child != "" && !strings.Contains(strings.ToLower(strings.Join(v.Notes, "\n")), "python3.11") {
				t.Errorf("the child that counts is not told: %q", v.Notes)
			}
			if v.Kind == Proved && !strings.Contains(v.Lines[0], "matmul") {
				t.Errorf("the kernel is not named: %q", v.Lines)
			}
		})
	}
}

func TestLinesOfAProof(t *testing.T) {
	got := strings.Join(Judge(proven(), Rules{}).Lines, "\n")
	want := `ran: 3 launches of matmul, 3µs on the device
where: H200 (` + uuid + `, capability 9.0), driver 580.65.06
looked for: any matrix product
self-test of the recorder: gpubuild's own kernel ran and was recorded`
	hosttest.Equal(t, got, want)
}

func TestKindText(t *testing.T) {
	var zero Verdict
	if zero.Kind != Unproved || zero.Kind.String() != "unproved" {
		t.Error(zero.Kind)
	}
	for _, k := range []Kind{Unproved, Proved, NotUsed, OtherKernels, NoDevice} {
		text, _ := k.MarshalText()
		var back Kind
		if err := back.UnmarshalText(text); err != nil || back != k {
			t.Errorf("%s: %s, %v", k, back, err)
		}
	}
	k := Proved
	if err := k.UnmarshalText([]byte("perhaps")); err == nil || k != Unproved {
		t.Errorf("%v %v", k, err)
	}
}

// TestWhatTheDriverAnswersAfterAKernel: any answer but success of a wait or a copy in the kernel's context speaks against it, except those that are listed.
func TestWhatTheDriverAnswersAfterAKernel(t *testing.T) {
	const kernel = 5 // the correlation of the last that matches
	answer := func(kind probe.CallKind, rc int, context uint32, correlation uint64) probe.Refusal {
		return probe.Refusal{RC: rc, Function: "cuCall", Kind: kind, Context: context, Correlation: correlation}
	}
	early := func(kind probe.CallKind, rc int, context uint32, correlation uint64) probe.Refusal {
		r := answer(kind, rc, context, correlation)
		r.Early = true
		return r
	}
	for _, tt := range []struct {
		story string
		probe.Refusal
		waited bool // its context, after the kernel
		want   bool // it speaks against the kernel
	}{
		{"a wait after it", answer(probe.Waits, 1, 1, 6), true, true},
		{"a wait before it", answer(probe.Waits, 1, 1, 4), true, false},
		{"a wait of its own number", answer(probe.Waits, 1, 1, kernel), true, false},
		{"a wait that no list has", answer(probe.Waits, 12345, 1, 6), true, true},
		{"a wait in another context", answer(probe.Waits, 1, 2, 6), true, false},
		{"a wait in no context", answer(probe.Waits, 1, 0, 6), true, true},
		{"a copy after it", answer(probe.Copies, 1, 1, 6), true, true},
		{"a copy before it", answer(probe.Copies, 1, 1, 4), true, false},
		{"a copy in another context", answer(probe.Copies, 1, 2, 6), true, false},
		{"a copy, as the server is gone", answer(probe.Copies, 810, 1, 6), true, true},
		{"a wait, as a device is gone", answer(probe.Waits, 911, 1, 6), true, true},
		{"not yet", probe.Refusal{RC: 600, Function: "cuStreamQuery", Kind: probe.Waits, Context: 1, Correlation: 6}, true, false},
		{"not yet, of what is no query", answer(probe.Waits, 600, 1, 6), true, true},
		{"not yet, of a copy", answer(probe.Copies, 600, 1, 6), true, true},
		{"a copy of what is captured", answer(probe.Copies, 900, 1, 6), true, true},
		{"a launch into what is captured", answer(probe.Launches, 901, 1, 6), true, true},
		{"a stream that is captured, first", answer(probe.Waits, 900, 1, 6), true, false},
		{"a stream that is captured, last", answer(probe.Waits, 907, 1, 6), true, false},
		{"behind that", answer(probe.Waits, 908, 1, 6), true, true},
		{"before that", answer(probe.Waits, 899, 1, 6), true, true},
		{"the driver has ended, after a wait", answer(probe.Waits, 4, 1, 9), true, false},
		{"the driver has ended, without one", answer(probe.Waits, 4, 1, 9), false, true},
		{"the context is gone, after a wait", answer(probe.Waits, 709, 1, 9), true, false},
		{"the context is gone, without one", answer(probe.Waits, 709, 1, 9), false, true},
		{"no context, after a wait", answer(probe.Copies, 201, 0, 9), true, false},
		{"no context, without one", answer(probe.Copies, 201, 0, 9), false, true},
		{"the handle is gone, after a wait", answer(probe.Waits, 400, 1, 9), true, false},
		{"the handle is gone, without one", answer(probe.Waits, 400, 1, 9), false, true},
		{"a lost context", answer(probe.Waits, 700, 1, 6), true, true},
		{"a lost context, seen by an allocation", answer(probe.Memory, 700, 1, 6), true, true},
		{"another context was lost", answer(probe.Waits, 719, 2, 6), true, true},
		{"one was lost before", answer(probe.Waits, 719, 1, 4), true, true},
		{"one was lost before all launches", early(probe.Waits, 719, 1, 4), true, false},
		{"a copy after a launch that CUPTI did not report", early(probe.Copies, 1, 1, 6), true, true},
		{"a copy before all launches", early(probe.Copies, 1, 1, 4), true, false},
		{"seen by another call", answer("other", 999, 1, 6), true, true},
		{"another call is refused", answer("other", 1, 1, 6), true, false},
		{"a launch after it", answer(probe.Launches, 701, 1, 6), true, true},
		{"a launch after it, in another context", answer(probe.Launches, 1, 2, 6), true, true},
		{"a launch before it", answer(probe.Launches, 701, 1, 4), true, false},
		{"a launch, as the context is gone", answer(probe.Launches, 709, 1, 9), true, true},
		{"no memory after it", answer(probe.Memory, 2, 1, 6), true, true},
		{"no memory before it", answer(probe.Memory, 2, 1, 4), true, false},
		{"no such size", answer(probe.Memory, 1, 1, 6), true, false},
		{"code for another device after it", answer(probe.Code, 209, 1, 6), true, true},
		{"code for another device before it", answer(probe.Code, 209, 1, 4), true, false},
		{"a file of code that is not there", answer(probe.Code, 301, 1, 6), true, true},
		{"code without a context", answer(probe.Code, 201, 0, 6), true, true},
		{"code, as the driver has ended", answer(probe.Code, 4, 0, 6), true, false},
		{"an upload after it", answer(probe.Uploads, 1, 1, 6), true, true},
		{"an upload in another context", answer(probe.Uploads, 1, 2, 6), true, false},
		{"a memset, as the context is gone", answer(probe.Uploads, 201, 0, 9), true, false},
		{"no pinned memory", answer(probe.Pinned, 2, 1, 6), true, false},
		{"the probe's own wait shows that it failed", answer(probe.Settling, 700, 1, 9), true, true},
		{"the probe's own wait is refused with an error", answer(probe.Settling, 1, 1, 9), true, true},
		{"the probe's own wait comes too late", answer(probe.Settling, 4, 1, 9), false, false},
		{"the device is lost, in Vulkan", answer(probe.Lost, -4, 0, 6), true, true},
		{"a submission is refused, in Vulkan", answer("", -2, 0, 6), true, true},
	} {
		t.Run(tt.story, func(t *testing.T) {
			e := proven()
			p := &e.Processes[0]
			tt.Before = []probe.Wait{{Context: 1, Correlation: kernel}}
			if tt.waited {
				tt.Before[0].Correlation++
			}
			p.Refused = []probe.Refusal{tt.Refusal}
			if tt.Context == 0 && tt.RC < 0 {
				p.Kernels[0].Context, p.Waits[0].Context = 0, 0
			}
			v := Judge(e, Rules{})
			if want := map[bool]Kind{true: Unproved, false: Proved}[tt.want]; v.Kind != want {
				t.Errorf("%s: %s, want %s", v.Kind, v.Why, want)
			}
		})
	}
}

// TestWaits: only launches that a wait for their context came after count.
func TestWaits(t *testing.T) {
	e := proven()
	e.Processes[0].Kernels[0].Waited = 2
	if v := Judge(e, Rules{}); v.Kind != Proved || v.Launches != 2 || !strings.Contains(strings.Join(v.Notes, "\n"), "1 launch more") {
		t.Errorf("%s %d %q", v.Kind, v.Launches, v.Notes)
	}
	e.Processes[0].Waits[0].Probe = false
	if v := Judge(e, Rules{}); v.Kind != Proved || !strings.HasSuffix(v.Lines[0], "waited for by its own cuCtxSynchronize") {
		t.Errorf("which wait it was is not said: %s %q", v.Kind, v.Lines)
	}
}

// TestReconsider: a driver counts as real if it did then and still does; what else was loaded was seen then.
func TestReconsider(t *testing.T) {
	t.Parallel()
	for story, tt := range map[string]struct{ then, now, want bool }{
		"it was real": {true, true, true}, "it is no more": {true, false, false}, "it never was": {false, true, false},
	} {
		e := idle()
		e.After = &Control{Real: tt.then}
		e.Control.Real, e.Processes[0].Real = tt.then, tt.then
		e.Control.Loaded.Drivers, e.Processes[0].Loaded.Drivers = []string{"/x"}, []string{"/x"}
		e = Reconsider(e, func(l Loaded) (bool, string) { return tt.now && l.Drivers == nil, "" })
		if e.Control.Real != tt.want || e.After.Real != tt.want || e.Processes[0].Real != tt.want {
			t.Errorf("%s: %v, %v, %v", story, e.Control.Real, e.After.Real, e.Processes[0].Real)
		}
	}
}

// TestWatchHolds: a process is known by its number and its start together.
func TestWatchHolds(t *testing.T) {
	t.Parallel()
	w := Watch{Pid: 7, Started: 99, Namespace: 1, Watcher: [2]uint64{5, 90}, Seen: []Seen{{Pid: 8, Started: 100}}}
	id := func(pid int, started, namespace uint64, ancestors ...[2]uint64) probe.Process {
		return probe.Process{Identity: probe.Identity{Pid: pid, Started: started, Namespace: namespace, Ancestors: ancestors}}
	}
	for story, tt := range map[string]struct {
		p    probe.Process
		want bool
	}{
		"the program": {id(7, 99, 1), true}, "its number, given again": {id(7, 100, 1), false}, "one that was seen": {id(8, 100, 1), true},
		"of a number that was seen": {id(8, 101, 1), false}, "below the watcher": {id(9, 101, 1, [2]uint64{5, 90}), true},
		"below another": {id(9, 101, 1, [2]uint64{5, 91}), false}, "in another namespace": {id(7, 99, 2), false},
	} {
		hosttest.Equal(t, w.holds(tt.p), tt.want, story)
	}
	if (Watch{}).holds(id(0, 0, 0)) {
		t.Error("without a watcher nothing is known")
	}
}

// TestControlRecord: the control's kernel counts whole only.
func TestControlRecord(t *testing.T) {
	t.Parallel()
	h := buildenv.Host{OS: buildenv.Linux, Files: files{}}
	for why, spoil := range map[string]func(*probe.Process){
		"":                                    func(*probe.Process) {},
		"CUPTI recorded no kernel":            func(p *probe.Process) { p.Kernels[0].End = p.Kernels[0].Start },
		"CUPTI recorded no kernel, but one":   func(p *probe.Process) { p.Kernels[0].Name = "gpubuild_controls" },
		"CUPTI recorded no kernel, but two":   func(p *probe.Process) { p.Kernels[0].Count = 2 },
		"CUPTI recorded no kernel; its flush": func(p *probe.Process) { p.End.Flush = 1 },
		"CUPTI dropped the record":            func(p *probe.Process) { p.Kernels, p.Dropped = nil, 1 },
		"the control's records have no end":   func(p *probe.Process) { p.End = nil },
		"the driver did not load the probe":   func(p *probe.Process) { p.Exe = "/x/other" },
	} {
		p := probe.Process{Identity: probe.Identity{Exe: "/x/control"}, Recording: true, End: &probe.End{},
			Kernels: []probe.Kernel{{Name: "gpubuild_control", Start: 1, End: 2, Count: 1}}}
		spoil(&p)
		ok, said := Options{Probe: probe.Probe{Control: "/x/control"}}.controlRecord(h, probe.Records{Processes: []probe.Process{p}}, &Control{})
		if ok != (why == "") || !strings.HasPrefix(why, said) {
			t.Errorf("%v %q, want %q", ok, said, why)
		}
	}
}

// TestAmbiguousNames: a proof that rests on a name of two meanings alone says so, and one that is named does not.
func TestAmbiguousNames(t *testing.T) {
	for _, tt := range []struct {
		kernels []string
		rules   Rules
		want    bool
	}{
		{[]string{"tile_mm"}, Rules{}, true},
		{[]string{"tile_mm"}, Rules{Kernel: regexp.MustCompile("^tile_mm$")}, false},
		{[]string{"tile_mm", "sgemm"}, Rules{}, false},
		{[]string{"sgemm"}, Rules{}, false},
		{[]string{"gemm_timer"}, Rules{}, true},
	} {
		e := proven()
		kernel := e.Processes[0].Kernels[0]
		e.Processes[0].Kernels = nil
		for _, name := range tt.kernels {
			kernel.Name = name
			e.Processes[0].Kernels = append(e.Processes[0].Kernels, kernel)
		}
		n := uint64(3 * len(tt.kernels))
		e.Processes[0].End.Kernels, e.Processes[0].End.Accepted = n, n
		v := Judge(e, tt.rules)
		if said := strings.Contains(strings.Join(v.Notes, "\n"), "may mean something else"); v.Kind != Proved || said != tt.want {
			t.Errorf("%v: %s: %s, notes %q", tt.kernels, v.Kind, v.Why, v.Notes)
		}
	}
}

// TestMayHaveOpened: that a program ran on the CPU for lack of a GPU is said only where nothing shows a driver or a device.
func TestMayHaveOpened(t *testing.T) {
	t.Parallel()
	for story, tt := range map[string]struct {
		of   func() Evidence
		make func(*Evidence)
		may  bool
	}{
		"nothing was opened":          {silent, func(*Evidence) {}, false},
		"a driver was":                {idle, func(*Evidence) {}, true},
		"a device was":                {silent, func(e *Evidence) { e.Watch.Nodes = []string{"/dev/nvidia0"} }, true},
		"nobody watched its children": {silent, func(e *Evidence) { e.Watch.Complete = false }, true},
		"it left one":                 {silent, func(e *Evidence) { e.Watch.Left = true }, true},
		"one loaded a driver":         {silent, func(e *Evidence) { e.Watch.Seen = []Seen{{Driver: "/opt/libcuda.so.1"}} }, true},
		"that has no device": {silent, func(e *Evidence) {
			e.Control.Outcome, e.Watch.Seen = ControlNoDevice, []Seen{{Driver: "/x/libcuda.so.1"}}
		}, false},
		"a record could not be written":         {silent, func(e *Evidence) { e.LostFiles = 1 }, true},
		"its root is its own":                   {silent, func(e *Evidence) { e.Watch.Seen = []Seen{{OwnRoot: true}} }, true},
		"the records of a process were removed": {silent, func(e *Evidence) { e.Removed = "gone" }, true},
	} {
		e := tt.of()
		e.Control.Outcome = ControlNoLibrary
		tt.make(&e)
		hosttest.Equal(t, e.MayHaveOpened(), tt.may, story)
	}
}
