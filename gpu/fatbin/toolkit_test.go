package fatbin

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gpubuild/buildenv/hosttest"
	"gpubuild/buildenv/hosttest/need"
)

// What the real nvcc writes, in every form that it has for fatbins, in a file of its own and at an odd place of a program.
func TestRealToolkit(t *testing.T) {
	nvcc := filepath.Join(need.Toolkit(t), "bin", "nvcc")
	need.Asked(t, "cc")
	cuobjdump, _ := need.Find("cuobjdump")
	const names = "_Z5scaleIfEvPT_i,matmul"
	for _, tt := range []struct {
		story string
		args  string
		want  []string // kind, arch, compression; sorted
	}{
		{"default", "-arch=sm_90", []string{"cubin sm_90 raw", "ptx compute_90 zstd"}},
		{"everything packed", "-arch=sm_90 -Xfatbin -compress-all", []string{"cubin sm_90 zstd", "ptx compute_90 zstd"}},
		{"everything packed for speed", "-arch=sm_90 -Xfatbin -compress-all -compress-mode=speed", []string{"cubin sm_90 lz4", "ptx compute_90 lz4"}},
		{"nothing packed", "-arch=sm_90 -no-compress", []string{"cubin sm_90 raw", "ptx compute_90 raw"}},
		{"the very architecture", "-gencode arch=compute_90a,code=[sm_90a,compute_90a]", []string{"cubin sm_90a raw", "ptx compute_90a zstd"}},
		{"a family", "-gencode arch=compute_100f,code=sm_100f", []string{"cubin sm_100f raw"}},
		{"several", "-gencode arch=compute_75,code=sm_75 -gencode arch=compute_80,code=[sm_80,compute_80] -gencode arch=compute_120a,code=sm_120a",
			[]string{"cubin sm_120a raw", "cubin sm_75 raw", "cubin sm_80 raw", "ptx compute_80 zstd"}},
		{"several packed together", "-concat -gencode arch=compute_80,code=[sm_80,compute_80] -gencode arch=compute_90,code=[sm_90,compute_90]",
			[]string{"cubin sm_80 zstd", "cubin sm_90 zstd", "ptx compute_80 zstd", "ptx compute_90 zstd"}},
		{"a device function of its own", "-arch=sm_90 -rdc=true -no-compress", []string{"cubin sm_90 raw", "ptx compute_90 raw"}},
	} {
		t.Run(tt.story, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "k.fatbin")
			out, err := exec.Command(nvcc, append(strings.Fields(tt.args), "-fatbin", "-o", file, filepath.Join("testdata", "kernels.cu"))...).CombinedOutput()
			if err != nil {
				if strings.Contains(string(out), "Unsupported gpu architecture") || strings.Contains(string(out), "Unknown option") {
					need.Missing(t, "toolkit", "this one cannot: %s", strings.TrimSpace(string(out)))
				}
				t.Fatalf("%v\n%s", err, out)
			}
			data := hosttest.Must(os.ReadFile(file))(t)
			odd := append(append(make([]byte, chunkSize-5), data...), ptx(t, "sm_80")...)
			host := scan(t, elfFile(62, 0, part{".rodata", odd}))
			alone := scan(t, data)
			if len(alone.Notes) > 0 || len(host.Notes) > 0 {
				t.Errorf("notes: %q %q", alone.Notes, host.Notes)
			}
			if got, want := len(host.Images), len(alone.Images)+1; got != want {
				t.Errorf("in a program: %d images, want %d", got, want)
			}
			var got, words []string
			for _, im := range alone.Images {
				got = append(got, fmt.Sprintf("%s %s %s", im.Kind, im.Arch, im.Compression))
				words = append(words, listing(im))
				hosttest.Equal(t, strings.Join(im.Kernels, ","), names, im.Kind, im.Arch, "kernels")
				if im.Kind == Cubin && im.Toolkit == "" || im.Kind == PTX && im.PTXVersion == "" {
					t.Errorf("no version: %+v", im)
				}
			}
			slices.Sort(got)
			slices.Sort(words)
			if !slices.Equal(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			if cuobjdump == "" {
				return // the oracle is a wheel of its own
			}
			if want := oracle(t, cuobjdump, file); !slices.Equal(words, want) {
				t.Errorf("got %q, cuobjdump says %q", words, want)
			}
		})
	}
}

