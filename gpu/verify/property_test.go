package verify

import (
	"encoding/json"
	"math/rand"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gpubuild/buildenv/hosttest"
	"gpubuild/buildenv/hosttest/need"
	"gpubuild/gpu"
	"gpubuild/gpu/probe"
)

// spoilers are what can be otherwise in an evidence, each on its own. Many at once make evidence that nobody thought of.
var spoilers = []func(*rand.Rand, *Evidence, *Rules){
	func(r *rand.Rand, e *Evidence, _ *Rules) {
		e.Control.Outcome = pick(r, ControlMissing, ControlRecorded, ControlRecorded, ControlUnrecorded, ControlNoLibrary, ControlNoDevice, ControlFailed, ControlCannotRun)
	},
	func(r *rand.Rand, e *Evidence, _ *Rules) { e.Control.Real = r.Intn(4) > 0 },
	func(r *rand.Rand, e *Evidence, _ *Rules) {
		e.After = pick(r, nil, &Control{}, &Control{Outcome: ControlRecorded, Real: true}, &Control{Outcome: ControlRecorded}, &Control{Outcome: ControlNoDevice, Real: true})
	},
	func(r *rand.Rand, e *Evidence, _ *Rules) { e.Ran = r.Intn(4) > 0 },
	func(r *rand.Rand, e *Evidence, _ *Rules) { e.Changed = r.Intn(2) == 0 },
	func(r *rand.Rand, e *Evidence, _ *Rules) { e.Exit.Code = r.Intn(3) },
	func(r *rand.Rand, e *Evidence, _ *Rules) { e.Exit.Signal = pick(r, "", "SIGABRT") },
	func(r *rand.Rand, e *Evidence, _ *Rules) { e.Exit.TimedOut = r.Intn(2) == 0 },
	func(r *rand.Rand, e *Evidence, _ *Rules) {
		e.Exit = []Exit{{Stopped: true}, {Code: 143, Signal: "SIGTERM", Stopped: true}, {Code: 139, Signal: "SIGSEGV", Stopped: true}, {Code: 3, TimedOut: true}}[r.Intn(4)]
	},
	func(r *rand.Rand, e *Evidence, _ *Rules) { e.BadLines = r.Intn(2) },
	func(r *rand.Rand, e *Evidence, _ *Rules) { e.CutFiles = r.Intn(2) },
	func(r *rand.Rand, e *Evidence, _ *Rules) { e.Truncated = r.Intn(2) == 0 },
	func(r *rand.Rand, e *Evidence, _ *Rules) {
		e.Conflicts = append(e.Conflicts, Conflict{"something", r.Intn(2) == 0})
	},
	func(r *rand.Rand, e *Evidence, _ *Rules) { e.Watch.Complete = r.Intn(2) == 0 },
	func(r *rand.Rand, e *Evidence, _ *Rules) { e.Watch.Children = r.Intn(2) == 0 },
	func(r *rand.Rand, e *Evidence, _ *Rules) { e.Watch.Ignored = r.Intn(2) == 0 },
	func(r *rand.Rand, e *Evidence, _ *Rules) { e.Watch.Left = r.Intn(2) == 0 },
	func(r *rand.Rand, e *Evidence, _ *Rules) { e.Watch.Orphans = r.Intn(2) },
	func(r *rand.Rand, e *Evidence, _ *Rules) { e.Watch.Watched = r.Intn(3) - 1 },
	func(r *rand.Rand, e *Evidence, _ *Rules) {
		e.Watch.Nodes = pick(r, nil, []string{"/dev/nvidiactl"}, []string{"/dev/dri/renderD128"})
	},
	func(r *rand.Rand, e *Evidence, _ *Rules) { e.Control.Nodes = pick(r, nil, []string{"/dev/nvidiactl"}) },
	each(func(r *rand.Rand, p *Process) {
		p.Refused = pick(r, nil, []probe.Refusal{{RC: 700, Function: "cuCtxSynchronize", Kind: probe.Waits, Context: uint32(r.Intn(3)), Correlation: uint64(r.Intn(9))}})
	}),
	func(r *rand.Rand, e *Evidence, _ *Rules) { e.Watch.Pid = pick(r, 0, 7, 8) },
	func(r *rand.Rand, e *Evidence, _ *Rules) {
		e.Watch.Seen = append(e.Watch.Seen, Seen{Pid: 7 + r.Intn(2), Started: uint64(99 + r.Intn(2)), Exe: pick(r, "", "/x/app", "/bin/python3"),
			NoInjection: r.Intn(2) == 0, Closed: r.Intn(4) == 0, Root: r.Intn(2) == 0})
	},
	func(r *rand.Rand, e *Evidence, _ *Rules) { e.Watch.Seen = nil },
	func(r *rand.Rand, e *Evidence, _ *Rules) { e.Launcher = r.Intn(2) == 0 },
	func(r *rand.Rand, e *Evidence, _ *Rules) { e.Removed = pick(r, "", "no such directory") },
	func(r *rand.Rand, e *Evidence, _ *Rules) {
		for i := range e.Watch.Seen {
			e.Watch.Seen[i].OwnRoot = r.Intn(2) == 0
		}
	},
	each(func(r *rand.Rand, p *Process) {
		p.Refused = append(p.Refused[:len(p.Refused):len(p.Refused)], probe.Refusal{RC: pick(r, 1, 2, 4, 600, 810), Function: "cuX", Correlation: uint64(r.Intn(9)),
			Kind: pick(r, probe.Waits, probe.Copies, probe.Launches, probe.Memory), Context: uint32(r.Intn(3))})
		for i := range p.Kernels {
			p.Kernels[i].Last, p.Kernels[i].Context, p.Kernels[i].Waited = uint64(r.Intn(8)), uint32(1+r.Intn(2)), uint64(r.Intn(3))
		}
	}),
	each(func(r *rand.Rand, p *Process) {
		p.Late, p.Another, p.APIs = r.Intn(2) == 0, pick(r, "", "/x/libcuda.so"), pick(r, nil, []string{"/x/libvulkan.so.1"})
	}),
	func(r *rand.Rand, e *Evidence, _ *Rules) {
		if n := len(e.Processes); n > 0 && r.Intn(2) == 0 {
			p := e.Processes[r.Intn(n)]
			p.Pid, p.Kernels, p.Devices = p.Pid+r.Intn(2), append([]probe.Kernel{}, p.Kernels...), append([]probe.Device{}, p.Devices...)
			if p.End != nil {
				end := *p.End
				p.End = &end
			}
			e.Processes = append(e.Processes, p)
		}
	},
	each(func(r *rand.Rand, p *Process) { p.Self = r.Intn(2) == 0 }),
	each(func(r *rand.Rand, p *Process) { p.Exe = pick(r, "", "/x/app", "/bin/python3") }),
	each(func(r *rand.Rand, p *Process) { p.Real = r.Intn(2) == 0 }),
	each(func(r *rand.Rand, p *Process) { p.Forked = r.Intn(2) == 0 }),
	each(func(r *rand.Rand, p *Process) { p.Recording = r.Intn(2) == 0 }),
	each(func(r *rand.Rand, p *Process) { p.Callbacks = r.Intn(2) }),
	each(func(r *rand.Rand, p *Process) {
		p.Unavailable = pick(r, nil, &probe.Unavailable{Step: "enable", RC: 35})
	}),
	each(func(r *rand.Rand, p *Process) { p.Dropped = uint64(r.Intn(2)) }),
	each(func(r *rand.Rand, p *Process) { p.BadBuffers = r.Intn(2) }),
	each(func(r *rand.Rand, p *Process) { p.Kernels = nil }),
	each(func(r *rand.Rand, p *Process) { p.Devices = nil }),
	each(func(r *rand.Rand, p *Process) { p.End = nil }),
	each(func(r *rand.Rand, p *Process) {
		p.End = &probe.End{Flush: r.Intn(8) / 7, Kernels: uint64(r.Intn(4)), Unfinished: uint64(r.Intn(8) / 7), Dropped: uint64(r.Intn(8) / 7),
			Status: pick(r, nil, new(int), &one), Untimed: uint64(r.Intn(8) / 7), Accepted: uint64(r.Intn(4)), LostWrites: uint64(r.Intn(8) / 7), Written: uint64(r.Intn(4)), Forks: uint64(r.Intn(8) / 7), Ignores: r.Intn(8) == 7, Exited: r.Intn(4) > 0}
	}),
	each(func(r *rand.Rand, p *Process) {
		p.Devices = append(p.Devices, probe.Device{Ordinal: r.Intn(2), UUID: pick(r, uuid, "", "GPU-99999999-2222-3333-4444-555555555555", "GPU-00000000-0000-0000-0000-000000000000"), Name: "A10", Capability: gpu.Capability{Major: 8}})
	}),
	each(func(r *rand.Rand, p *Process) {
		p.Kernels = append(p.Kernels, probe.Kernel{Name: pick(r, "matmul", "fill", "relu", "_Z5sgemmPf", "cudnn_gemm"), Device: r.Intn(2), Count: uint64(r.Intn(3)), Total: 5, Waited: uint64(r.Intn(3)), Context: 1})
	}),
	func(r *rand.Rand, _ *Evidence, q *Rules) { q.Device = pick(r, "", "0", "1", uuid, "GPU-99999999") },
	func(r *rand.Rand, _ *Evidence, q *Rules) { q.Child = pick(r, "", "python*", "*") },
	func(r *rand.Rand, _ *Evidence, q *Rules) { q.ExpectExit = r.Intn(2) },
	func(r *rand.Rand, _ *Evidence, q *Rules) { q.Kernel = pick(r, nil, regexp.MustCompile("^relu$")) },
}

