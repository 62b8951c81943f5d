package driver_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"gpubuild/buildenv"
	"gpubuild/buildenv/hosttest"
	"gpubuild/buildenv/memo"
	"gpubuild/gpu"
	"gpubuild/gpu/driver"
)

// files is a machine's files by absolute path, without links.
type files struct{ fstest.MapFS }

func rel(path string) string { return strings.TrimPrefix(strings.ReplaceAll(path, `\`, "/"), "/") }

func (f files) Stat(path string) (fs.FileInfo, error)      { return f.MapFS.Stat(rel(path)) }
func (f files) ReadDir(path string) ([]fs.DirEntry, error) { return f.MapFS.ReadDir(rel(path)) }
func (f files) Open(path string) (fs.File, error)          { return f.MapFS.Open(rel(path)) }
func (f files) EvalSymlinks(path string) (string, error)   { _, err := f.Stat(path); return path, err }
func machine(os string, env []string, f map[string]string) buildenv.Host {
	m := fstest.MapFS{}
	for path, text := range f {
		m[rel(path)] = &fstest.MapFile{Data: []byte(text), Mode: 0o755}
	}
	return buildenv.Host{OS: os, Arch: "amd64", Env: buildenv.NewEnv(os, env), Files: files{m}}
}

// script answers commands by their last argument's beginning; a command that it does not know fails the test.
type script struct {
	t       *testing.T
	answers map[string]reply
	asked   []string
}

type reply struct {
	out  string
	code int
	err  error
	late bool
}

func (s *script) Run(_ context.Context, c buildenv.Cmd) (buildenv.Result, error) {
	line := c.String()
	s.asked = append(s.asked, line)
	if c.Timeout <= 0 || c.Limit <= 0 {
		s.t.Errorf("%s: no bounds", line)
	}
	for prefix, r := range s.answers {
		if strings.Contains(line, prefix) {
			res := buildenv.Result{Stdout: []byte(r.out), Code: r.code, TimedOut: r.late}
			if r.code != 0 || r.late {
				return res, &buildenv.ExitError{Cmd: c, Result: res}
			}
			return res, r.err
		}
	}
	s.t.Errorf("unexpected command %s", line)
	return buildenv.Result{}, errors.New("unexpected")
}

func TestVersion(t *testing.T) {
	const proc = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.54.03  Tue Jun  6 22:20:39 UTC 2023\nGCC version:  gcc version 12.2.0\n"
	const open = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.124.06  Release Build  (root@x)\n"
	for _, tt := range []struct {
		story string
		os    string
		files map[string]string
		want  string
	}{
		{"no driver", "linux", nil, "| unknown |"},
		{"module loaded", "linux", map[string]string{"/sys/module/nvidia/version": "580.65.06\n"}, "580.65.06 | 13.0 | /sys/module/nvidia/version"},
		{"only proc", "linux", map[string]string{"/proc/driver/nvidia/version": proc}, "535.54.03 | 12.2 | /proc/driver/nvidia/version"},
		{"open kernel module", "linux", map[string]string{"/proc/driver/nvidia/version": open}, "570.124.06 | 12.8 | /proc/driver/nvidia/version"},
		{"a module that says nothing", "linux", map[string]string{"/sys/module/nvidia/version": "\x00\n", "/proc/driver/nvidia/version": proc}, "535.54.03 | 12.2 | /proc/driver/nvidia/version"},
		{"newer than the table", "linux", map[string]string{"/sys/module/nvidia/version": "700.1\n"}, "700.1 | unknown | /sys/module/nvidia/version"},
		{"WSL2", "linux", map[string]string{"/usr/lib/wsl/lib/libcuda.so.1": ""}, "| unknown | /usr/lib/wsl/lib"},
		{"Windows has no such files", "windows", map[string]string{"/sys/module/nvidia/version": "580.65.06"}, "| unknown |"},
	} {
		t.Run(tt.story, func(t *testing.T) {
			d := driver.Kernel(machine(tt.os, nil, tt.files))
			hosttest.Equal(t, strings.TrimSpace(fmt.Sprintf("%s | %s | %s", d.Version, d.CUDA, d.Origin)), tt.want)
		})
	}
}

func TestSupports(t *testing.T) {
	for _, tt := range []struct{ os, driver, want string }{
		{"linux", "440.33", "unknown"}, {"linux", "450.36.06", "11.0"}, {"linux", "535.216.01", "12.2"}, {"linux", "560.35.05", "12.6"}, {"linux", "565.57.01", "12.7"},
		{"linux", "570.26", "12.8"}, {"linux", "575.51.02", "12.8"}, {"linux", "615.1", "13.4"}, {"linux", "617.14", "at least 13.4"},
		{"windows", "522.06", "11.8"}, {"windows", "527.41", "12.0"}, {"windows", "566.36", "12.7"}, {"windows", "580.88", "13.0"}, {"windows", "591.1", "at least 13.0"},
		{"linux", "", "unknown"}, {"linux", "x.y", "unknown"},
	} {
		newest, atLeast := driver.Supports(tt.os, tt.driver)
		got := newest.String()
		if !atLeast.IsZero() {
			got = "at least " + atLeast.String()
			if !newest.IsZero() {
				t.Errorf("%s %s: both %s and %s", tt.os, tt.driver, newest, got)
			}
		}
		hosttest.Equal(t, got, tt.want, tt.os, tt.driver)
	}
}

func TestNoDriverStartsNoProcess(t *testing.T) {
	for _, os := range []string{"linux", "windows", "darwin"} {
		s := &script{t: t}
		d, devices, notes := driver.Machine{Host: machine(os, []string{"PATH=/usr/bin", `SystemRoot=C:\Windows`}, nil), Runner: s}.Inventory(context.Background())
		if d != (gpu.Driver{}) || devices != nil || len(notes) != 1 || !strings.HasPrefix(notes[0], "no NVIDIA driver here") || len(s.asked) != 0 {
			t.Errorf("%s: %v %v %q %q", os, d, devices, notes, s.asked)
		}
	}
}

// TestAHangingDriverIsAskedOnce in a process.
func TestAHangingDriverIsAskedOnce(t *testing.T) {
	t.Parallel()
	s := &script{t: t, answers: map[string]reply{"compute_cap": {late: true}}}
	m := driver.Machine{Host: machine("linux", []string{"PATH=/usr/bin"}, map[string]string{"/usr/bin/nvidia-smi": ""}), Runner: s, Silent: &atomic.Pointer[[]string]{}}
	for range 2 {
		_, _, notes := m.Inventory(context.Background())
		hosttest.Equal(t, strings.Join(notes, "; "), "nvidia-smi: no answer in 10s; no GPU could be asked")
	}
	hosttest.Equal(t, len(s.asked), 1)
}

const l4 = "0, GPU-5a, NVIDIA L4, 8.9, 23034, 550.54.15\n"

func TestNvidiaSMI(t *testing.T) {
	for _, tt := range []struct {
		story   string
		replies map[string]reply
		want    []string // devices
		driver  string
		notes   []string // parts of notes that must be there
	}{
		{story: "one GPU", replies: map[string]reply{"compute_cap": {out: l4}},
			want: []string{"0 GPU-5a NVIDIA L4 8.9 24152899584"}, driver: "550.54.15 12.4 nvidia-smi", notes: []string{"driver 550.54.15, 1 GPU(s)"}},
		{story: "two of different kinds, CRLF", replies: map[string]reply{"compute_cap": {out: "1, GPU-b, NVIDIA H200, 9.0, 143771, 570.26\r\n0, GPU-a, NVIDIA A100-SXM4-40GB, 8.0, 40960, 570.26\r\n"}},
			want: []string{"0 GPU-a NVIDIA A100-SXM4-40GB 8.0 42949672960", "1 GPU-b NVIDIA H200 9.0 150754820096"}, driver: "570.26 12.8 nvidia-smi"},
		{story: "MIG is on and memory unknown", replies: map[string]reply{"compute_cap": {out: "0, GPU-a, NVIDIA A100-SXM4-40GB, 8.0, [N/A], 570.26\n"}},
			want: []string{"0 GPU-a NVIDIA A100-SXM4-40GB 8.0 0"}, driver: "570.26 12.8 nvidia-smi"},
		{story: "a GPU fell off the bus", replies: map[string]reply{"compute_cap": {out: l4 + "1, [Unknown Error], [GPU is lost], [GPU is lost], [N/A], [N/A]\n"}},
			want: []string{"0 GPU-5a NVIDIA L4 8.9 24152899584", "1   unknown 0"}, driver: "550.54.15 12.4 nvidia-smi", notes: []string{"GPU 1: nvidia-smi reports no compute capability"}},
		{story: "a name with a comma", replies: map[string]reply{"compute_cap": {out: "0, GPU-a, Quadro, RTX 8000, 7.5, 46080, 550.1\n"}},
			want: []string{"0 GPU-a Quadro, RTX 8000 7.5 48318382080"}, driver: "550.1 12.3 nvidia-smi"},
		{story: "one that is older than R510", replies: map[string]reply{"compute_cap": {out: "Field \"compute_cap\" is not a valid field to query.\n", code: 2}},
			driver: "  ", notes: []string{"nvidia-smi: exit status 2: Field \"compute_cap\" is not a valid", "no GPU could be asked"}},
		{story: "a driver that does not say its version", replies: map[string]reply{"compute_cap": {out: "0, GPU-5a, NVIDIA L4, 8.9, 23034, [N/A]\n"}},
			want: []string{"0 GPU-5a NVIDIA L4 8.9 24152899584"}, driver: "  nvidia-smi"},
		{story: "no devices", replies: map[string]reply{"compute_cap": {out: "No devices were found\n"}}, driver: "  ", notes: []string{"0 GPU(s)"}},
		{story: "the kernel module is gone", replies: map[string]reply{"compute_cap": {out: "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure …\n\n", code: 9}},
			driver: "  ", notes: []string{"nvidia-smi: exit status 9: NVIDIA-SMI has failed because", "no GPU could be asked"}},
		{story: "an infoROM is corrupted", replies: map[string]reply{"compute_cap": {out: l4 + "WARNING: infoROM is corrupted at gpu 0000:3B:00.0\n", code: 14}},
			want: []string{"0 GPU-5a NVIDIA L4 8.9 24152899584"}, driver: "550.54.15 12.4 nvidia-smi", notes: []string{"infoROM is corrupted", "nvidia-smi: exit status 14"}},
		{story: "it hangs", replies: map[string]reply{"compute_cap": {late: true}}, driver: "  ", notes: []string{"nvidia-smi: no answer in 10s"}},
		{story: "it cannot be started", replies: map[string]reply{"compute_cap": {err: errors.New("exec format error")}}, driver: "  ", notes: []string{"nvidia-smi: exec format error"}},
		{story: "garbage", replies: map[string]reply{"compute_cap": {out: "\x00\xff hello\n<html>\n"}}, driver: "  ", notes: []string{"an answer of another form"}},
		{story: "one good line among others", replies: map[string]reply{"compute_cap": {out: "WARNING: infoROM is corrupted\n" + l4 + "x, y, z, 1, 2, 3\n"}},
			want: []string{"0 GPU-5a NVIDIA L4 8.9 24152899584"}, driver: "550.54.15 12.4 nvidia-smi", notes: []string{"a line of another form"}},
	} {
		t.Run(tt.story, func(t *testing.T) {
			h := machine("linux", []string{"PATH=/usr/bin"}, map[string]string{"/usr/bin/nvidia-smi": ""})
			s := &script{t: t, answers: tt.replies}
			d, devices, notes := driver.Machine{Host: h, Runner: s}.Inventory(context.Background())
			if got := describe(devices); !slices.Equal(got, tt.want) {
				t.Errorf("devices: got %q, want %q", got, tt.want)
			}
			cuda := d.CUDA.String()
			if d.CUDA.IsZero() {
				cuda = ""
			}
			hosttest.Equal(t, d.Version+" "+cuda+" "+d.Origin, tt.driver, "driver")
			for _, n := range tt.notes {
				if !strings.Contains(strings.Join(notes, "\n"), n) {
					t.Errorf("notes: got %q, want %q among them", notes, n)
				}
			}
		})
	}
}

func TestKernelAndLibraryOfTwoVersions(t *testing.T) {
	h := machine("linux", []string{"PATH=/usr/bin"}, map[string]string{"/usr/bin/nvidia-smi": "", "/sys/module/nvidia/version": "580.65.06\n"})
	_, devices, notes := driver.Machine{Host: h, Runner: &script{t: t, answers: map[string]reply{"compute_cap": {out: l4}}}}.Inventory(context.Background())
	if len(devices) != 1 || !strings.Contains(strings.Join(notes, "\n"), "the kernel has loaded driver 580.65.06 (/sys/module/nvidia/version), nvidia-smi speaks of 550.54.15") {
		t.Errorf("%v %q", devices, notes)
	}
}

// TestTracesOfADriver: where nvidia-smi is not found, a module or a library still shows that there is a driver; the kernel's version counts where
// nvidia-smi has none, and is spoken of only where both differ.
func TestTracesOfADriver(t *testing.T) {
	const ask = "compute_cap"
	module := map[string]string{"/sys/module/nvidia/version": "580.65.06\n"}
	both := map[string]string{"/usr/bin/nvidia-smi": "", "/sys/module/nvidia/version": "550.54.15\n"}
	for story, tt := range map[string]struct {
		os    string
		env   string
		files map[string]string
		says  string // nvidia-smi; empty: it is not asked
		want  string // driver, and the notes
	}{
		"a module":              {"linux", "PATH=/usr/bin", module, "", "580.65.06: nvidia-smi: not on PATH, no GPU could be asked"},
		"a file of the module":  {"linux", "PATH=/usr/bin", map[string]string{"/proc/driver/nvidia": ""}, "", ": nvidia-smi: not on PATH, no GPU could be asked"},
		"another's files":       {"linux", "PATH=/usr/bin", map[string]string{`C:\Windows\System32\nvml.dll`: ""}, "", ": no NVIDIA driver here: no kernel module, no nvidia-smi"},
		"a library on Windows":  {"windows", `SystemRoot=C:\Windows`, map[string]string{`C:\Windows\System32\nvml.dll`: ""}, "", ": nvidia-smi: not on PATH, no GPU could be asked"},
		"Windows in D":          {"windows", `SystemRoot=D:\Win`, map[string]string{`D:\Win\System32\nvml.dll`: ""}, "", ": nvidia-smi: not on PATH, no GPU could be asked"},
		"not of that Windows":   {"windows", `SystemRoot=D:\Win`, map[string]string{`C:\Windows\System32\nvml.dll`: ""}, "", ": no NVIDIA driver here: neither nvml.dll nor nvidia-smi.exe in System32"},
		"a root that is none":   {"windows", `SystemRoot=.`, map[string]string{`C:\Windows\System32\nvml.dll`: ""}, "", ": nvidia-smi: not on PATH, no GPU could be asked"},
		"macOS":                 {"darwin", "PATH=/usr/bin", both, "", ": no NVIDIA driver here: no kernel module, no nvidia-smi"},
		"the same driver twice": {"linux", "PATH=/usr/bin", both, l4, "550.54.15: nvidia-smi: driver 550.54.15, 1 GPU(s)"},
		"only the kernel's":     {"linux", "PATH=/usr/bin", both, "No devices were found\n", "550.54.15: nvidia-smi: driver 550.54.15, 0 GPU(s)"},
	} {
		s := &script{t: t, answers: map[string]reply{}}
		if tt.says != "" {
			s.answers[ask] = reply{out: tt.says}
		}
		d, _, notes := driver.Machine{Host: machine(tt.os, []string{tt.env}, tt.files), Runner: s}.Inventory(context.Background())
		hosttest.Equal(t, d.Version+": "+strings.Join(notes, ", "), tt.want, story)
	}
}

func TestWindowsAsksNvidiaSMIInSystem32(t *testing.T) {
	h := machine("windows", []string{`PATH=C:\x`, `SystemRoot=C:\Windows`}, map[string]string{`C:\Windows\System32\nvidia-smi.exe`: ""})
	s := &script{t: t, answers: map[string]reply{`C:\Windows\System32\nvidia-smi.exe --query-gpu`: {out: "0, GPU-a, NVIDIA GeForce RTX 4090, 8.9, 24564, 576.02\r\n"}}}
	d, devices, _ := driver.Machine{Host: h, Runner: s}.Inventory(context.Background())
	if len(devices) != 1 || d.CUDA.String() != "12.9" {
		t.Errorf("%v %v", d, devices)
	}
}

func TestWSLAsksNvidiaSMIBesideItsLibraries(t *testing.T) {
	const smi = "/usr/lib/wsl/lib/nvidia-smi"
	h := machine("linux", []string{"PATH=/usr/bin"}, map[string]string{smi: "", "/usr/lib/wsl/lib/libcuda.so.1": ""})
	s := &script{t: t, answers: map[string]reply{smi + " --query-gpu": {out: "0, GPU-a, NVIDIA GeForce RTX 4090, 8.9, 24564, 576.02\n"}}}
	d, devices, notes := driver.Machine{Host: h, Runner: s}.Inventory(context.Background())
	if len(devices) != 1 || d.CUDA.String() != "12.9" || len(notes) != 1 {
		t.Errorf("%v %v %q", d, devices, notes)
	}
}

// TestNobodyAnswers: where nvidia-smi is not there or fails, the number of Windows' driver is that of its nvcuda.dll.
func TestNobodyAnswers(t *testing.T) {
	const at, smi = `C:\Windows\System32\nvcuda.dll`, `C:\Windows\System32\nvidia-smi.exe`
	const info = "MZ\x90 \xbd\x04\xef\xfe\x00\x00\x01\x00\x00\x00\x1f\x00\x9e\x08\x0f\x00 more" // 31.0.15.2206
	for dll, want := range map[string]string{info: "522.06 CUDA 11.8", "MZ": " CUDA unknown", info[:16]: " CUDA unknown"} {
		for _, files := range []map[string]string{{at: dll}, {at: dll, smi: ""}} {
			s := &script{t: t, answers: map[string]reply{"compute_cap": {err: errors.New("exit status 9")}}}
			d := driver.Machine{Host: machine("windows", []string{`SystemRoot=C:\Windows`}, files), Runner: s}.Version(t.Context())
			hosttest.Equal(t, d.Version+" "+d.Supports(), want, dll)
		}
	}
}

func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	h := machine("linux", []string{"PATH=/usr/bin"}, map[string]string{"/usr/bin/nvidia-smi": ""})
	_, devices, notes := driver.Machine{Host: h, Runner: &script{t: t, answers: map[string]reply{"compute_cap": {err: context.Canceled}}}}.Inventory(ctx)
	if devices != nil || !strings.HasSuffix(notes[len(notes)-1], "interrupted") {
		t.Errorf("%v %q", devices, notes)
	}
}

func describe(devices []gpu.Device) []string {
	var out []string
	for _, d := range devices {
		c := "unknown"
		if d.Capability != (gpu.Capability{}) {
			c = d.Capability.String()
		}
		out = append(out, fmt.Sprintf("%d %s %s %s %d", d.Index, d.UUID, d.Name, c, d.Memory))
	}
	return out
}

// disk has a machine's files below a directory.
type disk struct{ root string }

func (d disk) at(path string) string                      { return filepath.Join(d.root, filepath.FromSlash(rel(path))) }
func (d disk) Stat(path string) (fs.FileInfo, error)      { return os.Stat(d.at(path)) }
func (d disk) ReadDir(path string) ([]fs.DirEntry, error) { return os.ReadDir(d.at(path)) }
func (d disk) EvalSymlinks(path string) (string, error)   { return path, nil }
func (d disk) Open(path string) (fs.File, error) {
	if strings.Contains(path, "memo") { // the cache is the test's own
		return os.Open(path)
	}
	return os.Open(d.at(path))
}

// TestVersionIsAskedOnce: where no file says the driver's CUDA version, nvidia-smi does, once for each file that is the driver's library. Its own
// word counts where the table ends.
func TestVersionIsAskedOnce(t *testing.T) {
	const head = "==============NVSMI LOG==============\n\nDriver Version                            : [Deprecated]\n" +
		"CUDA Version                              : [Deprecated; will be removed in CUDA 14.0. Use CUDA UMD Version instead]\n" +
		"CUDA UMD Version                          : 13.3\n"
	for _, tt := range []struct{ story, os, library, smi, number, q, want string }{
		{"Windows", "windows", `C:\Windows\System32\nvcuda.dll`, `C:\Windows\System32\nvidia-smi.exe`, "522.06", "", "522.06 CUDA 11.8"},
		{"Windows, behind the table", "windows", `C:\Windows\System32\nvcuda.dll`, `C:\Windows\System32\nvidia-smi.exe`, "610.47", head, "610.47 CUDA 13.3"},
		{"behind the table, and without a word", "windows", `C:\Windows\System32\nvcuda.dll`, `C:\Windows\System32\nvidia-smi.exe`, "610.47", "?", "610.47 at least CUDA 13.0"},
		{"WSL2, whose driver is Windows'", "wsl", "/usr/lib/wsl/lib/libcuda.so.1", "/usr/lib/wsl/lib/nvidia-smi", "522.06", "", "522.06 CUDA 11.8"},
		{"WSL2 with a kernel of one's own", "linux", "/usr/lib/wsl/lib/libcuda.so.1", "/usr/lib/wsl/lib/nvidia-smi", "610.05", head, "610.05 CUDA 13.3"},
		{"Linux without the kernel's files", "linux", "/opt/nvidia-smi", "/opt/nvidia-smi.1", "535.104", head, "535.104 CUDA 12.2"},
	} {
		t.Run(tt.story, func(t *testing.T) {
			cache, root := t.TempDir(), disk{t.TempDir()}
			ask := func(library string) (string, int) {
				for path, text := range map[string]string{tt.library: library, tt.smi: ""} {
					if was, err := os.ReadFile(root.at(path)); err == nil && string(was) == text {
						continue
					}
					hosttest.OK(t, os.MkdirAll(filepath.Dir(root.at(path)), 0o755))
					hosttest.OK(t, os.WriteFile(root.at(path), []byte(text), 0o755))
				}
				h := machine(strings.Replace(tt.os, "wsl", "linux", 1), []string{`SystemRoot=C:\Windows`, "PATH=/opt"}, nil)
				h.Files = root
				if tt.os == "wsl" {
					h.Kernel = "5.15.167.4-microsoft-standard-WSL2"
				}
				s := &script{t: t, answers: map[string]reply{"compute_cap": {out: "0, GPU-a, NVIDIA GeForce RTX 3080, 8.6, 10240, " + tt.number + "\n"}, "TEMPERATURE": {out: tt.q}}}
				if tt.q == "" {
					delete(s.answers, "TEMPERATURE")
				}
				store := memo.Open(buildenv.Host{OS: "linux", Files: root}, cache, time.Now())
				d := driver.Machine{Host: h, Runner: s, Memo: &store}.Version(context.Background())
				return d.Version + " " + d.Supports(), len(s.asked)
			}
			first, asked := ask("a")
			again, none := ask("a")
			hosttest.Equal(t, first, tt.want)
			hosttest.Equal(t, again, tt.want)
			if asked == 0 || none != 0 {
				t.Errorf("asked %d and then %d times", asked, none)
			}
			if _, updated := ask("bb"); updated == 0 {
				t.Error("a driver that was updated is not asked")
			}
		})
	}
}

// TestKernelSaysEnough: where the kernel's files name a driver of the table, or there is no driver, nothing is started.
func TestKernelSaysEnough(t *testing.T) {
	for _, files := range []map[string]string{{"/sys/module/nvidia/version": "580.65.06\n", "/usr/bin/nvidia-smi": ""}, {}} {
		s := &script{t: t}
		driver.Machine{Host: machine("linux", []string{"PATH=/usr/bin"}, files), Runner: s}.Version(context.Background())
		if len(s.asked) > 0 {
			t.Errorf("%v: %q", files, s.asked)
		}
	}
}
