package loader

import (
	"bytes"
	"debug/pe"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"gpubuild/buildenv"
	"gpubuild/buildenv/hosttest"
)

// dll describes a PE file that program makes.
type dll struct {
	needed, delayed []string
	machine         uint16 // zero: x64
	oldDelay        bool   // delay-load entries with addresses, as Visual C++ 6 wrote them
}

// program makes a PE32+ file with one section that holds what a loader reads, and no code.
func program(d dll) []byte {
	if d.machine == 0 {
		d.machine = pe.IMAGE_FILE_MACHINE_AMD64
	}
	const rva, fileAt, base = 0x1000, 0x400, 0x180000000
	tables := (len(d.needed)+1)*20 + (len(d.delayed)+1)*32
	names := bytes.Buffer{}
	name := func(s string) uint32 {
		at := uint32(rva + tables + names.Len())
		names.WriteString(s + "\x00")
		return at
	}
	var imports, delays bytes.Buffer
	for _, n := range d.needed {
		_ = binary.Write(&imports, binary.LittleEndian, []uint32{0, 0, 0, name(n), 0})
	}
	_ = binary.Write(&imports, binary.LittleEndian, make([]uint32, 5))
	for _, n := range d.delayed {
		at, attributes := name(n), uint32(1)
		if d.oldDelay {
			at, attributes = at+0x10000000, 0
		}
		_ = binary.Write(&delays, binary.LittleEndian, []uint32{attributes, at, 0, 0, 0, 0, 0, 0})
	}
	_ = binary.Write(&delays, binary.LittleEndian, make([]uint32, 8))
	body := append(append(imports.Bytes(), delays.Bytes()...), names.Bytes()...)
	opt := pe.OptionalHeader64{Magic: 0x20b, ImageBase: base, SectionAlignment: 0x1000, FileAlignment: 0x200, NumberOfRvaAndSizes: 16,
		SizeOfImage: 0x3000}
	if d.oldDelay {
		opt.ImageBase = 0x10000000
	}
	opt.DataDirectory[pe.IMAGE_DIRECTORY_ENTRY_IMPORT] = pe.DataDirectory{VirtualAddress: rva, Size: uint32(imports.Len())}
	opt.DataDirectory[pe.IMAGE_DIRECTORY_ENTRY_DELAY_IMPORT] = pe.DataDirectory{VirtualAddress: rva + uint32(imports.Len()),
		Size: uint32(delays.Len())}
	var out bytes.Buffer
	dos := make([]byte, 0x80)
	copy(dos, "MZ")
	binary.LittleEndian.PutUint32(dos[0x3c:], 0x80)
	out.Write(dos)
	out.WriteString("PE\x00\x00")
	_ = binary.Write(&out, binary.LittleEndian, pe.FileHeader{Machine: d.machine, NumberOfSections: 2,
		SizeOfOptionalHeader: uint16(binary.Size(opt)), Characteristics: 0x22})
	_ = binary.Write(&out, binary.LittleEndian, opt)
	section := pe.SectionHeader32{VirtualSize: uint32(len(body)), VirtualAddress: rva, SizeOfRawData: uint32(len(body)),
		PointerToRawData: fileAt, Characteristics: 0x40000040}
	copy(section.Name[:], ".idata")
	_ = binary.Write(&out, binary.LittleEndian, section)
	_ = binary.Write(&out, binary.LittleEndian, pe.SectionHeader32{Name: [8]uint8{'.', 'b', 's', 's'}, VirtualSize: 1 << 20,
		VirtualAddress: rva + 0x10000, SizeOfRawData: 1 << 20, Characteristics: 0xc0000080}) // nothing of it is in the file
	out.Write(make([]byte, fileAt-out.Len()))
	out.Write(body)
	return out.Bytes()
}

// windows is a Windows host with these files, and with facts: sections of a stored machine such as @env and @registry.
func windows(t *testing.T, files map[string]any, facts string) buildenv.Host {
	t.Helper()
	var b strings.Builder
	b.WriteString("os: windows\ncwd: C:\\proj\n" + facts)
	if !strings.Contains(facts, "-- @env --") {
		b.WriteString("-- @env --\nSystemRoot=C:\\Windows\nPATH=C:\\Windows\\System32;C:\\path\n")
	}
	for path, what := range files {
		var data []byte
		switch w := what.(type) {
		case dll:
			data = program(w)
		case string:
			data = []byte(w)
		}
		fmt.Fprintf(&b, "-- %s +base64 --\n%s\n", path, base64.StdEncoding.EncodeToString(data))
	}
	return hosttest.Must(hosttest.Parse([]byte(b.String())))(t)
}

