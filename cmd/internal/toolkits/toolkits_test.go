package toolkits

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpubuild/buildenv"
	"gpubuild/buildenv/cache"
	"gpubuild/buildenv/hosttest"
	"gpubuild/buildenv/local"
	"gpubuild/cmd/internal/console"
	"gpubuild/cmd/internal/session"
)

// started answers each nvcc, and nothing else.
type started struct{}

func (started) Run(_ context.Context, c buildenv.Cmd) (buildenv.Result, error) {
	if strings.HasSuffix(c.Path, "/nvcc") {
		return buildenv.Result{Stdout: []byte("Cuda compilation tools, release 12.4, V12.4.9\n")}, nil
	}
	return buildenv.Result{}, errors.New("it cannot be started")
}

func kit(root, number string) string {
	return "-- @links --\n" + root + "/lib64/libcudart.so -> libcudart.so.12\n-- @empty --\n" + root + "/include/nv/target\n" + root + "/include/cuda_runtime.h\n" + root + "/include/crt/host_config.h\n" +
		root + "/lib64/libcudart.so.12\n-- " + root + "/bin/nvcc +x --\nn\n-- " + root + "/nvvm/bin/cicc +x --\nc\n-- " + root + "/include/cuda.h --\n#define CUDA_VERSION " + number + "\n"
}

// installedKit is one in the cache.
func installedKit(version, number string) string {
	root := "/cache/toolkits/cuda-" + version
	return kit(root, number) + "-- " + root + "/bin/ptxas +x --\np\n-- " + root + "/bin/fatbinary +x --\nf\n-- @empty --\n" + root + "/bin/cudafe++\n" + root + "/bin/nvcc.profile\n-- " + root + "/gpubuild-toolkit.json --\n{\"schema\": 2, \"cuda\": \"" + version +
		"\", \"release\": \"" + version + ".0\", \"bytes\": 5000000, \"parts\": [{\"name\": \"build\"}]}\n"
}

func planted(t *testing.T, text string) (*session.Machine, *bytes.Buffer, *bytes.Buffer) {
	t.Helper()
	cache := t.TempDir() // that an nvcc starts is written there
	h, err := hosttest.Parse([]byte("os: linux\narch: amd64\nhome: /home/u\ncwd: /w\n" + strings.ReplaceAll(text, "/cache/", cache+"/")))
	if err != nil {
		t.Fatal(err)
	}
	var out, said bytes.Buffer
	return &session.Machine{Host: h, Runner: started{}, Shell: &console.Shell{Out: &out, Err: &said}, CacheDir: cache}, &out, &said
}

