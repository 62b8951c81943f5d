package doctor_test

import (
	"strings"
	"testing"

	"gpubuild/buildenv"
	"gpubuild/cmd/internal/doctor"
	"gpubuild/gpu"
	"gpubuild/toolchain"
	"gpubuild/toolchain/cuda"
	"gpubuild/toolchain/loader"
)

func TestLoaderPath(t *testing.T) {
	lib := func(name string, kind loader.Kind, why string) doctor.RunLibrary {
		l := loader.Library{Name: name, Kind: kind}
		switch kind {
		case loader.Added:
			l.Path = "/tk/lib64/" + name
		case loader.Missing:
			l.Problem = "not found"
		}
		return doctor.RunLibrary{Crate: "cudarc 0.19.10", Why: why, Found: l}
	}
	for _, tt := range []struct {
		story        string
		libs         []doctor.RunLibrary
		build, prove doctor.State
		says, fix    string
	}{
		{"driver only", nil, doctor.Info, doctor.Info, "no crate here needs", ""},
		{"all on the loader's path", []doctor.RunLibrary{lib("libcublas.so.13", loader.OK, "to start")}, doctor.OK, doctor.OK,
			"a bare start finds libcublas.so.13", ""},
		{"only through gpubuild, and the program cannot start without",
			[]doctor.RunLibrary{lib("libcublas.so.13", loader.Added, "to start")}, doctor.OK, doctor.OK,
			"found only under `gpubuild run`: libcublas.so.13 (/tk/lib64)", ""},
		{"only through gpubuild, opened when it is used",
			[]doctor.RunLibrary{lib("libnvrtc.so.13", loader.Added, "when they are first used")}, doctor.OK, doctor.OK,
			"found only under", ""},
		{"nowhere, behind one that is there", []doctor.RunLibrary{lib("libcublas.so.13", loader.OK, "to start"),
			lib("libcudnn.so.9", loader.Missing, "to start")}, doctor.Warning, doctor.Missing,
			"not found: libcudnn.so.9", "gpubuild toolchain install 13.4 --parts run,cudnn"},
		{"a stub", []doctor.RunLibrary{lib("libcublas.so.13", loader.Stub, "to start")}, doctor.Warning, doctor.Missing, "not found",
			"gpubuild toolchain install 13.4 --parts run"},
	} {
		for prove, want := range map[bool]doctor.State{false: tt.build, true: tt.prove} {
			f := doctor.Facts{Prove: prove, Run: doctor.RunTime{Libraries: tt.libs, Dirs: []string{"/tk/lib64"}}, Cache: "/c",
				Host:   buildenv.Host{OS: buildenv.Linux},
				Chosen: toolchain.Set{Toolkit: &cuda.Toolkit{Root: "/c/toolkits/cuda-13.4", Version: gpu.Version{Major: 13, Minor: 4}}}}
			c := find(t, doctor.Run(f), "loader.path")
			if c.State != want || !strings.Contains(c.Says, tt.says) || !strings.Contains(c.Fix, tt.fix) {
				t.Errorf("%s, prove %v: %s %s | %s, want %s", tt.story, prove, c.State, c.Says, c.Fix, want)
			}
			if c.State != doctor.OK && len(tt.libs) > 0 && (c.Breaks == "" || len(c.Places) == 0) {
				t.Errorf("%s: %+v", tt.story, c)
			}
		}
	}
	f := doctor.Facts{Prove: true, Run: doctor.RunTime{Libraries: []doctor.RunLibrary{lib("libcublas", loader.Missing, "to start")}},
		ChooseErr: &toolchain.MissingError{What: "CUDA toolkit", Part: toolchain.PartToolkit}}
	if c := find(t, doctor.Run(f), "loader.path"); c.State != doctor.Info || !strings.Contains(c.Says, "see cuda.toolkit") {
		t.Errorf("without a toolkit: %+v", c)
	}
	f.ChooseErr, f.Prove = nil, false // crates that build without one, as burn's do, and load NVRTC when they run
	if c := find(t, doctor.Run(f), "loader.path"); c.State != doctor.Warning || c.Fix != "gpubuild toolchain install --parts run" {
		t.Errorf("a build that needs no toolkit: %+v", c)
	}
	f.Run.Libraries = append(f.Run.Libraries, lib("libnccl", loader.Missing, "when they are first used")) // docs.nvidia.com/deeplearning/nccl
	if c := find(t, doctor.Run(f), "loader.path"); !strings.HasSuffix(c.Fix, "--parts run; from NVIDIA's package repository: apt install libnccl2") {
		t.Errorf("NCCL: %+v", c)
	}
}