var one = 1

func pick[T any](r *rand.Rand, of ...T) T { return of[r.Intn(len(of))] }

func each(do func(*rand.Rand, *Process)) func(*rand.Rand, *Evidence, *Rules) {
	return func(r *rand.Rand, e *Evidence, _ *Rules) {
		if n := len(e.Processes); n > 0 {
			do(r, &e.Processes[r.Intn(n)])
		}
	}
}

// claims are what a verdict says of the evidence, in the words of docs/verdicts.md, and written without
// a look at the judge. Each answers what is not so.
var claims = map[Kind]map[string]func(e Evidence, r Rules) bool{
	Proved: {
		"it ended as expected, or after we stopped it": endedOrStopped,
		"its control was recorded on a real driver":    func(e Evidence, _ Rules) bool { return e.Control.Outcome == ControlRecorded && e.Control.Real },
		"its file is the one that was started":         func(e Evidence, _ Rules) bool { return !e.Changed },
		"nothing speaks against it":                    nothingAgainst,
		"enough matching launches, of processes that count, on known devices of real drivers": func(e Evidence, r Rules) bool {
			var n uint64
			for _, p := range e.Processes {
				if p.Forked || !p.Recording || !p.Real || !counting(e, r, p) {
					continue
				}
				for _, k := range p.Kernels {
					if id := uuidOf(p, k.Device); nameAsked(k.Name, e, r) && id != "" && deviceAsked(k.Device, id, r) {
						n += min(k.Waited, k.Count)
					}
				}
			}
			return n > 0
		},
		"neither a kernel that matches failed nor its process": func(e Evidence, r Rules) bool {
			for _, p := range e.Processes {
				asked, last := false, uint64(0)
				for _, k := range p.Kernels {
					if nameAsked(k.Name, e, r) && deviceAsked(k.Device, uuidOf(p, k.Device), r) {
						last = max(last, k.Last)
					}
					asked = asked || !p.Forked && k.Count > 0 && (p.Self || p.Tree && childAsked(p.Exe, r)) && nameAsked(k.Name, e, r) && deviceAsked(k.Device, uuidOf(p, k.Device), r)
				}
				program := p.Pid == e.Watch.Pid && p.Started == e.Watch.Started || e.Watch.Pid == 0 && len(e.Processes) == 1
				well := p.End != nil && p.End.Exited && p.End.Status != nil && (*p.End.Status == 0 || *p.End.Status == r.ExpectExit)
				if asked && !program && !well {
					return false
				}
				for _, f := range p.Refused {
					switch {
					case !asked:
					case f.RC == 700 || f.RC == 810:
						return false
					case f.Correlation > last && f.Context == 0 && (f.Kind == probe.Waits || f.Kind == probe.Copies) && f.RC <= 2:
						return false // after all of them, in whatever context
					}
				}
			}
			return true
		},
	},
	NotUsed: {
		"the program ran to the end that was expected": endedWell,
		"its control was recorded, before and after": func(e Evidence, _ Rules) bool {
			return e.Control.Outcome == ControlRecorded && e.Control.Real && e.After != nil && e.After.Outcome == ControlRecorded && e.After.Real
		},
		"its file is the one that was started": func(e Evidence, _ Rules) bool { return !e.Changed },
		"nothing speaks against it":            nothingAgainst,
		"no device was opened, or every process was watched to its end, with our variable": func(e Evidence, _ Rules) bool {
			w, beats := e.Watch, 0
			for _, p := range e.Processes {
				if !p.Forked {
					beats++
				}
			}
			if !w.Complete || w.Left || e.Removed != "" || slices.ContainsFunc(w.Seen, func(s Seen) bool { return s.OwnRoot }) {
				return false
			}
			if beats == 0 {
				return w.Watched > 0 && len(w.Nodes) == 0 && len(e.Control.Nodes) > 0
			}
			if w.Children || w.Ignored || w.Orphans > 0 || slices.Contains(w.Nodes, "/dev/dri/renderD128") {
				return false
			}
			for _, p := range e.Processes {
				if !p.Forked && (p.End != nil && (p.End.Forks > 0 || p.End.Ignores) || p.Late || p.Another != "" || len(p.APIs) > 0) {
					return false
				}
			}
			for _, p := range w.Seen {
				if !p.Root {
					return false
				}
			}
			return true
		},
		"nothing was launched, by anybody": func(e Evidence, _ Rules) bool {
			for _, p := range e.Processes {
				if p.Launches() > 0 || p.Dropped > 0 || p.BadBuffers > 0 {
					return false
				}
			}
			return true
		},
		"the records are whole": recordsWhole,
	},
	OtherKernels: {
		"the program ran to the end that was expected": endedWell,
		"its control was recorded, before and after": func(e Evidence, _ Rules) bool {
			return e.Control.Outcome == ControlRecorded && e.Control.Real && e.After != nil && e.After.Outcome == ControlRecorded && e.After.Real
		},
		"nothing speaks against it": nothingAgainst,
		"the records are whole":     recordsWhole,
		"a process that counts used the GPU": func(e Evidence, r Rules) bool {
			for _, p := range e.Processes {
				if !p.Forked && p.Launches() > 0 && counting(e, r, p) {
					return true
				}
			}
			return false
		},
		"no kernel that was asked for was launched by one": func(e Evidence, r Rules) bool {
			for _, p := range e.Processes {
				for _, k := range p.Kernels {
					if !p.Forked && k.Count > 0 && counting(e, r, p) && nameAsked(k.Name, e, r) && deviceAsked(k.Device, uuidOf(p, k.Device), r) {
						return false
					}
				}
			}
			return true
		},
		"no process that counts was out of sight": func(e Evidence, r Rules) bool {
			for _, p := range e.Watch.Seen {
				counts := p.Exe == "" || p.Exe == e.Binary || childAsked(p.Exe, r)
				if counts && (p.NoInjection || p.Closed) {
					return false
				}
			}
			return true
		},
	},
	NoDevice: {
		"the control says so": func(e Evidence, _ Rules) bool {
			return e.Control.Outcome == ControlNoDevice || e.Control.Outcome == ControlNoLibrary
		},
		"nothing was launched, by anybody": func(e Evidence, _ Rules) bool {
			for _, p := range e.Processes {
				if p.Launches() > 0 {
					return false
				}
			}
			return true
		},
	},
}