func TestResolveWindows(t *testing.T) {
	const app, sys = `C:\app\app.exe`, `C:\Windows\System32\`
	type files = map[string]any
	for _, tt := range []struct {
		story string
		files files
		facts string
		dirs  []string
		want  string
	}{
		{story: "a program that needs nothing", files: files{app: dll{}}},
		{story: "the system's, and a set of functions that is no file",
			files: files{app: dll{needed: []string{"KERNEL32.dll", "api-ms-win-crt-heap-l1-1-0.dll"}},
				sys + "kernel32.dll": dll{needed: []string{"ntdll.dll"}}},
			want: "KERNEL32.dll => " + sys + "KERNEL32.dll (the system directory)\n" +
				"api-ms-win-crt-heap-l1-1-0.dll =>  (Windows itself (API set))"},
		{story: "the program's directory, the system's, Windows', the current one, PATH: in this order",
			files: files{app: dll{needed: []string{"a.dll", "b.dll", "c.dll", "d.dll", "e.dll"}},
				`C:\app\a.dll`: dll{}, sys + "a.dll": dll{}, sys + "b.dll": dll{}, `C:\Windows\b.dll`: dll{}, `C:\Windows\c.dll`: dll{},
				`C:\proj\c.dll`: dll{},
				`C:\proj\d.dll`: dll{}, `C:\path\d.dll`: dll{}, `C:\path\e.dll`: dll{}},
			want: `a.dll => C:\app\a.dll (the program's directory)` + "\n" + `b.dll => C:\Windows\System32\b.dll (the system directory)` +
				"\n" +
				`c.dll => C:\Windows\c.dll (the Windows directory)` + "\n" + `d.dll => C:\proj\d.dll (the current directory)` + "\n" +
				`e.dll => C:\path\e.dll (PATH)`},
		{story: "what a DLL needs is looked for beside the program, not beside the DLL",
			files: files{app: dll{needed: []string{"cublas64_13.dll"}},
				`C:\path\cublas64_13.dll`: dll{needed: []string{"cublasLt64_13.dll", "x.dll"}}, `C:\path\cublasLt64_13.dll`: dll{},
				`C:\app\x.dll`: dll{}},
			want: `cublas64_13.dll => C:\path\cublas64_13.dll (PATH)` + "\n" + `cublasLt64_13.dll => C:\path\cublasLt64_13.dll (PATH)` +
				"\n" + `x.dll => C:\app\x.dll (the program's directory)`},
		{story: "the toolkit's DLLs come from gpubuild, the driver from nowhere", dirs: []string{`C:\CUDA\bin\x64`},
			files: files{app: dll{needed: []string{"nvcuda.dll", "cudart64_13.dll"}}, `C:\CUDA\bin\x64\cudart64_13.dll`: dll{}},
			want: "nvcuda.dll =>  () missing: not found\n" +
				`cudart64_13.dll => C:\CUDA\bin\x64\cudart64_13.dll (added by gpubuild) added: only in C:\CUDA\bin\x64, which gpubuild ` +
				`adds to PATH: a bare start lacks it`},
		{story: "a delayed DLL that is not there stops the program later, and what is only behind it, too",
			files: files{app: dll{delayed: []string{"cudnn64_9.dll", "gone.dll"}},
				`C:\app\cudnn64_9.dll`: dll{needed: []string{"zlib.dll"}}},
			want: `cudnn64_9.dll => C:\app\cudnn64_9.dll (the program's directory) delayed` + "\n" +
				"gone.dll =>  () missing: not found; it is loaded at the first call only: the program starts, and stops there " +
				"(0xc06d007e) delayed\n" +
				"zlib.dll =>  () missing: not found; it is loaded at the first call only: the program starts, and stops there " +
				"(0xc06d007e) delayed"},
		{story: "delayed by one and needed at once by another is needed at once",
			files: files{app: dll{needed: []string{"a.dll"}, delayed: []string{"b.dll"}}, `C:\app\a.dll`: dll{needed: []string{"B.DLL"}}},
			want:  `a.dll => C:\app\a.dll (the program's directory)` + "\nb.dll =>  () missing: not found"},
		{story: "delay-load entries with addresses instead of offsets",
			files: files{app: dll{delayed: []string{"a.dll"}, oldDelay: true}, `C:\app\a.dll`: dll{}},
			want:  `a.dll => C:\app\a.dll (the program's directory) delayed`},
		{story: "a DLL for another machine stops the program",
			files: files{app: dll{needed: []string{"a.dll"}}, `C:\app\a.dll`: dll{machine: pe.IMAGE_FILE_MACHINE_ARM64},
				`C:\path\a.dll`: dll{}},
			want: `a.dll => C:\app\a.dll (the program's directory) broken: C:\app\a.dll is for ARM64, the program for x64 (0xc000007b)`},
		{story: "a file that is no DLL stops the program",
			files: files{app: dll{needed: []string{"a.dll"}}, `C:\app\a.dll`: "version https://git-lfs"},
			want: `a.dll => C:\app\a.dll (the program's directory) broken: C:\app\a.dll: not a Windows program or DLL that can be ` +
				`read: it does not begin as one`},
		{story: "DLLs that need each other",
			files: files{app: dll{needed: []string{"a.dll"}}, `C:\app\a.dll`: dll{needed: []string{"b.dll"}},
				`C:\app\b.dll`: dll{needed: []string{"A.dll", "b.dll"}}},
			want: `a.dll => C:\app\a.dll (the program's directory)` + "\n" + `b.dll => C:\app\b.dll (the program's directory)`},
		{story: "without SystemRoot and without PATH", facts: "-- @env --\nHOME=x\n",
			files: files{app: dll{needed: []string{"a.dll", "b.dll"}}, sys + "a.dll": dll{}},
			want:  `a.dll => C:\Windows\System32\a.dll (the system directory)` + "\nb.dll =>  () missing: not found"},
		{story: "a directory of that name is no DLL",
			files: files{app: dll{needed: []string{"a.dll"}}, `C:\app\a.dll\x`: "", `C:\path\a.dll`: dll{}},
			want:  `a.dll => C:\path\a.dll (PATH)`},
	} {
		t.Run(tt.story, func(t *testing.T) {
			libs := hosttest.Must(Resolve(t.Context(), windows(t, tt.files, tt.facts), nil, app, tt.dirs))(t)
			var lines []string
			for _, l := range libs {
				line := fmt.Sprintf("%s => %s (%s)", l.Name, l.Path, l.Origin)
				if l.Kind != OK {
					line += fmt.Sprintf(" %s: %s", l.Kind, l.Problem)
				}
				if l.Delayed {
					line += " delayed"
				}
				lines = append(lines, line)
			}
			hosttest.Equal(t, strings.Join(lines, "\n"), tt.want)
		})
	}
}

