package fatbin

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/hosttest"
	"gpubuild/buildenv/local"
)

func scan(t testing.TB, data []byte) *Report {
	return hosttest.Must(Scan(bytes.NewReader(data), int64(len(data))))(t)
}

// lines words images for comparison.
func lines(images []Image) []string {
	var out []string
	for _, im := range images {
		s := fmt.Sprintf("%s %s %s", im.Kind, im.Arch, im.Compression)
		for _, more := range []string{im.Toolkit, im.PTXVersion, strings.Join(im.Kernels, ",")} {
			if more != "" {
				s += " " + more
			}
		}
		if im.Where != "" {
			s += " in " + im.Where
		}
		out = append(out, s)
	}
	return out
}

// dots puts dots for the signs @, which stand in the tests' PTX so that this test program does not hold it.
func dots(s string) []byte { return []byte(strings.ReplaceAll(s, "@", ".")) }

func text(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

func TestWhatAFileHolds(t *testing.T) {
	sm90a := cubin(90, ptxas+"sm_90a -m 64 ", "matmul", "_Z5scaleIfEvPT_i")
	module := ptx(t, "sm_90a")
	const names = " _Z5scaleIfEvPT_i,matmul"
	whole := container(packed{kind: kindELF, arch: 90, flags: 0x100011, data: sm90a}, packed{kind: kindPTX, arch: 90, flags: 0x108011, data: module})
	cut := len(whole) - 100
	legacy := cubin(0, "", "k")
	legacy[8] = 7
	copy(legacy[48:], []byte{0x5a, 0x0d, 0x5a, 0}) // 0x800: sm_90a
	for _, tt := range []struct {
		story string
		data  []byte
		want  []string
		notes []string
	}{
		{story: "what nvcc writes by default", data: whole, want: []string{"cubin sm_90a raw 13.4.92" + names, "ptx compute_90a zstd 9.4" + names}},
		{story: "everything packed with LZ4", data: container(packed{kindELF, 90, 0x102011, sm90a, nil}, packed{kindPTX, 90, 0x102011, module, nil}),
			want: []string{"cubin sm_90a lz4 13.4.92" + names, "ptx compute_90a lz4 9.4" + names}},
		{story: "several architectures packed together", data: container(
			packed{kind: kindConcat, flags: flagZstd | 0x11, pieces: []packed{{kindPTX, 80, 0x11, ptx(t, "sm_80"), nil}, {kindPTX, 90, 0x11, ptx(t, "sm_90"), nil}}},
			packed{kind: kindConcat, flags: flagZstd | 0x11, pieces: []packed{{kindELF, 80, 0x11, cubin(80, ptxas+"sm_80", "matmul"), nil}, {kindELF, 100, 0x200011, cubin(100, ptxas+"sm_100f", "matmul"), nil}}}),
			want: []string{"ptx compute_80 zstd 9.4" + names, "ptx compute_90 zstd 9.4" + names, "cubin sm_80 zstd 13.4.92 matmul", "cubin sm_100f zstd 13.4.92 matmul"}},
		{story: "a cubin without ptxas' note: the entry tells the suffix", data: container(packed{kindELF, 120, 0x1200011, cubin(120, "", "k"), nil}),
			want: []string{"cubin sm_120f raw k"}},
		{story: "a cubin for itself, without note", data: cubin(90, "", "k"), want: []string{"cubin sm_90 raw k"}},
		{story: "a cubin of CUDA 12 and before, for itself", data: legacy, want: []string{"cubin sm_90a raw k"}},
		{story: "code for linking, and something unknown", data: container(packed{kindLTO, 90, 0x11, []byte("llvm.."), nil}, packed{99, 90, 0, []byte("?"), nil}),
			want: []string{"lto-ir sm_90 raw", "kind 99 sm_90 raw"}, notes: []string{"unknown kind 99"}},
		{story: "bytes in the rodata of a program, at an odd place", data: elfFile(62, 0, part{".rodata", text([]byte("odd"), whole)}, part{".nv_fatbin", text(make([]byte, 5), sm90a)}),
			want: []string{"cubin sm_90a raw 13.4.92" + names + " in .rodata", "ptx compute_90a zstd 9.4" + names + " in .rodata", "cubin sm_90a raw 13.4.92" + names + " in .nv_fatbin"}},
		{story: "PTX text between other strings of a program", data: elfFile(62, 0, part{".rodata", text([]byte("src/main.rs: "), module, dots("called `unwrap()` on {a} value@version of"), ptx(t, "sm_80"), []byte(".text{"))}),
			want: []string{"ptx-text compute_90a raw 13.4.92 9.4" + names + " in .rodata", "ptx-text compute_80 raw 13.4.92 9.4" + names + " in .rodata"}},
		{story: "PTX text without the last line's end, then a program's braces", data: text(bytes.TrimSpace(module), []byte("impl Foo { fn bar() {} }"), []byte{0}, module),
			want: []string{"ptx-text compute_90a raw 13.4.92 9.4" + names, "ptx-text compute_90a raw 13.4.92 9.4" + names}},
		{story: "a program that builds its PTX", data: dots("fmt@version \n@target \n.address_size 64\n\n.visible @entry (\n\t.param .u64 \n)\n{\n}\n"), want: nil},
		{story: "a program that builds its PTX from a fixed beginning", data: dots("x\x00@version 8.0\n@target sm_70\n.address_size 64\n\n.visible @entry matmul_(could not write {}: {}\x00"),
			want: nil, notes: []string{"PTX text without a whole kernel"}},
		{story: "PTX by hand, with CRLF and without a version", data: dots("@target sm_75\r\n@entry\r\nadd (.param .u64 p)\r\n.maxntid 256\r\n{ ret; }\r\n"), want: []string{"ptx-text compute_75 raw add"}},
		{story: "PTX text that is cut off", data: dots("@version 7.0\n@target sm_75\n.visible @entry a(){ret;}\n@entry b(){ ret;\x00"), want: []string{"ptx-text compute_75 raw 7.0 a"}, notes: []string{"cut off"}},
		{story: "a declared kernel is none", data: dots("@version 7.0\n@target sm_75\n.extern @entry b(.param .u64 x);\n@entry a(){ret;}"), want: []string{"ptx-text compute_75 raw 7.0 a"}},
		{story: "a fatbin that is cut off", data: whole[:cut], want: []string{"cubin sm_90a raw 13.4.92" + names}, notes: []string{"cut off"}},
		{story: "a cubin whose entry lies about it", data: container(packed{kindELF, 90, 0x11, []byte("no cubin at all, but long enough for one: ................................"), nil}), want: []string{"cubin sm_90 raw"}, notes: []string{"malformed"}},
		{story: "an entry that promises more than it holds", data: func() []byte {
			d := container(packed{kindPTX, 90, flagZstd, module, nil})
			d[headerBytes+56+3] = 0xff // 4 GiB
			return d
		}(), want: []string{"ptx compute_90 zstd 9.4"}, notes: []string{"claims"}},
		{story: "packed bytes are damaged", data: func() []byte {
			d := container(packed{kindPTX, 90, flagZstd, module, nil})
			d[headerBytes+entryBytes+50] ^= 0xff
			return d
		}(), want: []string{"ptx compute_90 zstd 9.4"}, notes: []string{"cannot be unpacked"}},
		{story: "a damaged entry hides nothing behind it", data: func() []byte {
			d := container(packed{kindELF, 90, 0x11, text([]byte("filler "), cubin(80, "", "hidden")), nil})
			return text(d, cubin(75, "", "behind"))
		}(), want: []string{"cubin sm_90 raw", "cubin sm_80 raw hidden", "cubin sm_75 raw behind"}, notes: []string{"malformed"}},
		{story: "only the numbers that a scanner holds", data: dots("\x00\x50\xed\x55\xba\x00\x00\x50\xed\x55\xba\x01\x00\x10\x00\x00\x00\x00\x00\x7fELF\x02\x01@version @target"), want: nil},
		{story: "plain text", data: []byte("hello, world\n"), want: nil},
	} {
		t.Run(tt.story, func(t *testing.T) {
			r := scan(t, tt.data)
			if got := lines(r.Images); !slices.Equal(got, tt.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
			}
			for _, n := range tt.notes {
				if !strings.Contains(strings.Join(r.Notes, "\n"), n) {
					t.Errorf("notes: got %q, want %q among them", r.Notes, n)
				}
			}
			if len(tt.notes) == 0 && len(r.Notes) > 0 && r.Format == Other {
				t.Errorf("notes: %q", r.Notes)
			}
			for _, im := range r.Images {
				if im.Offset < 0 || im.Offset+im.Size > int64(len(tt.data)) {
					t.Errorf("%+v lies outside of the file", im)
				}
			}
		})
	}
}

// What is found does not depend on where it lies: not on alignment, nor on the pieces that the file is read in.
func TestEveryPlace(t *testing.T) {
	module := dots("@version 7.0\n@target sm_75\n.visible @entry a(){ret;}\n")
	images := [][]byte{container(packed{kindPTX, 80, flagZstd, module, nil}), cubin(75, "", "k"), module}
	offsets := []int{0, 1, 3, 7, 4095}
	for _, edge := range []int{chunkSize, 2 * chunkSize} {
		for d := -24; d <= 3; d++ {
			offsets = append(offsets, edge+d)
		}
	}
	data := make([]byte, 3*chunkSize)
	for i, image := range images {
		for _, off := range offsets {
			clear(data)
			copy(data[off:], image)
			r := scan(t, data)
			if len(r.Images) != 1 || len(r.Notes) != 0 {
				t.Fatalf("image %d at %d: %+v %q", i, off, r.Images, r.Notes)
			}
			if at := r.Images[0].Offset; at != int64(off) && (i > 0 || at != int64(off+headerBytes)) {
				t.Errorf("image %d at %d: found at %d", i, off, at)
			}
		}
	}
}

func TestThisProgramHoldsNone(t *testing.T) {
	self := hosttest.Must(os.Executable())(t)
	f := hosttest.Must(os.Open(self))(t)
	defer f.Close()
	fi := hosttest.Must(f.Stat())(t)
	r, err := Scan(f, fi.Size())
	if err != nil || len(r.Images) != 0 {
		t.Errorf("%v %+v", err, r.Images)
	}
	if r.Format == Other && (strings.HasSuffix(self, ".exe") || strings.HasPrefix(r.Machine, "x86")) {
		t.Errorf("format %q machine %q", r.Format, r.Machine)
	}
}

func TestHostileFilesCostLittle(t *testing.T) {
	repeat := func(s string) []byte { return bytes.Repeat([]byte(s), (1<<20)/len(s)) }
	bad := cubin(90, "", "k")
	for name, data := range map[string][]byte{
		"magic numbers":      repeat("\x50\xed\x55\xba"),
		"headers":            repeat(string(container(packed{kindLTO, 1, 0, nil, nil}))),
		"versions":           repeat(".version 9.0\n"),
		"targets in a body":  text(dots("@version 9.0\n@entry a(){"), repeat("x.target sm_90{")),
		"targets":            repeat(".target sm_90\n"),
		"an endless comment": text(dots("@version 9.0\n/*"), repeat(".target sm_90\n")),
		"cut cubins":         repeat(string(bad[:64])),
	} {
		r := scan(t, data)
		if len(r.Images) > maxImages || len(r.Notes) > maxNotes+1 {
			t.Errorf("%s: %d images, %d notes", name, len(r.Images), len(r.Notes))
		}
	}
}

func TestWhatNoLoaderPutsIntoMemoryIsPassedOver(t *testing.T) {
	code := container(packed{kindELF, 90, 0, cubin(90, "", "k"), nil})
	r := scan(t, elfFile(62, 0, part{".debug_info", code}, part{".mine", code}, part{".debug_str", ptx(t, "sm_80")}, part{".debugger", code}))
	if len(r.Images) != 2 || r.Images[0].Where != ".mine" || r.Images[1].Where != ".debugger" {
		t.Errorf("got %+v", r.Images)
	}
	if got := ordered([]span{{50, 60}, {10, 30}, {20, 25}, {30, 40}}); !slices.Equal(got, []span{{10, 40}, {50, 60}}) {
		t.Errorf("got %v", got)
	}
}

// Hundreds of images in many containers, over many pieces.
func TestManyImagesKeepTheirOrder(t *testing.T) {
	var data []byte
	for i := range 300 {
		name := fmt.Sprintf("k%03d", i)
		if i%7 == 3 {
			data = append(data, container(packed{kindELF, 90, flagZstd, []byte("no cubin at all"), nil})...)
			continue
		}
		data = append(data, container(packed{kindELF, 90, flagZstd, cubin(90, "", name), nil}, packed{kindELF, 80, 0, cubin(80, "", name), nil})...)
		if i%5 == 0 {
			data = append(data, make([]byte, 9001)...)
		}
	}
	first := scan(t, data)
	if len(first.Images) < 500 || len(first.Notes) < 40 {
		t.Fatalf("%d images, %d notes", len(first.Images), len(first.Notes))
	}
	for range 5 {
		if r := scan(t, data); !reflect.DeepEqual(r, first) {
			t.Fatal("two scans of the same bytes differ")
		}
	}
}

type failing struct{ at int64 }

func (f failing) ReadAt(p []byte, off int64) (int, error) {
	if off+int64(len(p)) > f.at {
		return 0, errors.New("input/output error")
	}
	clear(p)
	return len(p), nil
}

func TestReading(t *testing.T) {
	if _, err := Scan(failing{12 * chunkSize}, 36*chunkSize); err == nil || !strings.Contains(err.Error(), "at byte 3145728: input/output error") {
		t.Errorf("a disk that fails: %v", err)
	}
	r, err := Scan(bytes.NewReader(make([]byte, 100)), 200)
	if err != nil || len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "shorter") {
		t.Errorf("a file that shrinks: %v %+v", err, r)
	}
}