// endedOrStopped is endedWell of one that was proven: a server may have been asked to end, and then ended as expected, or was stopped once it was
// proven and did not crash.
func endedOrStopped(e Evidence, r Rules) bool {
	if e.Exit.Stopped {
		return e.Ran && (e.Exit.Signal == "" || e.Exit.Signal == "SIGTERM" || e.Exit.Signal == "SIGKILL")
	}
	return e.Ran && e.Exit.Code == r.ExpectExit && e.Exit.Signal == ""
}

func endedWell(e Evidence, r Rules) bool {
	return e.Ran && e.Exit.Code == r.ExpectExit && e.Exit.Signal == "" && !e.Exit.TimedOut
}

func nothingAgainst(e Evidence, _ Rules) bool {
	for _, c := range e.Conflicts {
		if c.Against {
			return false
		}
	}
	for _, p := range e.Processes {
		if p.Launches() > 0 && (!p.Recording || !p.Real || p.Forked) {
			return false
		}
	}
	return e.BadLines == 0
}

func recordsWhole(e Evidence, _ Rules) bool {
	for _, p := range e.Processes {
		if p.Forked {
			continue
		}
		d := p.End
		if !p.Recording || p.Unavailable != nil || p.Callbacks != 0 || p.BadBuffers > 0 || p.Dropped > 0 || d == nil || d.Flush != 0 || d.Unfinished > 0 || d.Untimed > 0 || d.Dropped > 0 || d.LostWrites > 0 {
			return false
		}
		if d.Kernels > p.Launches() || d.Accepted > p.Launches() || d.Written > d.Kernels {
			return false
		}
	}
	return e.CutFiles == 0 && !e.Truncated
}

