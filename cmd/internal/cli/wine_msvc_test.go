package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// kernel writes a small kernel and answers the words that compile it to PTX.
func (w *wine) kernel() []string {
	w.t.Helper()
	if err := os.WriteFile(filepath.Join(w.work, "twice.cu"), []byte(`extern "C" __global__ void twice(float *x) { x[threadIdx.x] *= 2; }`),
		0o644); err != nil {
		w.t.Fatal(err)
	}
	return []string{"-ptx", "-arch=compute_90", "twice.cu", "-o", "twice.ptx"}
}

// compiles runs NVIDIA's nvcc.exe through us with some variables set by a user, and holds that the kernel becomes PTX by the toolset of a
// version alone.
func (w *wine) compiles(version string, extra ...string) (string, bool) {
	w.t.Helper()
	ptx := filepath.Join(w.work, "twice.ptx")
	if err := os.RemoveAll(ptx); err != nil {
		w.t.Fatal(err)
	}
	w.calls()
	out, err := w.exec(extra, w.kernel()...)
	text, read := os.ReadFile(ptx)
	calls := w.calls()
	good := err == nil && read == nil && strings.Contains(string(text), ".visible .entry twice(") && len(calls) > 0
	for _, c := range calls {
		good = good && strings.Contains(c, `\VC\Tools\MSVC\`+version+`\bin\`)
	}
	if !good {
		w.t.Errorf("%q: not by %s: %v, %v\n%s\n%s", extra, version, err, read, out, strings.Join(calls, "\n"))
	}
	return out, good
}

// TestWineNamedCompiler lets nvcc.exe run with whatever a user wrote into the variables that name a host compiler: first alone, in an
// environment that is right but for that, then through us.
func TestWineNamedCompiler(t *testing.T) {
	w := newWine(t)
	w.plant(map[string]string{"14.60.40000": "13.2", "14.44.35207": "12.4", "14.39.33519": "11.6"})
	const old = studio + `\VC\Tools\MSVC\14.39.33519`
	const bin = old + `\bin\HostX64\x64`
	byHand := []string{"WINEPATH=" + bin, "INCLUDE=" + old + `\include`, "LIB=" + old + `\lib\x64`, "VSCMD_VER=17.14.0"}
	for _, tt := range []struct{ story, set, fails, version string }{
		{"a backslash at the end", "NVCC_CCBIN=" + bin + `\`, "Could not set up the environment for Microsoft Visual Studio",
			"14.39.33519"},
		{"quotes", `NVCC_CCBIN="` + bin + `\cl.exe"`, "Failed to preprocess host compiler properties.", "14.39.33519"},
		{"quotes in nvcc's own options", `NVCC_PREPEND_FLAGS=-lineinfo -ccbin "` + bin + `"`,
			"Failed to preprocess host compiler properties.", "14.39.33519"},
		{"options that name what is gone", `NVCC_APPEND_FLAGS=-ccbin=C:\gone`, "Failed to run C:/gone", "14.44.35207"},
	} {
		t.Run(tt.story, func(t *testing.T) {
			out, err := w.run(append([]string{tt.set}, byHand...), append([]string{w.nvcc()}, w.kernel()...)...)
			if err == nil || !strings.Contains(out, tt.fails) {
				t.Errorf("nvcc alone: %v\n%s", err, out)
			}
			w.compiles(tt.version, tt.set)
		})
	}
}

// TestWineOddEnvironment lets nvcc.exe run where cmd.exe, by which it starts everything, hands on no PATH, of which gpubuild warns, or is
// not found.
func TestWineOddEnvironment(t *testing.T) {
	w := newWine(t)
	w.plant(map[string]string{"14.44.35207": "12.4"})
	const dir = studio + `\VC\Tools\MSVC\14.44.35207`
	byHand := []string{"INCLUDE=" + dir + `\include`, "LIB=" + dir + `\lib\x64`, "VSCMD_VER=17.14.0"}
	long := strings.Repeat(`C:\Program Files\That Was Here Once\bin;`, 800)
	out, err := w.run(append(byHand, "WINEPATH="+dir+`\bin\HostX64\x64;`+long), append([]string{w.nvcc()}, w.kernel()...)...)
	if err == nil || !strings.Contains(out, "cl.exe") {
		t.Errorf("a PATH of %d characters: nvcc alone: %v\n%s", len(long), err, out)
	}
	if out, err = w.exec([]string{"WINEPATH=" + long}, w.kernel()...); !strings.Contains(out, "hands on no more than 8191") {
		t.Errorf("a PATH of %d characters: %v, and no word of it\n%s", len(long), err, out)
	}

	batch := "@set PATH=\r\n@set ComSpec=\r\n@set ProgramData=\r\n@set ProgramFiles=\r\n@set TEMP=\r\n@set TMP=\r\n@set PATHEXT=\r\n@" +
		z(w.gpubuild) + " exec --toolkit=" + z(filepath.Join(w.dir, "toolkit")) + " -- " +
		w.nvcc() + " " + strings.Join(w.kernel(), " ") + "\r\n"
	if err := os.WriteFile(filepath.Join(w.work, "bare.bat"), []byte(batch), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(w.work, "twice.ptx")); err != nil {
		t.Fatal(err)
	}
	out, err = w.run(nil, "cmd", "/c", "bare.bat")
	if _, no := os.Stat(filepath.Join(w.work, "twice.ptx")); err != nil || no != nil {
		t.Errorf("a scrubbed environment: %v, %v\n%s", err, no, out)
	}
}