// disk is the real one, through the smallest Files.
type disk struct{}

func (disk) Stat(p string) (fs.FileInfo, error)      { return os.Stat(p) }
func (disk) ReadDir(p string) ([]fs.DirEntry, error) { return os.ReadDir(p) }
func (disk) Open(p string) (fs.File, error)          { return os.Open(p) }
func (disk) EvalSymlinks(p string) (string, error)   { return filepath.EvalSymlinks(p) }

func TestScanFile(t *testing.T) {
	h := buildenv.Host{Files: disk{}}
	dir := t.TempDir()
	write := func(name string, data []byte) string {
		p := filepath.Join(dir, name)
		hosttest.OK(t, os.WriteFile(p, data, 0o644))
		return p
	}
	for path, want := range map[string]string{
		dir:                        "is a directory",
		filepath.Join(dir, "none"): "no such file",
		write("empty", nil):        "is empty",
		os.DevNull:                 "is not a regular file",
	} {
		_, err := ScanFile(h, path)
		if exit.Of(err) != exit.Usage || !strings.Contains(err.Error(), want) || exit.Hint(err) == "" {
			t.Errorf("%s: %v", path, err)
		}
	}
	r, err := ScanFile(h, write("text", []byte("hello")))
	if err != nil || r.Format != Other || r.Size != 5 {
		t.Errorf("%+v %v", r, err)
	}
	if r, err := ScanFile(h, write("broken", []byte("\x7fELF\x02\x01\x01"))); err != nil || r.Format != ELF || len(r.Notes) != 1 {
		t.Errorf("%+v %v", r, err)
	}
	if r, err := ScanFile(h, write("broken.exe", text([]byte("MZ"), bytes.Repeat([]byte{0xff}, 200)))); err != nil || r.Format != PE || len(r.Notes) != 1 {
		t.Errorf("%+v %v", r, err)
	}
}

