package msvc

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpubuild/buildenv"
)

// disk is a C: drive in a directory of a real disk.
type disk string

func (d disk) path(p string) string {
	return filepath.Join(string(d), strings.ReplaceAll(strings.TrimPrefix(p, `C:\`), `\`, "/"))
}
func (d disk) Stat(p string) (fs.FileInfo, error)       { return os.Stat(d.path(p)) }
func (d disk) ReadDir(p string) ([]fs.DirEntry, error)  { return os.ReadDir(d.path(p)) }
func (d disk) Open(p string) (fs.File, error)           { return os.Open(d.path(p)) }
func (d disk) EvalSymlinks(p string) (string, error)    { _, err := os.Stat(d.path(p)); return p, err }
func (disk) String(string, string, int) (string, error) { return "", fs.ErrNotExist }
func (disk) Keys(string, int) ([]string, error)         { return nil, fs.ErrNotExist }
func (disk) Values(string, int) ([]string, error)       { return nil, fs.ErrNotExist }

// BenchmarkLargeMachine finds three Visual Studios with twenty toolsets and ten SDKs on a real disk and makes the environment of the
// newest, which is what stands in the place of a run of vcvarsall.bat. Each state.json has the megabyte of packages that real ones have,
// each yvals_core.h 40 KB.
func BenchmarkLargeMachine(b *testing.B) {
	d := disk(b.TempDir())
	put := func(path string, text []byte) {
		if err := errors.Join(os.MkdirAll(filepath.Dir(d.path(path)), 0o755), os.WriteFile(d.path(path), text, 0o644)); err != nil {
			b.Fatal(err)
		}
	}
	header := []byte(strings.Repeat("// a line of the real header's length, which is about eighty characters in all ..\n", 500) +
		"_EMIT_STL_ERROR(STL1002, \"Unexpected compiler version, expected CUDA 12.4 or newer.\");\n")
	for i, where := range []string{`2019\Enterprise`, `2022\Community`, `18\BuildTools`} {
		vs := `C:\Program Files\Microsoft Visual Studio\` + where
		put(fmt.Sprintf(`C:\ProgramData\Microsoft\VisualStudio\Packages\_Instances\%08x\state.json`, i), []byte(fmt.Sprintf(
			`{"installationPath":%q,"installationVersion":"%d.1.1","packages":[%s{}]}`, vs, 16+i,
			strings.Repeat(`{"id":"Microsoft.VisualStudio.Component","version":"1.0.0.0"},`, 16000))))
		for n := range 7 - i/2 { // 7, 7 and 6
			dir := fmt.Sprintf(`%s\VC\Tools\MSVC\14.%d.3%04d`, vs, 20+10*i+n, n)
			for _, tool := range []string{"cl.exe", "link.exe", "lib.exe"} {
				put(dir+`\bin\Hostx64\x64\`+tool, nil)
			}
			put(dir+`\lib\x64\libcmt.lib`, nil)
			put(dir+`\include\yvals_core.h`, header)
		}
	}
	for n := range 10 {
		for _, p := range []string{`Include\%s\um\Windows.h`, `Include\%s\um\winsdkver.h`, `Include\%s\shared\winapifamily.h`,
			`Include\%s\ucrt\corecrt.h`, `Lib\%s\um\x64\kernel32.lib`, `Lib\%s\ucrt\x64\ucrt.lib`} {
			put(`C:\Program Files (x86)\Windows Kits\10\`+fmt.Sprintf(p, fmt.Sprintf("10.0.%d.0", 17000+n*1000)), nil)
		}
	}
	h := buildenv.Host{OS: buildenv.Windows, Arch: "amd64", Env: buildenv.NewEnv(buildenv.Windows, []string{`Path=C:\Windows`}), Files: d,
		Registry: d, Cwd: `C:\src`}
	b.ResetTimer()
	for range b.N {
		f := Find(h, "amd64")
		sdk, ucrt := Best(f.SDKs), Best(f.UCRTs)
		if len(f.Instances) != 3 || len(f.Toolsets) != 20 || len(f.SDKs) != 10 || sdk == nil || ucrt == nil {
			b.Fatalf("%d instances, %d toolsets, %d SDKs", len(f.Instances), len(f.Toolsets), len(f.SDKs))
		}
		if s := f.Toolsets[0].Settings(h, *sdk, *ucrt); len(s.Include) < 3 || len(s.Lib) != 3 {
			b.Fatal(s)
		}
	}
}
