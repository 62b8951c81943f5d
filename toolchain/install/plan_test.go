package install

import (
	"errors"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
	"gpubuild/gpu"
	"gpubuild/toolchain/install/redist"
	"gpubuild/toolchain/install/tree"
)

func linuxHost() buildenv.Host {
	return buildenv.Host{OS: buildenv.Linux, Arch: "amd64", Files: diskFiles{}, Env: buildenv.NewEnv(buildenv.Linux, nil)}
}

// The pins can be fetched and checked, and each set has all parts for both platforms.
func TestPinsAreWhole(t *testing.T) {
	c, err := DefaultCatalog()
	if err != nil {
		t.Fatal(err)
	}
	plain := regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)
	hash := regexp.MustCompile(`^[0-9a-f]{64}$`)
	file := regexp.MustCompile(`^[A-Za-z0-9_.]+-[A-Za-z0-9_.]+-py[a-z0-9.]*-none-[a-z0-9_.]+\.whl$`)
	for _, p := range c.Parts {
		if !plain.MatchString(p.Name) || !plain.MatchString(p.Package) || c.Groups[p.Group] == "" || c.Licences[p.Licence].Name == "" {
			t.Errorf("part %q lacks a package, a group or a licence", p.Name)
		}
	}
	for _, s := range c.Sets {
		platforms := []string{"linux-x86_64", "windows-x86_64"}
		if s.CUDA.Compare(gpu.Version{Major: 13, Minor: 4}) >= 0 {
			platforms = append(platforms, "linux-aarch64", "windows-aarch64")
		}
		if s.CUDA.IsZero() || !plain.MatchString(s.Release) || len(s.Platform) != len(platforms) {
			t.Errorf("set %q lacks its version or a platform", s.Release)
		}
		for _, platform := range platforms {
			wheels := s.Platform[platform]
			for _, p := range c.Parts {
				none := p.Name == "tileiras" && s.CUDA == gpu.Version{Major: 13} || p.Name == "culibos" && strings.HasPrefix(platform, "windows-") || p.Name == "cudnn" && platform == "windows-aarch64"
				if has := wheels[p.Name].File != ""; has == none {
					t.Errorf("CUDA %s for %s and its part %s: %v", s.Release, platform, p.Name, has)
				}
			}
			tag := map[string]string{"linux-x86_64": "_x86_64.whl", "linux-aarch64": "_aarch64.whl", "windows-x86_64": "-win_amd64.whl",
				"windows-aarch64": "-win_arm64.whl"}[platform]
			if nvcc, nvvm := wheels["nvcc"].Version, wheels["nvvm"].Version; nvcc != nvvm {
				t.Errorf("CUDA %s: nvcc %s and nvvm %s do not belong together", s.Release, nvcc, nvvm)
			}
			for name, w := range wheels {
				switch {
				case w.Package == "" || w.Licence == "":
					t.Errorf("CUDA %s for %s: no part is called %q", s.Release, platform, name)
				case !hash.MatchString(w.SHA256) || w.Size <= 0 || w.Unpacked <= 0:
					t.Errorf("%s: sha256 %q, sizes %d and %d", w, w.SHA256, w.Size, w.Unpacked)
				case !file.MatchString(w.File) || !plain.MatchString(w.Version) || !strings.Contains(w.File, "-"+w.Version+"-"):
					t.Errorf("%s: file %s", w, w.File)
				case !strings.HasSuffix(w.File, tag):
					t.Errorf("%s is not for %s", w.File, platform)
				}
			}
		}
	}
	if _, err := ParseCatalog([]byte("mirror = 1")); err == nil || !strings.Contains(err.Error(), "unknown key mirror") {
		t.Errorf("an unknown key: %v", err)
	}
}