func counting(e Evidence, r Rules, p Process) bool {
	program := p.Pid == e.Watch.Pid && p.Started == e.Watch.Started || e.Watch.Pid == 0 && len(e.Processes) == 1
	return p.Self && (program || e.Launcher) || childAsked(p.Exe, r)
}

func childAsked(exe string, r Rules) bool {
	whole, _ := path.Match(r.Child, exe)
	base, _ := path.Match(r.Child, path.Base(exe))
	return r.Child != "" && exe != "" && (whole || base)
}

func uuidOf(p Process, ordinal int) string {
	id := ""
	for _, d := range p.Devices {
		if d.Ordinal == ordinal {
			id = d.UUID
		}
	}
	if strings.Trim(id, "GPU-0") == "" {
		return ""
	}
	return id
}

func deviceAsked(ordinal int, id string, r Rules) bool {
	return r.Device == "" || r.Device == strconv.Itoa(ordinal) || strings.HasPrefix(r.Device, "GPU-") && strings.HasPrefix(id, r.Device)
}

func nameAsked(name string, e Evidence, r Rules) bool {
	if r.Kernel != nil {
		return r.Kernel.MatchString(name)
	}
	return name == "matmul" || name == "_Z5sgemmPf"
}

// TestVerdictsClaimNothingFalse judges evidence that was put together by chance, and holds each verdict against what it says.
func TestVerdictsClaimNothingFalse(t *testing.T) {
	rounds := need.Count(t, "judged", 60000)
	r := rand.New(rand.NewSource(7))
	met := map[Kind]int{}
	for range rounds {
		e := pick(r, proven, silent, other)()
		e.After = &Control{Outcome: ControlRecorded, Real: true}
		rules := Rules{}
		for range r.Intn(7) {
			spoilers[r.Intn(len(spoilers))](r, &e, &rules)
		}
		v := Judge(e, rules)
		met[v.Kind]++
		for what, holds := range claims[v.Kind] {
			if !holds(e, rules) {
				data, _ := json.Marshal(e)
				t.Fatalf("%s, but it is not so that %s\n%+v\n%s", v.Kind, what, rules, data)
			}
		}
		if v.Kind == Unproved && v.Why == "" || len(v.Lines) == 0 || len(v.Lines) > 6 {
			t.Fatalf("%s: %q %q", v.Kind, v.Why, v.Lines)
		}
	}
	for _, k := range []Kind{Unproved, Proved, NotUsed, OtherKernels, NoDevice} {
		if met[k] < rounds/300 {
			t.Errorf("%s came %d times of %d: the evidence is too much alike", k, met[k], rounds)
		}
	}
}