// TestList: the toolkits of a machine, which of them builds take, and what to do where there is none.
func TestList(t *testing.T) {
	t.Parallel()
	const use, install = "-- @env --\nGPUBUILD_CONFIG=/mine.toml\n-- /mine.toml --\ncuda = \"12.4\"\n", "gpubuild toolchain install"
	two := kit("/opt/cuda", "12040") + installedKit("13.4", "13040") + "-- @env --\nCUDA_HOME=/opt/cuda\n"
	for _, tt := range []struct {
		story, text string
		json        bool
		out         []string // "!": it does not hold it
		said        []string
	}{
		{"none", "", false, []string{"!cuda"}, []string{"no CUDA toolkit in /usr/local/cuda", install}},
		{"two", two, false, []string{"12.4     /opt/cuda (CUDA_HOME, a usual place; default)\n", "13.4     /cache/toolkits/cuda-13.4 (gpubuild's cache)\n         5 MB: build", "!by "}, []string{"!" + install, "!no CUDA"}},
		{"one that the user chose", kit("/usr/local/cuda-12.4", "12040") + installedKit("13.4", "13040") + use, false, []string{"/usr/local/cuda-12.4 (a usual place; default by gpubuild toolchain use)", "!13.4; default"}, []string{"!" + install}},
		{"a broken one", "-- @env --\nCUDA_HOME=/gone\n", false, []string{"/gone (CUDA_HOME): it does not exist"}, []string{install, "!no CUDA toolkit in"}},
		{"one that lacks a part", strings.ReplaceAll(kit("/usr/local/cuda-12.4", "12040"), "/usr/local/cuda-12.4/include/nv/target\n", ""), false, []string{": without cccl"}, []string{"!" + install}},
		{"half of one in the cache", installedKit("13.4", "13040") + "-- @dirs --\n/cache/toolkits/cuda-12.9\n", false, []string{"!12.9"}, []string{"/cache/toolkits/cuda-12.9"}},
		{"as JSON", installedKit("13.4", "13040") + "-- @dirs --\n/cache/toolkits/cuda-12.9\n", true, []string{`"root": "/cache/toolkits/cuda-13.4"`, `"default": "/cache/toolkits/cuda-13.4"`, "toolchain.leftover"}, nil},
		{"none as JSON", "", true, []string{`"installed": []`, `"toolkits": []`}, nil},
	} {
		m, out, said := planted(t, tt.text)
		o := Options{}
		if tt.json {
			o.JSON = new(string)
		}
		hosttest.Equal(t, List(t.Context(), m, o, nil), nil, tt.story)
		for text, wants := range map[string][]string{out.String(): tt.out, said.String(): tt.said} {
			for _, want := range wants {
				want, not := strings.CutPrefix(strings.ReplaceAll(want, "/cache/", m.CacheDir+"/"), "!")
				if strings.Contains(text, want) == not {
					t.Errorf("%s: %q in\n%s", tt.story, want, text)
				}
			}
		}
	}
	m, _, _ := planted(t, "-- @env --\nGPUBUILD_CONFIG=/gone\n")
	if err := List(t.Context(), m, Options{}, nil); err == nil {
		t.Error("a configuration that is gone is no error")
	}
}

// TestUse: which toolkit is chosen is shown, and what wins over it.
func TestUse(t *testing.T) {
	t.Parallel()
	const mine = "-- /mine.toml --\ncuda = \"12.4\"\n-- @env --\nGPUBUILD_CONFIG=/mine.toml\n"
	for _, tt := range []struct {
		text      string
		words     []string
		out, said string
		err       string
	}{
		{"", nil, "", "no toolkit is chosen in /home/u/.config/gpubuild/config.toml", ""}, {mine, nil, "12.4\n", "", ""},
		{mine + "GPUBUILD_CUDA=13.4\n", nil, "12.4\n", "GPUBUILD_CUDA=13.4 is set here and wins over it", ""}, {mine, []string{"13.1"}, "", "", "there is no CUDA toolkit 13.1"},
		{"-- @env --\nGPUBUILD_CONFIG=/gone\n", nil, "", "", "names this file"},
	} {
		m, out, said := planted(t, tt.text)
		err := Use(t.Context(), m, Options{}, tt.words)
		if out.String() != tt.out || !strings.Contains(said.String(), tt.said) || tt.said == "" && said.Len() > 0 || (err != nil) != (tt.err != "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%q of %q: %q, %q, %v", tt.words, tt.text, out, said, err)
		}
	}
}

// TestInstallRefuses what cannot be installed, before anything is fetched.
func TestInstallRefuses(t *testing.T) {
	t.Parallel()
	const none = "-- @env --\nGPUBUILD_REDIST=never\nPATH=/usr/bin\n"
	const never = none + "-- @empty --\n/usr/bin/gcc +x\n/usr/bin/g++ +x\n"
	for _, tt := range []struct{ text, word, want string }{
		{never, "newest", `"newest"`}, {none, "11.0", "no CUDA 11.0 to fetch"}, {never, "", "no pip"},
		{never + "-- /sys/module/nvidia/version --\n525.60.13\n", "", "525.60.13"},
	} {
		m, out, said := planted(t, tt.text)
		var words []string
		if tt.word != "" {
			words = append(words, tt.word)
		}
		if err := Install(t.Context(), m, Options{}, words); err == nil || !strings.Contains(err.Error(), tt.want) || out.Len() > 0 ||
			strings.Contains(said.String(), "nvcc needs a C++ compiler, and there is none here: apt install g++") != (tt.word == "11.0") {
			t.Errorf("%q: %v, %s; want %q", tt.word, err, said, tt.want)
		}
	}
}

