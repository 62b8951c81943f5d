package cudnn_test

import (
	"fmt"
	"strings"
	"testing"

	"gpubuild/buildenv/hosttest"
	"gpubuild/gpu"
	"gpubuild/toolchain/cudnn"
)

func TestFind(t *testing.T) {
	for _, tt := range []struct {
		host     string
		toolkits []string
		want     []string
	}{
		{"linux-cudnn-two-majors", []string{"/usr/local/cuda-12.4", "/usr/local/cuda-11.8"}, []string{
			"/opt/cudnn-linux-x86_64-8.9.7.29_cuda11-archive 8.9.7 CUDA 11 [CUDNN_LIB] named",
			"/opt/cudnn-linux-x86_64-9.10.2.21_cuda12-archive 9.10.2 CUDA 12 [CUDNN_PATH] named",
			"/usr/local/cuda-11.8 8.9.2 CUDA 0 [toolkit] in /usr/local/cuda-11.8"}},
		{"linux-cudnn-deb", nil, []string{"/usr 9.17.0 CUDA 12 [system] system"}},
		{
			"linux-conda",
			[]string{"/home/u/conda/envs/gpu"},
			[]string{"/home/u/conda/envs/gpu 9.3.0 CUDA 12 [toolkit, CONDA_PREFIX] in /home/u/conda/envs/gpu"},
		},
		{"linux-pip13", nil, []string{"/home/u/app/.venv/lib/python3.12/site-packages/nvidia/cudnn 9.21.1 CUDA 13 [VIRTUAL_ENV] no link"}},
		{"linux-bare", nil, nil},
		{"windows-cudnn-installer", []string{`C:\Program Files\NVIDIA GPU Computing Toolkit\CUDA\v12.6`}, []string{
			`C:\tools\cudnn-windows-x86_64-8.9.6.50_cuda11-archive 8.9.6 CUDA 11 [CUDNN_PATH] named; DLLs in C:\tools\cudnn-windows-x86_64-8.9.6.50_cuda11-archive\bin`,
			`C:\Program Files\NVIDIA\CUDNN\v9.17 9.17.0 CUDA 13 [the installer's place] split; DLLs in C:\Program Files\NVIDIA\CUDNN\v9.17\bin\13.1\x64`,
			`C:\Program Files\NVIDIA\CUDNN\v9.17 9.17.0 CUDA 12 [the installer's place] split; DLLs in C:\Program Files\NVIDIA\CUDNN\v9.17\bin\12.9\x64`,
			`C:\Program Files\NVIDIA\CUDNN\v9.5 9.5.1 CUDA 12 [the installer's place] split; DLLs in C:\Program Files\NVIDIA\CUDNN\v9.5\bin\12.6`,
			`C:\Program Files\NVIDIA\CUDNN\v9.5 9.5.1 CUDA 11 [the installer's place] split; DLLs in C:\Program Files\NVIDIA\CUDNN\v9.5\bin\11.8`}},
	} {
		t.Run(tt.host, func(t *testing.T) {
			var got []string
			for _, i := range cudnn.Find(hosttest.Load(t, tt.host), tt.toolkits) {
				got = append(got, worded(i))
			}
			hosttest.Equal(t, strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
		})
	}
}

func worded(i cudnn.Install) string {
	s := fmt.Sprintf("%s %s CUDA %d [%s]", i.Root, i.Version, i.CUDAMajor, i.Origin)
	for _, f := range []struct {
		is   bool
		text string
	}{{i.Named, " named"}, {i.System, " system"}, {i.InToolkit != "", " in " + i.InToolkit}, {!i.Link && i.Problem == "", " no link"}, {i.Problem != "", ": " + i.Problem}, {i.Split, " split"}, {i.Bin != "", "; DLLs in " + i.Bin}} {
		if f.is {
			s += f.text
		}
	}
	return s
}

// TestVersionOfALibrary: without a header the name of the library says the version, of all the longest.
func TestVersionOfALibrary(t *testing.T) {
	for files, want := range map[string]string{
		"libcudnn.so":   "/usr  CUDA 0 [system] system",
		"libcudnn.so.9": "/usr 9 CUDA 0 [system] system no link",
		"libcudnn.so.9\n/var/lib/dpkg/info/libcudnn9-cuda-12.list": "/usr 9 CUDA 12 [system] system no link",
		// of two packages nothing shows whose file it is
		"libcudnn.so.9\n/var/lib/dpkg/info/libcudnn9-cuda-12.list\n/var/lib/dpkg/info/libcudnn9-cuda-13.list": "/usr 9 CUDA 0 [system] system no link",
		"libcudnn.so.9\n/usr/lib/x86_64-linux-gnu/libcudnn.so.9.10.2":                                         "/usr 9.10.2 CUDA 0 [system] system no link",
	} {
		h := hosttest.Must(hosttest.Parse([]byte("os: linux\n-- @empty --\n/usr/lib/x86_64-linux-gnu/" + files + "\n")))(t)
		var got []string
		for _, i := range cudnn.Find(h, nil) {
			got = append(got, worded(i))
		}
		hosttest.Equal(t, strings.Join(got, "\n"), want, files, got)
	}
}

// TestVariables checks what a variable may name: a root with a slash, the library directory itself, nothing.
func TestVariables(t *testing.T) {
	const tree = "-- @empty --\n/c/lib/libcudnn.so.9.5.1\n/c/lib/libcudnn.so\n/headers/include/x\n-- /c/include/cudnn_version.h --\n#define CUDNN_MAJOR 9\n#define CUDNN_MINOR 5\n#define CUDNN_PATCHLEVEL 1\n-- /headers/include/cudnn_version.h --\n#define CUDNN_MAJOR 9\n-- /old/include/cudnn.h --\n#define CUDNN_MAJOR 7\n#define CUDNN_MINOR 6\n#define CUDNN_PATCHLEVEL 5\n"
	for value, want := range map[string]string{
		"/c/":      "/c 9.5.1 CUDA 0 [CUDNN_LIB] named",
		"/c/lib":   "/c 9.5.1 CUDA 0 [CUDNN_LIB] named",
		"/gone":    "/gone  CUDA 0 [CUDNN_LIB] named: there is no cuDNN: neither include/cudnn.h nor lib/libcudnn.so",
		"/headers": "/headers 9.0.0 CUDA 0 [CUDNN_LIB] named: its headers are there, its libraries are not",
		"/old":     "/old 7.6.5 CUDA 0 [CUDNN_LIB] named: its headers are there, its libraries are not",
	} {
		h := hosttest.Must(hosttest.Parse([]byte("os: linux\n-- @env --\nCUDNN_LIB=" + value + "\n" + tree)))(t)
		all := cudnn.Find(h, nil)
		if len(all) != 1 || worded(all[0]) != want {
			t.Errorf("%s: got %+v, want %s", value, all, want)
		}
	}
}

func TestFor(t *testing.T) {
	for _, tt := range []struct {
		install cudnn.Install
		major   int
		want    string
	}{
		{cudnn.Install{Version: "9.10.2", CUDAMajor: 12}, 12, ""},
		{cudnn.Install{Version: "9.10.2", CUDAMajor: 12}, 13, "it is built for CUDA 12, not 13"},
		{cudnn.Install{Version: "9.10.2", Known: []int{11, 12}}, 13, "cuDNN 9.10.2 was never published for CUDA 13"},
		{cudnn.Install{Version: "9.10.2", Known: []int{11, 12}}, 11, ""},
		{cudnn.Install{}, 13, ""},
		{cudnn.Install{CUDAMajor: 12}, 0, ""},
	} {
		if got := tt.install.Misfit(tt.major); got != tt.want {
			t.Errorf("%+v for %d: got %q, want %q", tt.install, tt.major, got, tt.want)
		}
	}
}

// TestKnown holds what is published of a release: which CUDA majors, and the lowest capability.
func TestKnown(t *testing.T) {
	for v, want := range map[[3]int]string{
		{8, 9, 7}: "[11 12] 5.0", {9, 10, 2}: "[11 12] 5.0", {9, 12, 0}: "[11 12 13] unknown", {9, 21, 1}: "[12 13] 7.5", {7, 6, 5}: "[] unknown",
	} {
		h, err := hosttest.Parse(
			[]byte(
				fmt.Sprintf(
					"os: linux\n-- @empty --\n/t/lib64/libcudnn.so.%d\n-- /t/include/cudnn_version.h --\n#define CUDNN_MAJOR %d\n#define CUDNN_MINOR %d\n#define CUDNN_PATCHLEVEL %d\n",
					v[0],
					v[0],
					v[1],
					v[2],
				),
			),
		)
		if err != nil {
			t.Fatal(err)
		}
		all := cudnn.Find(h, []string{"/t"})
		if len(all) != 1 || fmt.Sprint(all[0].Known, " ", all[0].MinSM) != want {
			t.Errorf("%v: got %+v, want %s", v, all, want)
		}
	}
	hosttest.Equal(t, (gpu.Capability{}).String(), "unknown", "a capability that is not known must say so")
}

func FuzzHeader(f *testing.F) {
	f.Add([]byte("#define CUDNN_MAJOR 9\n#define CUDNN_MINOR 5\n"))
	f.Add([]byte("#define CUDNN_MAJOR 99999\n# define CUDNN_MAJOR 0\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if strings.Contains(string(data), "\n-- ") || strings.HasPrefix(string(data), "-- ") {
			return // it would end the section of the stored machine
		}
		h, err := hosttest.Parse(
			[]byte("os: linux\n-- @empty --\n/t/lib64/libcudnn.so.9\n-- /t/include/cudnn_version.h --\n" + string(data)),
		)
		if err != nil {
			return
		}
		for _, i := range cudnn.Find(h, []string{"/t"}) {
			if i.Major < 0 || i.Major > 9999 {
				t.Errorf("%+v", i)
			}
		}
	})
}