// listed is a line of cuobjdump's lists.
var listed = regexp.MustCompile(`(?m)^(ELF|PTX) file +\d+: .*\.(sm_\d+a?)f?\.`)

// listing words an image as cuobjdump does, which tells no family suffix.
func listing(im Image) string {
	a := im.Arch
	a.Virtual = false
	kind := "ELF "
	if im.Kind == PTX {
		kind = "PTX "
	}
	return kind + strings.TrimSuffix(a.String(), "f")
}

// used is a kernel of cuobjdump -res-usage.
var used = regexp.MustCompile(`(?m)^ Function (\S+):\n +REG:(\d+) STACK:(\d+) SHARED:(\d+) .*CONSTANT\[0\]:(\d+)`)

// TestResources holds what each kernel takes against NVIDIA's own tool, for kernels with shared memory, a stack and spilled registers on
// several architectures, and for a program of many kernels, if there is one.
func TestResources(t *testing.T) {
	nvcc := filepath.Join(need.Toolkit(t), "bin", "nvcc")
	cuobjdump, _ := need.Find("cuobjdump")
	if cuobjdump == "" {
		need.Missing(t, "cuobjdump", "the oracle is a wheel of its own")
	}
	file := filepath.Join(t.TempDir(), "k.fatbin")
	args := []string{"-fatbin", "-o", file, filepath.Join("testdata", "resources.cu")}
	for _, arch := range []string{"75", "80", "90a", "120"} {
		args = append(args, "-gencode", "arch=compute_"+arch+",code=sm_"+arch)
	}
	if out, err := exec.Command(nvcc, args...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	files := []string{file}
	if program, _ := need.Find("binary"); program != "" {
		files = append(files, program)
	}
	for _, file := range files {
		var got, want []string
		spilled := 0
		for _, im := range scan(t, hosttest.Must(os.ReadFile(file))(t)).Images {
			for i, r := range im.Resources {
				got = append(got, fmt.Sprint(im.Kernels[i], r.Registers, r.Stack, r.Shared, r.Constant))
				if r.Stack > 0 && r.Shared > 0 {
					spilled++
				}
			}
			if im.Kind == Cubin && len(im.Resources) != len(im.Kernels) {
				t.Errorf("%s at %#x: %d kernels, resources of %d", im.Arch, im.Offset, len(im.Kernels), len(im.Resources))
			}
		}
		out := hosttest.Must(exec.Command(cuobjdump, "-res-usage", file).Output())(t)
		kernels := strings.Join(got, " ")
		for _, m := range used.FindAllStringSubmatch(string(out), -1) {
			if strings.Contains(kernels, m[1]) { // it lists device functions, too
				var n [4]uint64
				for i := range n {
					n[i] = hosttest.Must(strconv.ParseUint(m[2+i], 10, 64))(t)
				}
				want = append(want, fmt.Sprint(m[1], n[0], n[1], n[2], n[3]))
			}
		}
		slices.Sort(got)
		slices.Sort(want)
		if len(got) < 8 || !slices.Equal(got, want) {
			t.Errorf("%s: %d kernels, of which cuobjdump has %d:\n%q\n%q", file, len(got), len(want), got[:min(9, len(got))], want[:min(9, len(want))])
		}
		if file == files[0] && spilled != 4 {
			t.Errorf("%d kernels with a stack and shared memory, want one for each architecture", spilled)
		}
		t.Logf("%s: %d kernels", filepath.Base(file), len(got))
	}
}
