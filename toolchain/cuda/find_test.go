package cuda

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpubuild/buildenv"
	"gpubuild/buildenv/hosttest"
	"gpubuild/buildenv/hosttest/need"
	"gpubuild/buildenv/local"
	"gpubuild/gpu"
)

// TestFind checks for each machine which trees are found, by which sources, and what is wrong with each.
func TestFind(t *testing.T) {
	for _, tt := range []struct {
		host string
		want []string
	}{
		{"linux-usual", []string{"/usr/local/cuda 12.4.1 [PATH, a usual place]"}},
		{
			"linux-two-toolkits",
			[]string{"/usr/local/cuda 12.4.1 [CUDA_HOME, PATH, a usual place]", "/usr/local/cuda-13.4 13.4.1 [a usual place]"},
		},
		{
			"linux-removed-toolkit",
			[]string{"/usr/local/cuda-11.8  [CUDA_PATH] it does not exist", "/usr/local/cuda-11.8/bin/nvcc  [NVCC] it does not exist",
				"/usr/local/cuda-12.6 12.6.3 [a usual place]"},
		},
		{"linux-debian", []string{"/usr 11.8.89 [PATH, a usual place]"}},
		{"linux-conda", []string{"/home/u/conda/envs/gpu 12.6 [CONDA_PREFIX, PATH]", "/usr/local/cuda 12.8.1 [a usual place]"}},
		{
			"linux-hpc-sdk",
			[]string{
				"/opt/nvidia/hpc_sdk/Linux_x86_64/24.5/cuda/12.4 12.4.0 [PATH, a usual place]",
				"/opt/nvidia/hpc_sdk/Linux_x86_64/24.5/cuda/11.8 11.8.0 [a usual place]",
			},
		},
		{"linux-arch", []string{"/opt/cuda 13.0.2 [CUDA_PATH, PATH, a usual place]"}},
		{"linux-bare", nil},
	} {
		t.Run(tt.host, func(t *testing.T) {
			var got []string
			for _, k := range Find(hosttest.Load(t, tt.host), nil) {
				got = append(got, strings.TrimSpace(fmt.Sprintf("%s %s [%s] %s", k.Root, k.Label, k.Origin, k.Problem)))
			}
			hosttest.Equal(t, strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
		})
	}
}

// TestMisspelt: what a user typed is named as it is, and not below the current directory.
func TestMisspelt(t *testing.T) {
	for value, want := range map[string]string{
		`"/opt/cuda"`: `"/opt/cuda" it does not exist: the quotes are part of its name`,
		"/opt/cuda ":  "/opt/cuda  it does not exist: its name begins or ends with a space",
		"~/cuda":      "~/cuda it does not exist: no shell has expanded ~",
		"~":           "/w/~ it has no compiler and no headers: neither bin/nvcc nor include/cuda.h leads to a file",
	} {
		h := hosttest.Must(hosttest.Parse([]byte("os: linux\ncwd: /w\n-- @dirs --\n/w/~\n")))(t)
		h.Env = h.Env.Set("CUDA_HOME", value)
		if k := Find(h, nil)[0]; k.Root+" "+k.Problem != want {
			t.Errorf("got %q, want %q", k.Root+" "+k.Problem, want)
		}
	}
}

func TestFindExtra(t *testing.T) {
	h := hosttest.Load(t, "linux-two-toolkits")
	extra := []Candidate{{Root: "/usr/local/cuda-13.4/", Origin: "gpubuild's cache"}, {Root: "/nowhere", Origin: "--gpu-toolkit"}}
	var got []string
	for _, k := range Find(h, extra) {
		got = append(got, k.Root+" ["+k.Origin+"] "+k.Problem)
	}
	want := "/usr/local/cuda [CUDA_HOME, PATH, a usual place] |/usr/local/cuda-13.4 [gpubuild's cache, a usual place] |/nowhere [--gpu-toolkit] it does not exist"
	hosttest.Equal(t, strings.Join(got, "|"), want)
}

func TestParts(t *testing.T) {
	missing := map[string]string{}
	for _, k := range Find(hosttest.Load(t, "linux-incomplete"), nil) {
		missing[k.Version.String()] = strings.Join(k.Missing, " ")
	}
	want := map[string]string{"13.4": "crt", "13.3": "nvvm", "13.2": "runtime", "13.1": "cccl", "12.9": "nvcc"}
	hosttest.Equal(t, fmt.Sprint(missing), fmt.Sprint(want), missing, want)
}

// TestDamage: NVIDIA keeps some of nvcc's files with it; a layout that has none of them there is not damaged.
func TestDamage(t *testing.T) {
	for _, tt := range []struct{ story, has, path, want string }{
		{"whole", "cudafe++ fatbinary nvcc.profile ptxas", "", ""},
		{"no ptxas", "cudafe++ fatbinary nvcc.profile", "", "bin/ptxas"},
		{"no nvcc.profile", "cudafe++ fatbinary ptxas", "", "bin/nvcc.profile"},
		{"ptxas on PATH", "cudafe++ fatbinary nvcc.profile", "/p", ""},
		{"another layout", "", "", ""},
	} {
		text := "os: linux\n-- @empty --\n/c/bin/nvcc +x\n/c/include/cuda.h\n/p/ptxas +x\n-- @env --\nPATH=" + tt.path + "\n"
		for _, name := range strings.Fields(tt.has) {
			text += "-- /c/bin/" + name + " +x --\n\n"
		}
		h, err := hosttest.Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if k := Find(h, []Candidate{{Root: "/c"}})[0]; k.Damage != tt.want || k.Has(PartTools) != (tt.want == "") {
			t.Errorf("%s: %q, %q", tt.story, k.Damage, k.Missing)
		}
	}
}

// TestIs holds that one root has many names: a slash at its end, a link, a relative step.
func TestIs(t *testing.T) {
	h := hosttest.Load(t, "linux-two-toolkits")
	k := Find(h, nil)[0]
	for path, want := range map[string]bool{
		"/usr/local/cuda": true, "/usr/local/cuda/": true, "/usr/local/cuda-12.4": true, "/usr/local/../local/cuda//": true,
		"/usr/local/cuda-13.4": false, "": false, "cuda": false, "/nowhere": false,
	} {
		if k.Is(h, path) != want {
			t.Errorf("%q: got %v", path, !want)
		}
	}
}

func TestVersionFiles(t *testing.T) {
	for _, tt := range []struct{ story, files, want string }{
		{"version.json", "-- /c/version.json --\n{\"cuda\":{\"version\":\"13.4.1\"}}\n", "13.4 13.4.1"},
		{"version.txt", "-- /c/version.txt --\nCUDA Version 10.2.89\n", "10.2 10.2.89"},
		{"cuda.h only", "", "12.6 12.6"},
		{"version.json cut off", "-- /c/version.json --\n{\"cuda\":{\"vers", "12.6 12.6"},
		{"version.json of another shape", "-- /c/version.json --\n[1]\n", "12.6 12.6"},
		{"version.txt of another program", "-- /c/version.txt --\n7.0.0\n", "12.6 12.6"},
		{"no number in it", "-- /c/version.json --\n{\"cuda\":{\"version\":\"latest\"}}\n", "12.6 12.6"},
	} {
		t.Run(tt.story, func(t *testing.T) {
			h := hosttest.Must(hosttest.Parse(
				[]byte(
					"os: linux\n-- @env --\nCUDA_HOME=/c\n-- /c/include/cuda.h --\n/* CUDA_VERSION 1 */\n#define CUDA_VERSION 12060\n" + tt.files,
				),
			))(t)
			k := Find(h, nil)[0]
			hosttest.Equal(t, k.Version.String()+" "+k.Label, tt.want)
		})
	}
}

// TestWindowsLayout holds that the types carry a Windows toolkit, too, looked at from any system.
func TestWindowsLayout(t *testing.T) {
	h := hosttest.Must(hosttest.Parse([]byte(`os: windows
-- @env --
CUDA_PATH=C:\Program Files\NVIDIA GPU Computing Toolkit\CUDA\v13.4\
CUDA_PATH_V13_4=C:\Program Files\NVIDIA GPU Computing Toolkit\CUDA\v13.4
-- @empty --
C:\Program Files\NVIDIA GPU Computing Toolkit\CUDA\v13.4\bin\nvcc.exe
C:\Program Files\NVIDIA GPU Computing Toolkit\CUDA\v13.4\nvvm\bin\x64\cicc.exe
C:\Program Files\NVIDIA GPU Computing Toolkit\CUDA\v13.4\lib\x64\cudart.lib
C:\Program Files\NVIDIA GPU Computing Toolkit\CUDA\v13.4\include\cuda_runtime.h
C:\Program Files\NVIDIA GPU Computing Toolkit\CUDA\v13.4\include\nv\target
-- C:\Program Files\NVIDIA GPU Computing Toolkit\CUDA\v13.4\include\cuda.h --
#define CUDA_VERSION 13040
-- C:\Program Files\NVIDIA GPU Computing Toolkit\CUDA\v13.4\include\crt\host_config.h --
#if _MSC_VER < 1920 || _MSC_VER >= 1960
#error -- unsupported
#endif
`)))(t)
	all := Find(h, nil)
	if len(all) != 1 {
		t.Fatalf("got %d toolkits: %+v", len(all), all)
	}
	k := all[0]
	if len(k.Missing) > 0 || k.Bounds.MSCMax != 1960 || k.Origin != "CUDA_PATH, CUDA_PATH_V13_4, a usual place" ||
		!strings.HasSuffix(k.Lib, `\lib\x64`) {
		t.Errorf("got %+v", k)
	}
}

// TestWindowsCUPTI holds where CUPTI's library is on Windows, and that its numbers are compared as numbers.
func TestWindowsCUPTI(t *testing.T) {
	for _, tt := range []struct{ story, files, want string }{
		{"none", "", ""},
		{"the installer's of CUDA 12", `extras\CUPTI\lib64\cupti64_2024.3.2.dll`, `extras\CUPTI\lib64\cupti64_2024.3.2.dll`},
		{"the installer's of CUDA 13", `bin\x64\cupti64_2026.3.1.dll`, `bin\x64\cupti64_2026.3.1.dll`},
		{"a wheel's", `bin\x86_64\cupti64_2026.3.1.dll`, `bin\x86_64\cupti64_2026.3.1.dll`},
		{"an older one was left", "extras\\CUPTI\\lib64\\cupti64_2026.9.1.dll\nC:\\cuda\\extras\\CUPTI\\lib64\\cupti64_2026.10.0.dll", `extras\CUPTI\lib64\cupti64_2026.10.0.dll`},
		{"that of 13.5 beside an older one", "bin\\x64\\cupti64_2026.3.1.dll\nC:\\cuda\\bin\\x64\\cupti64_13.dll", `bin\x64\cupti64_13.dll`},
		{"that of 10.2", `extras\CUPTI\lib64\cupti64_102.dll`, `extras\CUPTI\lib64\cupti64_102.dll`},
		{"something else of that name", `extras\CUPTI\lib64\cupti64_old.dll`, ""},
	} {
		t.Run(tt.story, func(t *testing.T) {
			text := "os: windows\n-- @env --\nCUDA_PATH=C:\\cuda\n-- @empty --\nC:\\cuda\\bin\\nvcc.exe\n"
			if tt.files != "" {
				text += `C:\cuda\` + tt.files + "\n"
			}
			h := hosttest.Must(hosttest.Parse([]byte(text)))(t)
			want := tt.want
			if want != "" {
				want = `C:\cuda\` + want
			}
			if all := Find(h, nil); len(all) != 1 || all[0].CUPTI != want {
				t.Errorf("got %+v", all)
			}
		})
	}
}

func TestReleases(t *testing.T) {
	all := Releases()
	if len(all) == 0 {
		t.Fatal("releases.toml cannot be read")
	}
	for i, r := range all {
		if i > 0 && r.Version.Compare(all[i-1].Version) <= 0 || r.SM[0] == 0 || r.SM[0] > r.SM[1] {
			t.Errorf("entry %d: %+v", i, r)
		}
	}
	for v, want := range map[gpu.Version]string{
		{Major: 13, Minor: 4}: "sm_75 sm_121", {Major: 12, Minor: 0}: "sm_50 sm_90", {Major: 13, Minor: 9}: "sm_75 sm_00", {Major: 14}: "sm_00 sm_00",
	} {
		lo, hi := archs(v)
		hosttest.Equal(t, lo.String()+" "+hi.String(), want, v)
	}
}

// TestPublishedBounds: releases.toml says of host compilers what the headers of real toolkits say.
func TestPublishedBounds(t *testing.T) {
	need.Asked(t, "toolkit")
	for _, root := range filepath.SplitList(need.Given("toolkit")) {
		seen := false
		for _, k := range Find(hosttest.Must(local.Host())(t), []Candidate{{Root: root, Origin: "test"}}) {
			is, says := k.Bounds, Published(k.Version).Bounds
			seen = seen || k.Root == root
			if k.Root == root && (is.GCCMax != says.GCCMax || is.ClangMax != says.ClangMax || is.MSCMin != says.MSCMin || is.MSCMax != says.MSCMax) {
				t.Errorf("CUDA %s: %+v, and releases.toml says %+v", k.Version, is, says)
			}
		}
		hosttest.Equal(t, seen, true, root)
	}
}

// TestUnreadable holds that a tree that cannot be read is reported and nothing crashes.
func TestUnreadable(t *testing.T) {
	for _, k := range Find(hosttest.Load(t, "linux-unreadable"), nil) {
		switch k.Root {
		case "/opt/secret", "/opt/file":
			if k.Problem == "" {
				t.Errorf("%s: no problem reported", k.Root)
			}
		case "/opt/closed-header":
			if k.Problem != "" || k.Has(PartCRT) || k.Bounds.GCCMax != 0 {
				t.Errorf("got %+v", k)
			}
		}
	}
}

func TestNoSystem(t *testing.T) {
	h := hosttest.Must(hosttest.Parse([]byte("os: darwin\n-- @env --\nCUDA_HOME=/Developer/NVIDIA/CUDA-10.2\n")))(t)
	if all := Find(h, nil); len(all) != 1 || all[0].Problem == "" || h.OS != buildenv.Darwin {
		t.Errorf("got %+v", all)
	}
}

// TestForeignNVCC: an nvcc for another processor is no toolkit's, whatever lies around it; a script says nothing of one.
func TestForeignNVCC(t *testing.T) {
	for machine, want := range map[string]string{"\x3e": "", "\xb7": "its nvcc is a program for arm64, which this machine does not run"} {
		dir := t.TempDir()
		header := filepath.Join(dir, "include", "cuda.h")
		hosttest.OK(t, errors.Join(os.Mkdir(filepath.Join(dir, "bin"), 0o755), os.Mkdir(filepath.Dir(header), 0o755),
			os.WriteFile(header, nil, 0o644)))
		elf := "\x7fELF\x02\x01\x01" + strings.Repeat("\x00", 9) + "\x03\x00" + machine + "\x00\x01\x00"
		hosttest.OK(t, os.WriteFile(filepath.Join(dir, "bin", "nvcc"), []byte(elf), 0o755))
		h := buildenv.Host{OS: buildenv.Linux, Arch: "amd64", Files: disk{}, Env: buildenv.NewEnv(buildenv.Linux, []string{"CUDA_HOME=" + dir})}
		hosttest.Equal(t, Find(h, nil)[0].Problem, want)
		hosttest.OK(t, os.Remove(header))
		if got := Find(h, nil)[0].Problem; want == "" && got != "only nvcc is there, without headers and libraries of CUDA" {
			t.Errorf("nvcc alone: %q", got)
		}
	}
}

// disk reads the real disk.
type disk struct{}

func (disk) Stat(path string) (fs.FileInfo, error)      { return os.Stat(path) }
func (disk) ReadDir(path string) ([]fs.DirEntry, error) { return os.ReadDir(path) }
func (disk) EvalSymlinks(path string) (string, error)   { return filepath.EvalSymlinks(path) }
func (disk) Open(path string) (fs.File, error)          { return os.Open(path) }

// TestDistPackages holds that what Debian's own pip installs is known as wheels, whose nvcc and nvvm may differ.
func TestDistPackages(t *testing.T) {
	h, err := hosttest.Parse(
		[]byte(
			"os: linux\n-- @env --\nCUDA_HOME=/usr/local/lib/python3.12/dist-packages/nvidia/cu13\n-- @dirs --\n/usr/local/lib/python3.12/dist-packages/nvidia_cuda_nvcc-13.4.92.dist-info\n" +
				"/usr/local/lib/python3.12/dist-packages/nvidia_nvvm-13.3.73.dist-info\n-- @empty --\n/usr/local/lib/python3.12/dist-packages/nvidia/cu13/bin/nvcc +x\n",
		),
	)
	if err != nil {
		t.Fatal(err)
	}
	found := Find(h, nil)
	if len(found) != 1 || found[0].Packaged != Wheels || !strings.Contains(found[0].Problem, "two releases") {
		t.Errorf("got %+v", found)
	}
}

// TestUnusable: what NVCC names is a program, or it is said what it is and what to name.
func TestUnusable(t *testing.T) {
	t.Parallel()
	const linux, windows = "os: linux\ncwd: /w\n-- @env --\nPATH=/usr/bin\n-- @empty --\n/usr/bin/ccache +x\n/t/bin/nvcc +x\n",
		"os: windows\ncwd: C:\\w\n-- @env --\nPATH=C:\\x\n-- @empty --\nC:\\t\\bin\\nvcc.exe +x\n"
	for _, tt := range []struct{ host, program, want string }{
		{linux, "/t/bin/nvcc", ""},
		{linux, "ccache", ""},
		{linux, "/t", "it is a directory; name the program: /t/bin/nvcc"},
		{linux, "/t/bin/", "it is a directory; name the program: /t/bin/nvcc"},
		{windows, `C:\t`, `it is a directory; name the program: C:\t\bin\nvcc.exe`},
		{windows, `C:\t\bin`, `it is a directory; name the program: C:\t\bin\nvcc.exe`},
		{linux, "ccache /t/bin/nvcc", "it is taken for the name of one program; name /t/bin/nvcc alone: a launcher such as ccache is put first on " +
			"PATH by a link to it that is called nvcc"},
		{linux, "/usr/bin/ccache nvcc", "it is taken for the name of one program; name nvcc alone: a launcher such as ccache is put first on " +
			"PATH by a link to it that is called nvcc"},
		{linux, "/t/my tools/nvcc", "it does not exist"},
		{linux, "/t/nvcc", "it does not exist"},
		{linux, "nvcc-77", "it is not on PATH"},
	} {
		h := hosttest.Must(hosttest.Parse([]byte(tt.host)))(t)
		hosttest.Equal(t, Unusable(h, tt.program), tt.want, tt.program)
	}
}