func TestLZ4(t *testing.T) {
	for _, tt := range []struct{ story, in, want string }{
		{"literals only", "\x50hello", "hello"},
		{"a match into itself", "\x1fa\x01\x00\x02\x50hello", strings.Repeat("a", 22) + "hello"},
		{"a match of three letters", "\x35abc\x03\x00\x10.", "abcabcabcabc."},
		{"empty", "\x00", ""},
		{"nothing", "", "error"},
		{"a match before the beginning", "\x10a\x02\x00\x10.", "error"},
		{"a match at no distance", "\x10a\x00\x00\x10.", "error"},
		{"cut in the literals", "\x50hel", "error"},
		{"cut in the distance", "\x1fa\x01", "error"},
		{"cut in the length", "\xf0\xff", "error"},
		{"longer than allowed", "\x1fa\x01\x00\xff\xff\xff\x00\x10.", "error"},
	} {
		out, err := unlz4(nil, []byte(tt.in), len(tt.want))
		got := string(out)
		if err != nil {
			got = "error"
		}
		hosttest.Equal(t, got, tt.want, tt.story)
	}
}

func FuzzScan(f *testing.F) {
	// Short, because Go's fuzzer takes minutes to make a long one shorter; and not as it is, because this program is scanned, too.
	module := []byte(strings.ToLower(".VERSION 8.5\n.TARGET SM_80\n.VISIBLE .ENTRY K() { RET; }\n\x00"))
	f.Add(container(packed{kindELF, 90, 0x11, cubin(90, ptxas+"sm_90", "k"), nil}, packed{kindPTX, 90, flagZstd, module, nil}))
	f.Add(container(packed{kindELF, 90, flagLZ4, cubin(90, ptxas+"sm_90", "k"), nil}))
	f.Add(container(packed{kind: kindConcat, flags: flagZstd, pieces: []packed{{kindPTX, 80, 0, module, nil}, {kindPTX, 90, 0, module, nil}}}))
	f.Add(elfFile(62, 0, part{".rodata", module}))
	f.Add(text([]byte("MZ"), module))
	f.Add(fmt.Appendf(nil, "!<arch>\n%-48s%-10d`\n", "#1/-5", 0))
	f.Fuzz(func(t *testing.T, data []byte) {
		r := hosttest.Must(Scan(bytes.NewReader(data), int64(len(data))))(t)
		if !slices.IsSortedFunc(r.Images, func(a, b Image) int { return int(a.Offset - b.Offset) }) {
			t.Error("images are not in order")
		}
		for _, im := range r.Images {
			if im.Offset < 0 || im.Size < 0 || im.Offset+im.Size > int64(len(data)) {
				t.Errorf("%+v lies outside of the file", im)
			}
		}
	})
}