// TestRecordsCutAtEveryByte: what is left of an orderly record, however short, never says that nothing was launched, and proves only where the whole
// line of the launch is left. The same of two records, of which one process wrote into the other's.
func TestRecordsCutAtEveryByte(t *testing.T) {
	head := `{"event":"injected","version":1,"pid":7,"ppid":6,"started":99,"exe":"/x/app","exe_device":1,"exe_inode":2}` + "\n" +
		`{"event":"recording","cupti":130500,"libcupti":"/x/libcupti.so.13","libcuda":"/usr/lib/libcuda.so.1","driver":13000,"callbacks":0,"drivers":[]}` + "\n"
	device := `{"event":"device","ordinal":0,"uuid":"` + uuid + `","name":"H200","major":9,"minor":0}` + "\n" +
		`{"event":"driver","drivers":["/usr/lib/libcuda.so.1"],"nodes":["/dev/nvidia0"]}` + "\n"
	kernel := `{"event":"kernel","name":"matmul","device":0,"context":1,"stream":7,"grid":[2,2,1],"block":[16,16,1],"start":10,"end":14}` + "\n"
	end := `{"event":"end","flush":0,"kernels":1,"unfinished":0,"dropped":0,"accepted":1,"lost_writes":0}` + "\n"
	waited := `{"event":"waited","context":1,"function":"cuCtxSynchronize","correlation":9}` + "\n"
	judged := func(text string) Verdict {
		t.Helper()
		dir := t.TempDir()
		hosttest.OK(t, os.WriteFile(filepath.Join(dir, "7-99.jsonl"), []byte(text), 0o600))
		r := hosttest.Must(probe.ReadDir(dir))(t)
		e := proven()
		e.After, e.Processes = &Control{Outcome: ControlRecorded, Real: true}, nil
		e.BadLines, e.CutFiles, e.LostFiles, e.Truncated = r.Bad, r.Cut, r.Lost, r.Truncated
		for _, p := range r.Processes {
			e.Processes = append(e.Processes, Process{Process: p, Self: p.ExeInode == 2, Real: true})
		}
		return Judge(e, Rules{})
	}
	for _, order := range [][]string{{head, device, kernel, waited, end}, {head, kernel, waited, device, end}} {
		whole := strings.Join(order, "")
		launched := strings.Index(whole, waited) + len(waited)
		described := strings.Index(whole, device) + strings.Index(device, "\n") + 1
		for n := range len(whole) + 1 {
			want := Unproved
			if n >= launched && n >= described {
				want = Proved
			}
			if v := judged(whole[:n]); v.Kind != want {
				t.Fatalf("%d of %d bytes: %s: %s, want %s\n%s", n, len(whole), v.Kind, v.Why, want, whole[:n])
			}
		}
		// What another process of the same number wrote stands in the middle of ours, or the other way round.
		other := strings.Replace(strings.Replace(whole, `"exe_inode":2`, `"exe_inode":3`, 1), "/x/app", "/x/other", 1)
		silent := head + strings.Replace(end, `"kernels":1,"unfinished":0,"dropped":0,"accepted":1`, `"kernels":0,"unfinished":0,"dropped":0,"accepted":0`, 1)
		if v := judged(silent); v.Kind != NotUsed {
			t.Fatalf("%s: %s", v.Kind, v.Why)
		}
		mixed := 0
		for _, at := range lineEnds(other) {
			for _, cut := range lineEnds(silent) {
				// other's first lines, ours up to a line, the rest of other, the rest of ours
				v := judged(other[:at] + silent[:cut] + other[at:] + silent[cut:])
				if v.Kind == Proved || v.Kind == NotUsed || v.Kind == OtherKernels {
					t.Errorf("%s, of a binary that launched nothing and another process that did: %d, %d", v.Kind, at, cut)
				}
				mixed++
			}
		}
		if mixed < 15 {
			t.Errorf("only %d mixtures", mixed)
		}
	}
}

// lineEnds returns where each line of text ends, and its beginning.
func lineEnds(text string) []int {
	out := []int{0}
	for i, c := range text {
		if c == '\n' {
			out = append(out, i+1)
		}
	}
	return out
}