// TestHeadersAloneAreToldOnce holds that a tree with headers only, which a variable names and which is a toolkit, too, is one cuDNN without libraries.
func TestHeadersAloneAreToldOnce(t *testing.T) {
	h, err := hosttest.Parse(
		[]byte(
			"os: linux\n-- @env --\nCUDNN_LIB=/tk\nCUDNN_PATH=/nothing\n-- /tk/include/cudnn_version.h --\n#define CUDNN_MAJOR 9\n#define CUDNN_MINOR 21\n#define CUDNN_PATCHLEVEL 1\n",
		),
	)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, i := range cudnn.Find(h, []string{"/tk"}) {
		got = append(got, i.Root+" ["+i.Origin+"] "+i.Problem)
	}
	want := "/tk [CUDNN_LIB, toolkit] its headers are there, its libraries are not|/nothing [CUDNN_PATH] there is no cuDNN: neither include/cudnn.h nor lib/libcudnn.so"
	hosttest.Equal(t, strings.Join(got, "|"), want)
}

// TestLayoutsOfPeople: where people put cuDNN's archive on Windows, and which of its directories they name.
func TestLayoutsOfPeople(t *testing.T) {
	const files = "-- ROOT\\include\\cudnn_version.h --\n#define CUDNN_MAJOR 9\n#define CUDNN_MINOR 8\n#define CUDNN_PATCHLEVEL 0\n-- @empty --\nROOT\\lib\\x64\\cudnn.lib\nROOT\\bin\\cudnn64_9.dll\n"
	for story, tt := range map[string]struct{ root, env string }{
		"its three directories on PATH": {`D:\cudnn`, `PATH=C:\Windows;D:\cudnn\bin;D:\cudnn\lib\x64;D:\cudnn\include`},
		"CUDNN_PATH names bin":          {`D:\cudnn`, `CUDNN_PATH=D:\cudnn\bin`},
		"CUDNN_PATH names lib\\x64":     {`D:\cudnn`, `CUDNN_PATH=D:\cudnn\lib\x64`},
		"CUDNN_LIB names lib\\x64":      {`D:\cudnn`, `CUDNN_LIB=D:\cudnn\lib\x64`},
		"a variable called CUDNN":       {`D:\cudnn`, `CUDNN=D:\cudnn`},
		"C:\\tools\\cuda":               {`C:\tools\cuda`, `PATH=C:\Windows`},
		"pip outside of a venv":         {`C:\Python312\Lib\site-packages\nvidia\cudnn`, `PATH=C:\Python312`},
	} {
		h := hosttest.Must(hosttest.Parse([]byte("os: windows\ncwd: C:\\w\n-- @env --\n" + tt.env + "\n-- @empty --\nC:\\Python312\\python.exe\n" + strings.ReplaceAll(files, "ROOT", tt.root))))(t)
		found := cudnn.Find(h, nil)
		if len(found) != 1 || found[0].Root != tt.root || found[0].Version != "9.8.0" || !found[0].Link || found[0].Bin != tt.root+`\bin` {
			t.Errorf("%s: %+v", story, found)
		}
	}
	// what NVIDIA's installer makes, on another drive
	installed := strings.NewReplacer(`ROOT\include`, `D:\CUDNN\v9.8\include\13.0`, `lib\x64`, `lib\13.0\x64`, `bin\`, `bin\13.0\x64\`, "ROOT", `D:\CUDNN\v9.8`).Replace(files)
	for _, env := range []string{`PATH=D:\CUDNN\v9.8\bin\13.0\x64`, `CUDNN_PATH=D:\CUDNN\v9.8\bin\13.0`, `CUDNN_PATH=D:\CUDNN\v9.8\bin`,
		`CUDNN_LIB=D:\CUDNN\v9.8\lib\13.0\x64`, `CUDNN_PATH=D:\CUDNN\v9.8`} {
		h := hosttest.Must(hosttest.Parse([]byte("os: windows\ncwd: C:\\w\n-- @env --\n" + env + "\n" + installed)))(t)
		found := cudnn.Find(h, nil)
		if len(found) != 1 || found[0].Root != `D:\CUDNN\v9.8` || found[0].CUDAMajor != 13 || !found[0].Split || found[0].Bin != `D:\CUDNN\v9.8\bin\13.0\x64` {
			t.Errorf("%s: %+v", env, found)
		}
	}
	h := hosttest.Must(hosttest.Parse([]byte("os: windows\ncwd: C:\\w\n" + strings.ReplaceAll(installed, `D:\CUDNN`, `E:\Program Files\NVIDIA\CUDNN`))))(t)
	if found := cudnn.Find(h, nil); len(found) != 1 || found[0].Root != `E:\Program Files\NVIDIA\CUDNN\v9.8` {
		t.Errorf("the installer's place on another drive: %+v", found)
	}
	h = hosttest.Must(hosttest.Parse([]byte("os: windows\ncwd: C:\\w\n-- @env --\nPATH=D:\\other\\bin;D:\\other\n-- @empty --\nD:\\other\\bin\\x.dll\n")))(t)
	if found := cudnn.Find(h, nil); len(found) > 0 {
		t.Errorf("of nothing: %+v", found)
	}
}