func TestMakePlan(t *testing.T) {
	c, err := DefaultCatalog()
	if err != nil {
		t.Fatal(err)
	}
	v := func(major, minor int) gpu.Version { return gpu.Version{Major: major, Minor: minor} }
	tests := []struct {
		story string
		want  Want
		cuda  gpu.Version
		parts int
		err   string
		hint  string
	}{
		{story: "nothing known of driver and crates: the newest", cuda: v(13, 5), parts: 6},
		{story: "the driver supports 13.0", want: Want{MaxVersion: v(13, 0)}, cuda: v(13, 0), parts: 6},
		{story: "the locked cudarc stops at 13.2", want: Want{MaxVersion: v(13, 2)}, cuda: v(13, 2), parts: 6},
		{story: "the driver is newer than every set", want: Want{MaxVersion: v(14, 1)}, cuda: v(13, 5), parts: 6},
		{story: "a version was asked for", want: Want{Exact: v(13, 1), MaxVersion: v(13, 4)}, cuda: v(13, 1), parts: 6},
		{story: "a major version: its newest that the driver has", want: Want{Exact: v(13, 0), Release: "13", MaxVersion: v(13, 4)}, cuda: v(13, 4), parts: 6},
		{story: "everything", want: Want{Parts: []string{"all"}}, cuda: v(13, 5), parts: 12},
		{story: "everything of a release that lacks a part", want: Want{Parts: []string{"all"}, Exact: v(13, 0)}, cuda: v(13, 0), parts: 11},
		{story: "the compiler of tile kernels", want: Want{Parts: []string{"build", "tileiras"}, MaxVersion: v(13, 1)}, cuda: v(13, 1), parts: 6},
		{story: "the compiler of tile kernels, of a release before it", want: Want{Parts: []string{"tileiras"}, MaxVersion: v(13, 0)}, err: "CUDA 13.0 has no tileiras", hint: ""},
		{story: "one part and a group that holds it", want: Want{Parts: []string{"cublas", "run"}}, cuda: v(13, 5), parts: 3},
		{story: "a driver of CUDA 12", want: Want{MaxVersion: v(12, 4)}, err: "CUDA 13.0 is newer than 12.4", hint: "redistributable archives"},
		{story: "asked for more than the driver has", want: Want{Exact: v(13, 4), MaxVersion: v(13, 0)}, err: "no CUDA 13.4 to fetch", hint: "ask for CUDA 13.0 or older"},
		{story: "a version that nobody pinned", want: Want{Exact: v(12, 8)}, err: "no CUDA 12.8 to fetch", hint: "gpubuild toolchain install 13."},
		{story: "a part that nobody has", want: Want{Parts: []string{"nsight"}}, err: `"nsight" is no part`, hint: "build, cudnn, cupti, link, run"},
	}
	for _, tt := range tests {
		t.Run(tt.story, func(t *testing.T) {
			p, err := MakePlan(c, linuxHost(), "/c", tt.want)
			if tt.err != "" {
				var hinted interface{ Hint() string }
				if err == nil || !strings.Contains(err.Error(), tt.err) || !errors.As(err, &hinted) || !strings.Contains(hinted.Hint(), tt.hint) {
					t.Fatalf("got %v (%+v), want %q with hint %q", err, hinted, tt.err, tt.hint)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if p.CUDA != tt.cuda || len(p.Items) != tt.parts || p.Installed {
				t.Errorf("got CUDA %s with %d parts", p.CUDA, len(p.Items))
			}
		})
	}
	windows := buildenv.Host{OS: buildenv.Windows, Arch: "amd64", Files: diskFiles{}}
	if p, err := MakePlan(c, windows, `C:\c`, Want{Parts: []string{"all"}}); err != nil || len(p.Items) != 11 {
		t.Errorf("everything for Windows, where there is no culibos: %d parts, %v", len(p.Items), err)
	}
	if _, err := MakePlan(c, windows, `C:\c`, Want{Parts: []string{"culibos"}}); err == nil || !strings.Contains(err.Error(), "has no culibos") {
		t.Errorf("culibos for Windows: %v", err)
	}
	arm := buildenv.Host{OS: buildenv.Windows, Arch: "arm64", Files: diskFiles{}}
	if p, err := MakePlan(c, arm, `C:\c`, Want{Parts: []string{"all"}}); err != nil || len(p.Items) != 10 {
		t.Errorf("everything for Windows on ARM, where there is no cuDNN either: %d parts, %v", len(p.Items), err)
	}
	if _, err := MakePlan(c, buildenv.Host{OS: "darwin", Arch: "arm64", Files: diskFiles{}}, "/c", Want{}); err == nil {
		t.Error("there is no CUDA for macOS")
	}
}

// What a user agrees to is read here as he reads it.
func TestPlanLines(t *testing.T) {
	c, err := DefaultCatalog()
	if err != nil {
		t.Fatal(err)
	}
	p, err := MakePlan(c, linuxHost(), "/c", Want{MaxVersion: gpu.Version{Major: 13, Minor: 3}, MaxBecause: "the locked cudarc knows no newer one", Parts: []string{"build", "cupti", "cudnn"}})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"CUDA 13.3.1 for linux-x86_64: fetch 639 MB by your own pip, 1.24 GB on disk",
		"nvidia-cuda-nvcc 13.3.73 (45 MB)",
		"nvidia-nvvm 13.3.73 (69 MB)",
		"nvidia-cuda-crt 13.3.73 (157 kB)",
		"nvidia-cuda-runtime 13.3.29 (2 MB)",
		"nvidia-cuda-cccl 13.3.3.4.1 (3 MB)",
		"nvidia-cuda-cupti 13.3.75 (12 MB)",
		"nvidia-cudnn-cu13 9.21.1.3 (507 MB)",
		"licence: NVIDIA CUDA Toolkit End User License Agreement, https://docs.nvidia.com/cuda/eula/",
		"licence: NVIDIA cuDNN Software License Agreement, https://docs.nvidia.com/deeplearning/cudnn/backend/latest/reference/eula.html",
		"into " + p.Root,
		"not taken: CUDA 13.5 is newer than 13.3 (the locked cudarc knows no newer one)",
		"not taken: CUDA 13.4 is newer than 13.3 (the locked cudarc knows no newer one)",
	}
	if got := p.Lines(); !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if !strings.HasPrefix(p.Root, "/c/toolkits/cuda-13.3-linux-x86_64") {
		t.Errorf("root %s", p.Root)
	}
	other, err := MakePlan(c, linuxHost(), "/c", Want{Exact: p.CUDA})
	if err != nil || other.Root != p.Root {
		t.Errorf("two sets of parts have two roots: %s, %s (%v)", p.Root, other.Root, err)
	}
}

// What would be installed, from where, how large and under whose licence follows from the release and from what the cache has.
func TestDecide(t *testing.T) {
	c, err := DefaultCatalog()
	if err != nil {
		t.Fatal(err)
	}
	archives := []tree.Archive{
		{Part: "nvcc", Package: "nvidia-cuda-nvcc", Version: "13.4.92", Licence: "cuda", SHA256: "aa", File: "nvcc.whl", Size: 100, Unpacked: 300},
		{Part: "cudnn", Package: "nvidia-cudnn-cu13", Version: "9.21", Licence: "cudnn", SHA256: "bb", File: "cudnn.whl", Size: 1000, Unpacked: 2000},
	}
	o := offer{cuda: gpu.Version{Major: 13, Minor: 4}, release: "13.4.3", archives: archives, rejected: []string{"CUDA 14.0 is newer"}}
	there := Installation{Root: "/c/toolkits/x", CUDA: o.cuda, Release: o.release, Platform: "linux-x86_64",
		Schema: 2, LinkStubs: true, Parts: []tree.InstalledPart{{Name: "cudnn"}, {Name: "cublas"}, {Name: "nvcc"}}}
	bare, lesser := there, there
	bare.LinkStubs = false
	lesser.Parts = there.Parts[1:]
	for story, tt := range map[string]struct {
		want        Want
		files       string // names of the files that the cache has
		installed   []Installation
		fetch, disk int64
		is          bool
		notes       int
	}{
		"nothing here":                      {fetch: 1100, disk: 2300, notes: 1},
		"one wheel here":                    {files: "cudnn.whl", fetch: 100, disk: 2300, notes: 1},
		"both here":                         {files: "cudnn.whl nvcc.whl", disk: 2300, notes: 1},
		"by version: nothing to explain":    {want: Want{Exact: o.cuda}, fetch: 1100, disk: 2300},
		"a toolkit has it all, and more":    {installed: []Installation{there}, is: true, notes: 1},
		"that toolkit has no stubs":         {installed: []Installation{bare}, notes: 1},
		"a toolkit of that release, lesser": {installed: []Installation{lesser}, fetch: 1000, disk: 2000, notes: 1},
	} {
		have := func(a tree.Archive) string {
			if strings.Contains(tt.files, a.File) {
				return "/c/wheels/" + a.File
			}
			return ""
		}
		p, err := decide(c, tt.want, o, store{linuxHost(), "/c", tt.installed, have})
		if err != nil || p.Fetch != tt.fetch || p.Disk != tt.disk || p.Installed != tt.is || len(p.Notes) != tt.notes {
			t.Errorf("%s: %+v", story, p)
		}
		if len(tt.installed) > 0 != (p.Root == there.Root) || len(tt.installed) == 0 && (len(p.Licences) != 2 || p.Licences[0] != c.Licences["cuda"]) {
			t.Errorf("%s: root %s, licences %v", story, p.Root, p.Licences)
		}
	}
}

// TestOneReleaseOfAVersion: a release with three numbers is taken as it is written, and never mixed with another one that is installed.
func TestOneReleaseOfAVersion(t *testing.T) {
	c, err := DefaultCatalog()
	if err != nil {
		t.Fatal(err)
	}
	v := gpu.Version{Major: 13, Minor: 2}
	if p, err := MakePlan(c, linuxHost(), "/c", Want{Exact: v, Release: "13.2.2"}); err != nil || p.Release != "13.2.2" {
		t.Errorf("the pinned one: %s, %v", p.Release, err)
	}
	_, err = MakePlan(c, linuxHost(), "/c", Want{Exact: v, Release: "13.2.1"})
	if err == nil || !strings.Contains(err.Error(), "no CUDA 13.2.1 to fetch") || exit.Of(err) != exit.Usage {
		t.Errorf("another one: %v", err)
	}
	there := Installation{Root: "/c/toolkits/x", CUDA: v, Release: "13.2.2", Platform: "linux-x86_64", Schema: 2}
	none := func(tree.Archive) string { return "" }
	_, err = decide(c, Want{Exact: v, Release: "13.2.1"}, offer{cuda: v, release: "13.2.1"}, store{linuxHost(), "/c", []Installation{there}, none})
	if err == nil || !strings.Contains(err.Error(), "installed as 13.2.2") || exit.Of(err) != exit.Misfit {
		t.Errorf("beside another one: %v", err)
	}
}

// TestAVersionThatDoesNotExist is refused in one sentence, with the version to take instead.
func TestAVersionThatDoesNotExist(t *testing.T) {
	c, err := DefaultCatalog()
	if err != nil {
		t.Fatal(err)
	}
	h := testHost(t)
	h.OS, h.Arch = "linux", "amd64"
	_, err = MakePlan(c, h, t.TempDir(), Want{Exact: gpu.Version{Major: 99}, Release: "99"})
	offline := &RedistError{First: err, Err: &redist.FetchError{Address: "https://x/", Offline: true, Err: errors.New("dial tcp")}}
	if got, want := offline.Error(), "no CUDA 99 to fetch for linux-x86_64\n  pip has "+strings.Join(c.Releases("linux-x86_64"), ", ")+
		"\n  NVIDIA's redistributable archives, which have others, cannot be reached: https://x/"; got != want ||
		exit.Of(offline) != exit.Other || !strings.HasPrefix(offline.Hint(), "ask for one that pip has; or check the network") {
		t.Errorf("got %q, %d", got, exit.Of(offline))
	}
	offline.First = &NoPipError{Install: "apt install python3-pip"}
	if got := offline.Hint(); !strings.HasPrefix(got, "install pip (apt install python3-pip); or check the network") {
		t.Errorf("without pip: %s", got)
	}
	if got := exit.Of(&RedistError{First: err, Err: err}); got != exit.Usage {
		t.Errorf("a version that is nowhere: %d", got)
	}
	both := &RedistError{First: err, Err: &NoFitError{Platform: Platform(h), Want: Want{Exact: gpu.Version{Major: 99}, Release: "99"}}}
	if got, want := both.Error(), "no CUDA 99 to fetch for linux-x86_64"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := both.Hint(), "the newest is CUDA "+c.Sets[0].CUDA.String()+": gpubuild toolchain install "+c.Sets[0].CUDA.String(); got != want {
		t.Errorf("hint %q, want %q", got, want)
	}
}