// TestRemove: which toolkits words mean: a name, a root, a version or a release.
func TestRemove(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		words, want string // the directories that stay, and the error
		bad         bool
	}{
		{"cuda-12.4", "cuda-13.4 half", false}, {"12.4", "cuda-13.4 half", false}, {"12.4.0", "cuda-13.4 half", false}, {"DIR/cuda-12.4", "cuda-13.4 half", false},
		{"half", "cuda-12.4 cuda-13.4", false}, {"12.4 cuda-12.4 13.4", "half", false}, {"12", "cuda-12.4 cuda-13.4 half", true}, {"12.4 11.8", "cuda-12.4 cuda-13.4 half", true},
		{"0.0", "cuda-12.4 cuda-13.4 half", true},
	} {
		h, err := local.Host()
		if err != nil {
			t.Fatal(err)
		}
		var out, said bytes.Buffer
		m := &session.Machine{Host: h, Runner: started{}, Shell: &console.Shell{Out: &out, Err: &said}, CacheDir: t.TempDir()}
		dir := filepath.Join(m.CacheDir, "toolkits")
		for _, name := range []string{"12.4", "13.4"} {
			files := map[string]string{"gpubuild-toolkit.json": `{"schema": 2, "cuda": "` + name + `", "release": "` + name + `.0", "parts": [{"name": "build"}]}`}
			for _, p := range []string{"bin/nvcc", "bin/ptxas", "bin/fatbinary", "bin/cudafe++", "bin/nvcc.profile", "nvvm/bin/cicc"} {
				files[h.Exe(p)] = "x"
			}
			for file, text := range files {
				path := filepath.Join(dir, "cuda-"+name, filepath.FromSlash(file))
				if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o700)); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := os.Mkdir(filepath.Join(dir, "half"), 0o700); err != nil {
			t.Fatal(err)
		}
		words := strings.Fields(tt.words)
		for i := range words {
			words[i] = strings.ReplaceAll(words[i], "DIR", dir)
		}
		err = Remove(t.Context(), m, Options{}, words)
		var left []string
		for _, name := range h.Names(dir) {
			if !strings.HasPrefix(name, ".") {
				left = append(left, name)
			}
		}
		if got := strings.Join(left, " "); got != tt.want || (err != nil) != tt.bad || strings.Count(said.String(), "Removed")+len(left) != 3 {
			t.Errorf("%s: %q stay, %v, %q", tt.words, got, err, said.String())
		}
	}
}

// TestCleanCache: what is emptied, and that nothing is where the directory holds what is not gpubuild's.
func TestCleanCache(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		story   string
		kernels bool
		files   string
		want    string
		says    string
		bad     bool
	}{
		{"everything", false, "kernels/a memo/b toolkits/cuda-1/x", "toolkits/cuda-1/x", "2 bytes", false},
		{"kernels", true, "kernels/a memo/b", "memo/b", "1 byte", false},
		{"another's file", false, "kernels/a letters/b", "letters/b", "1 byte", false},
		{"what was there before", false, "early kernels/a", "kernels/a", "", true},
		{"nothing", false, "", "", "0 bytes", false},
	} {
		h, err := local.Host()
		if err != nil {
			t.Fatal(err)
		}
		var said bytes.Buffer
		m := &session.Machine{Host: h, Shell: &console.Shell{Err: &said}, CacheDir: t.TempDir()}
		files, early := strings.CutPrefix(tt.files, "early ")
		if !early {
			cache.Adopt(m.CacheDir)
		}
		for _, file := range strings.Fields(files) {
			path := filepath.Join(m.CacheDir, filepath.FromSlash(file))
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte("x"), 0o600)); err != nil {
				t.Fatal(err)
			}
		}
		err = CleanCache(m, tt.kernels)
		var left []string
		for _, file := range strings.Fields(files) {
			if h.IsFile(filepath.Join(m.CacheDir, filepath.FromSlash(file))) {
				left = append(left, file)
			}
		}
		if got := strings.Join(left, " "); got != tt.want || (err != nil) != tt.bad || tt.bad != (said.Len() == 0) {
			t.Errorf("%s: %q stay, %v, %q", tt.story, got, err, said.String())
		}
	}
}