func FuzzLZ4(f *testing.F) {
	f.Add([]byte("\x1fa\x01\x00\x02\x50hello"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if out, _ := unlz4(nil, data, 1000); len(out) > 1000 {
			t.Error("more than allowed")
		}
	})
}

var _ io.ReaderAt = failing{}

// TestGroups: an image says in which fatbin and in which member of an archive it is, and whether a link must complete it.
func TestGroups(t *testing.T) {
	fat := container(packed{kind: kindELF, arch: 80, data: cubin(80, ptxas+"sm_80", "k")}, packed{kind: kindPTX, arch: 80, flags: flagZstd, data: ptx(t, "sm_80")})
	partial := cubin(90, ptxas+"sm_90", "k")
	partial[16] = 1 // ET_REL
	member := func(name string, data []byte) []byte {
		return append(fmt.Appendf(nil, "%-16s%-12d%-6d%-6d%-8o%-10d`\n", name, 0, 0, 0, 0o644, len(data)), append(data, make([]byte, len(data)%2)...)...)
	}
	long := member("//", []byte("a_long_name_of_a_member.o/\nanother.o/\n"))
	r := scan(t, slices.Concat([]byte("!<arch>\n"), long, member("/0", fat), member("/27", slices.Concat(fat, fat)), member("b.o/", partial),
		member("#1/12", append([]byte("of a mac.o\x00\x00"), dots("@version 7.0\n@target sm_75\n@extern @func (@param .b32 r) vprintf();\n@entry a(){ret;}\x00"+
			"@version 7.0\n@target sm_75\n@extern @func f;\n@entry a(){ret;}\x00")...))))
	var got []string
	groups := map[int64]int{}
	for _, im := range r.Images {
		if groups[im.Fatbin] == 0 {
			groups[im.Fatbin] = len(groups) + 1
		}
		alone := im.Fatbin == im.Offset
		got = append(got, fmt.Sprint(groups[im.Fatbin], " ", im.Kind, " ", im.Where, " ", alone, " ", im.Relocatable))
	}
	want := []string{"1 cubin a_long_name_of_a_member.o false false", "1 ptx a_long_name_of_a_member.o false false", "2 cubin another.o false false",
		"2 ptx another.o false false", "3 cubin another.o false false", "3 ptx another.o false false", "4 cubin b.o true true",
		"5 ptx-text of a mac.o true false", "6 ptx-text of a mac.o true true"}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestNamesOfMembers: an archive may give its members any name, and none reads elsewhere.
func TestNamesOfMembers(t *testing.T) {
	image := dots("\x00@version 8.0\n@target sm_80\n@entry k(){ret;}\x00")
	for _, name := range []string{"/-5", "#1/-5", "/+1", "/999999999999999", "#1/99999999", "#1/", "3"} {
		r := scan(t, fmt.Appendf([]byte("!<arch>\n"), "%-48s%-10d`\nname.o/\n%-48s%-10d`\n%s", "//", 8, name, len(image), image))
		if len(r.Images) != 1 || r.Images[0].Where != strings.TrimSuffix(name, "/") {
			t.Errorf("%s: %+v", name, r.Images)
		}
	}
}

// TestOpens: a function's name counts in what is loaded, wherever else it is before that.
func TestOpens(t *testing.T) {
	path := filepath.Join(t.TempDir(), "app")
	name := []byte("\x00nvrtcCompileProgram\x00")
	for want, names := range map[string][]part{"libnvrtc": {{".debug_str", name}, {".rodata", name}}, "": {{".debug_str", name}}} {
		hosttest.OK(t, os.WriteFile(path, elfFile(62, 0, names...), 0o600))
		opens := hosttest.Must(Opens(hosttest.Must(local.Host())(t), path, nil))(t)
		hosttest.Equal(t, strings.Join(opens, " "), want)
	}
}
