package runs_test

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"gpubuild/buildenv/hosttest"
	"gpubuild/gpu"
	"gpubuild/gpu/fatbin"
	"gpubuild/gpu/runs"
)

// target reads "sm_120 570.26", for Linux.
func target(t testing.TB, s string) runs.Target {
	sm, driver, _ := strings.Cut(s, " ")
	return runs.Target{GPU: hosttest.Must(gpu.ParseArch(sm))(t).Capability, Driver: driver, OS: "linux"}
}

// TestPairs: code and where it runs, each with its evidence: measured, from a report of somebody who did, or from NVIDIA's documents.
func TestPairs(t *testing.T) {
	var pairs []struct {
		Kind, Arch, PTX, Toolkit, Compression, Device, Driver, Evidence string
		Runs                                                            *bool // nil: nobody knows
	}
	hosttest.OK(t, json.Unmarshal(hosttest.Must(os.ReadFile("testdata/pairs.json"))(t), &pairs))
	for _, p := range pairs {
		im := fatbin.Image{Kind: p.Kind, Arch: hosttest.Must(gpu.ParseArch(p.Arch))(t), PTXVersion: p.PTX, Toolkit: p.Toolkit,
			Compression: p.Compression, Kernels: []string{"k"}, Offset: 16}
		want := gpu.Unknown
		switch {
		case p.Runs != nil && !*p.Runs:
			want = gpu.No
		case p.Runs != nil && p.Kind == fatbin.PTX:
			want = gpu.Translated
		case p.Runs != nil:
			want = gpu.Yes
		}
		v := runs.Judge(&fatbin.Report{Images: []fatbin.Image{im}}, nil, target(t, p.Device+" "+p.Driver))
		hosttest.Equal(t, v.Answer, want, p.Kind, p.Arch, p.PTX, p.Toolkit, p.Compression, "on", p.Device, p.Driver, p.Evidence)
		if want == gpu.No && (v.Kernels[0].Why == "" || v.Kernels[0].Fix == "") {
			t.Errorf("%+v: no reason or no fix: %+v", p, v.Kernels[0])
		}
		// An answer that names the oldest driver is yes with it.
		if v.Lowest != "" && want != gpu.No {
			again := runs.Judge(&fatbin.Report{Images: []fatbin.Image{im}}, nil, target(t, p.Device+" "+v.Lowest))
			if a := again.Answer; a != gpu.Yes && a != gpu.Translated {
				t.Errorf("%+v: with its oldest driver %s: %s %v", p, v.Lowest, a, again.Kernels)
			}
		}
	}
	hosttest.Equal(t, len(pairs), 42)
}

// image reads "0 cubin sm_80 a,b 12.8": the fatbin, the kind, the architecture, the kernels and the toolkit or PTX version.
func image(t testing.TB, at int, s string) (im fatbin.Image) {
	w := strings.Fields(s)
	_, err := fmt.Sscan(w[0], &im.Fatbin)
	hosttest.OK(t, err)
	im.Offset, im.Kind, im.Arch = int64(at+1), w[1], hosttest.Must(gpu.ParseArch(w[2]))(t)
	im.Relocatable = strings.HasPrefix(w[2], "rel")
	if w[3] != "-" {
		im.Kernels = strings.Split(w[3], ",")
	}
	if im.Arch.Virtual {
		im.PTXVersion = w[4]
	} else if w[4] != "-" {
		im.Toolkit = w[4]
	}
	if im.Kind == fatbin.PTXText {
		im.Fatbin = im.Offset
	}
	for _, more := range w[5:] {
		switch more {
		case "rel":
			im.Relocatable = true
		case fatbin.Zstd:
			im.Compression = more
		default:
			im.Where = more
		}
	}
	return im
}