// TestResolve32BitWindows: a 32-bit program sees other directories, which are not followed.
func TestResolve32BitWindows(t *testing.T) {
	h := windows(t, map[string]any{`C:\app\app.exe`: dll{needed: []string{"a.dll"}, machine: pe.IMAGE_FILE_MACHINE_I386},
		`C:\Windows\System32\a.dll`: dll{}, `C:\Windows\SysWOW64\a.dll`: dll{machine: pe.IMAGE_FILE_MACHINE_I386}}, "")
	libs, err := Resolve(t.Context(), h, nil, `C:\app\app.exe`, nil)
	if err != nil || len(libs) != 1 || libs[0].Kind != Unknown {
		t.Errorf("got %+v, %v", libs, err)
	}
}

func TestBadWindowsPrograms(t *testing.T) {
	good := program(dll{needed: []string{"a.dll"}, delayed: []string{"b.dll"}})
	far := bytes.Clone(good)
	binary.LittleEndian.PutUint32(far[bytes.Index(far, []byte("a.dll"))-(2*20+2*32)+12:], 0x7fffffff) // the first entry's name lies nowhere
	endless := bytes.Replace(bytes.Clone(good), []byte("a.dll\x00b.dll\x00"), []byte("a.dllbb.dllb"), 1)
	for story, data := range map[string][]byte{"cut in its header": good[:0x90], "cut in its imports": good[:0x40c],
		"cut in its last section":  good[:len(good)-1],
		"a name that lies nowhere": far, "a name without an end": endless, "only MZ": []byte("MZ")} {
		h := windows(t, map[string]any{`C:\app\app.exe`: string(data)}, "")
		if libs, err := Resolve(t.Context(), h, nil, `C:\app\app.exe`, nil); err == nil || !strings.Contains(err.Error(), "not a Windows program or DLL") {
			t.Errorf("%s: got %v, %v, want that it cannot be read", story, libs, err)
		}
	}
}

func FuzzParseImage(f *testing.F) {
	f.Add(program(dll{needed: []string{"a.dll"}, delayed: []string{"b.dll"}}))
	f.Add(program(dll{delayed: []string{"b.dll"}, oldDelay: true}))
	f.Fuzz(func(t *testing.T, data []byte) {
		im, err := parseImage("x", bytes.NewReader(data))
		if err == nil && len(im.imports.Needed)+len(im.imports.Delayed) > 2*4096 {
			t.Errorf("%d imports", len(im.imports.Needed))
		}
	})
}

func TestCUDAMajor(t *testing.T) {
	for name, want := range map[string]int{"libcudart.so.12": 12, "libcublasLt.so.13.4.1": 13, "cublas64_12.dll": 12,
		"CUBLASLT64_13.DLL": 13, "cudart64_110.dll": 11, "nvrtc64_120_0.dll": 12,
		"nvrtc-builtins64_129.dll": 12, "nvJitLink_130_0.dll": 13, "libcufft.so.11": 0, "cusolver64_11.dll": 0, "libcublas.so": 0,
		"curand64_10.dll": 0, "cudart.dll": 0} {
		hosttest.Equal(t, CUDAMajor(name), want, name, "CUDA")
	}
}

func TestMixed(t *testing.T) {
	libs := []Library{{Name: "libc.so.6"}, {Name: "libcufft.so.11"}, {Name: "libcublas.so.13", By: "app"}, {Name: "libcudart.so.13"}}
	hosttest.Equal(t, Mixed(libs), "", "one version")
	libs = append(libs, Library{Name: "libcudart.so.12", By: "libold.so"})
	const want = "two CUDA versions in one program: libcublas.so.13 (for app) and libcudart.so.12 (for libold.so)"
	hosttest.Equal(t, Mixed(libs), want)
}