func TestFiles(t *testing.T) {
	for _, tt := range []struct {
		story  string
		on     string
		images string // one after the other, with commas
		loads  string
		want   string // the answer, and each kernel's
		says   string
	}{
		{"one name in two files: each fatbin counts", "sm_90 570", "0 cubin sm_75 k 12.8; 9 cubin sm_90 k 12.8", "", "no: k no, k yes", "sm_75 code does not run on 9.0"},
		{"machine code goes before PTX, which is newer than the driver", "sm_80 550", "0 cubin sm_80 k 12.8; 0 ptx compute_80 k 8.7", "", "yes: k yes", ""},
		{"PTX that is too new for the driver", "sm_90 550", "0 cubin sm_80 k 12.8; 0 ptx compute_80 k 8.7", "", "no: k no", "gpubuild build --gpu-arch=sm_90"},
		{"PTX text that is too new for the driver", "sm_90 550", "0 ptx-text compute_80 k 8.7", "", "no: k no", "gpubuild build --gpu-toolkit=12.4, or install driver 570.26 or newer"},
		{"the best machine code is taken, and lacks a kernel", "sm_89 570", "0 cubin sm_80 a,b 12.8; 0 cubin sm_86 a 12.8; 0 ptx compute_90 a,b,c 8.7", "", "no: a yes, b no, c no", "does not hold it"},
		{"PTX is not taken for a kernel that the machine code lacks", "sm_80 570", "0 cubin sm_80 a 12.8; 0 ptx compute_80 a,b 8.7", "", "no: a yes, b no", "cubin sm_80, which the driver takes"},
		{"two images for one GPU, and one lacks a kernel", "sm_90 570", "0 cubin sm_90 a 12.8; 0 cubin sm_90a a,b 12.8", "", "unknown: a yes, b unknown", ""},
		{"the program chooses among texts", "sm_86 570", "0 ptx-text compute_75 k 8.0; 0 ptx-text compute_90 k 8.0", "", "unknown: k translated, k unknown", "chooses itself"},
		{"texts that all run", "sm_120 570", "0 ptx-text compute_75 k 8.0; 0 ptx-text compute_80 l 8.7", "", "translated: k translated, l translated", ""},
		{"cudaforge's PTX for Hopper only", "sm_120 580", "0 ptx-text compute_90a k 8.0", "", "no: k no", "gpubuild build --gpu-arch=sm_120"},
		{"CUDA 11 and its first drivers", "sm_80 450.51.05", "0 cubin sm_80 k 11.0; 9 cubin sm_80 l 11.4", "", "no: k yes, l no", "code of CUDA 11 needs driver 455.23"},
		{"CUDA 11 and the first driver for all of it", "sm_80 450.80.02", "9 cubin sm_80 l 11.4", "", "yes: l yes", ""},
		{"the newest driver of all that is needed", "sm_80 525", "0 ptx compute_75 k 9.3 zstd", "", "no: k no", "install driver 610.43.02 or newer"},
		{"a GPU that CUDA 13 does not compile for", "sm_70 580", "0 cubin sm_80 k 13.5", "", "no: k no", "--gpu-arch=sm_70 --gpu-toolkit=12.9"},
		{"a driver that is too new for the GPU", "sm_70 590", "0 cubin sm_80 k 13.5", "", "no: k no", "--gpu-toolkit=12.9, and install a driver of branch 580"},
		{"a driver that does not know the GPU", "sm_120 560", "0 cubin sm_80 k 12.8", "", "no: k no", "--gpu-arch=sm_120, and install driver 570.26 or newer"},
		{"a toolkit that is newer than the driver", "sm_100 570", "0 cubin sm_80 k 13.5", "", "no: k no", "--gpu-arch=sm_100 --gpu-toolkit=12.8"},
		{"LTO-IR", "sm_90 580", "0 lto-ir sm_90 - -; 9 cubin sm_90 k 12.8", "", "unknown: k yes", "LTO-IR"},
		{"code for linking, linked", "sm_90 580", "0 cubin sm_90 k 12.8; 9 cubin sm_90 k 12.8 rel; 9 ptx compute_90 k 8.7", "", "yes: k yes", ""},
		{"code for linking, not linked", "sm_90 580", "9 cubin sm_90 k 12.8 rel", "", "unknown: k unknown", "device link"},
		{"code for linking that a driver may link", "sm_90 580", "0 cubin sm_80 k 12.8; 9 ptx compute_80 k 8.7 __nv_relfatbin", "", "unknown: k unknown", "may link"},
		{"code made at run time", "sm_90 580", "0 cubin sm_90 k 12.8", "libnvrtc.so.12", "unknown: k yes", "compiles code at run time"},
		{"a library that is newer than the driver", "sm_90 570", "0 cubin sm_90 k 12.8", "libcudart.so.13", "no: k yes", "libcudart.so.13 needs driver 580.65.06"},
		{"a library that the driver has", "sm_90 570", "0 cubin sm_90 k 12.8", "libcudart.so.12 libcublas.so.12", "yes: k yes", ""},
		{"no code", "sm_90 580", "", "libcuda.so.1", "unknown: ", "holds no kernel"},
		{"a GPU that nobody knows", "sm_88 580", "0 ptx compute_75 k 8.7", "", "unknown: k unknown", "does not know a GPU"},
		{"a driver that the table does not know yet", "sm_90 700.1", "0 ptx compute_75 k 9.9; 5 ptx compute_75 l 9.4", "", "unknown: k unknown, l translated", ""},
		{"a cubin that does not say what made it", "sm_86 535", "0 cubin sm_80 k -", "", "unknown: k unknown", ""},
		{"the same with a new driver", "sm_86 580", "0 cubin sm_80 k -", "", "yes: k yes", ""},
		{"a new one that may be for that architecture only", "sm_103 580", "0 cubin sm_100 k -", "", "unknown: k unknown", "very architecture"},
		{"another image is packed as the driver does not know", "sm_80 535", "0 cubin sm_80 k 12.2; 0 ptx compute_80 k 8.2 zstd", "", "unknown: k unknown", "zstd"},
		{"PTX without a target", "sm_80 580", "0 ptx compute_80 k x", "", "unknown: k unknown", ""},
		{"Jetson's drivers have other numbers", "sm_87 540.4.0", "0 ptx compute_80 k 8.5", "", "unknown: k unknown", ""},
	} {
		t.Run(tt.story, func(t *testing.T) {
			r := &fatbin.Report{Imports: strings.Fields(tt.loads)}
			for i, s := range strings.Split(tt.images, ";") {
				if s != "" {
					r.Images = append(r.Images, image(t, i, s))
				}
			}
			v := runs.Judge(r, nil, target(t, tt.on))
			var got []string
			says := strings.Join(v.Why, "\n")
			for _, k := range v.Kernels {
				got = append(got, k.Name+" "+string(k.Answer))
				says += "\n" + k.Why + "\n" + k.Fix
			}
			slices.Sort(got)
			hosttest.Equal(t, string(v.Answer)+": "+strings.Join(got, ", "), tt.want, says)
			if !strings.Contains(says, tt.says) {
				t.Errorf("it says %q, want %q", says, tt.says)
			}
		})
	}
	r := &fatbin.Report{Images: []fatbin.Image{image(t, 0, "0 cubin sm_90 k 12.8")}, Notes: []string{"0x10: an entry is cut off"}}
	hosttest.Equal(t, runs.Judge(r, nil, target(t, "sm_90 580")).Answer, gpu.Unknown, "what was not read")
	hosttest.Equal(t, runs.Judge(r, nil, target(t, "sm_80 580")).Answer, gpu.Unknown, "it may run there")
}
