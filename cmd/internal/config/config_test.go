package config_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"gpubuild/buildenv/hosttest"
	"gpubuild/cmd/internal/config"
	"gpubuild/gpu"
)

func TestReadMergesWithOrigins(t *testing.T) {
	c, err := config.Read([]config.Source{
		{
			Path: "gpubuild.toml",
			Data: []byte("gpu-features = [\"gpu\"]\n[toolchain]\narch = \"sm_90\"\n[prove]\nargs = [\"--device\", \"cuda\"]\n"),
		},
		{
			Path:  "Cargo.toml",
			Table: "workspace.metadata.gpubuild",
			Data: []byte(
				"[workspace]\nmembers = []\n[workspace.metadata.gpubuild]\nstrict = true\n[workspace.metadata.gpubuild.toolchain]\narch = \"sm_80\"\ncuda = \"13.4\"\n",
			),
		},
		{Path: "app/Cargo.toml", Table: "package.metadata.gpubuild", Data: []byte("[package]\nname = \"app\"\n")},
	})
	if err != nil {
		t.Fatal(err)
	}
	if c.Arch.Value != "sm_90" || c.Arch.Origin != "gpubuild.toml" {
		t.Errorf("arch: got %+v", c.Arch)
	}
	if c.CUDA.Value != "13.4" || c.CUDA.Origin != "Cargo.toml [workspace.metadata.gpubuild]" {
		t.Errorf("cuda: got %+v", c.CUDA)
	}
	if !c.Strict.Value || c.Prove.Value == nil || c.Prove.Value.Args[1] != "cuda" {
		t.Errorf("got %+v", c)
	}
}

func TestReadRefuses(t *testing.T) {
	for _, tt := range []struct {
		name, table, data string
		line              int
		says              string
	}{
		{"a table that is none", "", "strict = true\n[matrix]\nfeatures = [\"cuda\"]\n", 2, `unknown key "matrix"`},
		{"an alert that is none", "", "[watch]\nfail-on = [\"xids\"]\n", 2, `there is no alert "xids"`},
		{"a key of another table", "", "[toolchain]\ncuda = \"13.4\"\n[ci]\ncuda = \"13.4\"\n", 4, `unknown key "ci.cuda"`},
		{"a key in another case", "", "[prove]\nKernel = \"gemm\"\n", 2, `unknown key "prove.Kernel"`},
		{"a key in another case beside the right one", "", "[prove]\nkernel = \"gemm\"\nKERNEL = \"relu\"\n", 3, `unknown key "prove.KERNEL"`},
		{"an architecture that is none", "", "[toolchain]\narch = \"foo\"\n", 2, `toolchain.arch: "foo" is not an architecture`},
		{"a path that no system has", "", "[toolchain]\ncuda = \"/" + strings.Repeat("a/", 3000) + "\"\n", 2, "toolchain.cuda has 6001 bytes, which no path has"},
		{"a version without quotes", "", "[toolchain]\ncuda = 13.4\n", 2, "toolchain.cuda has a value of the wrong type"},
		{"a hold that is no time", "", "[watch]\nhold = \"3\"\n", 2, "is not a duration"},
		{"a hold of nothing", "", "[watch]\nhold = \"0s\"\n", 2, "is not a duration"},
		{"an idle of two days", "", "[watch]\nidle = \"48h\"\n", 2, "is not a duration"},
		{"no memory", "", "[watch]\nmemory = 0\n", 2, "percentage from 1 to 100"},
		{"more memory than there is", "", "[watch]\nmemory = 101\n", 2, "percentage from 1 to 100"},
		{"degrees below the limit", "", "[watch]\ntemperature = -1\n", 2, "degrees from 0 to 100"},
		{"more degrees than boil water", "", "[watch]\ntemperature = 101\n", 2, "degrees from 0 to 100"},
		{"kernels that match gpubuild's own", "", "[test]\ngpu = [\"a\"]\nkernel = [\"gemm\", \".+\"]\n", 3, "matches gpubuild's own kernel"},
		{"an expression that is none", "", "[prove]\nkernel = \"(\"\n", 2, "prove.kernel"},
		{"kernels that are no texts", "", "[prove]\nkernel = [\"a\", 1]\n", 2, ""},
		{"a kernel that is a number", "", "[prove]\nkernel = 1\n", 2, ""},
		{"a download", "", "[toolchain]\ncuda = \"fetch\"\n", 2, "would let a cloned repository start a download"},
		{"a place with a name that is none", "", "[on.\"a b\"]\nplace = \"slurm\"\n", 1, "make a name"},
		{"a place that leads nowhere", "", "[on.a]\nargs = []\n", 1, "either a command or a place"},
		{"a place and a command", "", "[on.a]\nplace = \"slurm\"\ncommand = \"srun\"\n", 3, "either a command or a place"},
		{"a cache without a root", "", "[on.slurm]\ncache = \"x\"\n", 2, "is not an absolute path"},
		{"a line break in a command", "", "[on.a]\ncommand = \"srun\\n\"\n", 2, "control characters"},
		{"an open quote", "", "[on.a]\ncommand = \"srun '\"\n", 2, "open quote or no word"},
		{"a command without a word", "", "[on.a]\ncommand = \" \"\n", 2, "open quote or no word"},
		{"a time to connect that is none", "", "[on.slurm]\nconnect-timeout = \"10\"\n", 2, "is not a duration"},
		{"a limit that is no size", "", "[on.slurm]\nlimit = \"20K\"\n", 2, "is not a size"},
		{"a fault of the second table", "", "[on.slurm]\n[on.b]\n", 2, "either a command or a place"},
		{"a key of [on] that is none", "", "[on.slurm]\nfoo = 1\n", 2, `unknown key "on.slurm.foo"`},
		{"a list without brackets", "", "[prove]\nargs = \"--steps\"\n", 2, `write a list of strings: ["a", "b"]`},
		{"yes for true", "", "strict = \"yes\"\n", 1, "write true or false"},
		{"a table that is misspelled", "", "[toolchian]\ncuda = \"13.4\"\n", 1, "did you mean `toolchain`?"},
		{"a key of another file's table", "package.metadata.gpubuild", "[package.metadata.gpubuild]\nfoo = 1\n", 2, `unknown key "foo"`},
		{"a key of [on] in another case", "", "[on.Slurm]\nArgs = []\n", 2, `unknown key "on.Slurm.Args"`},
		{"a key of the user's own configuration", "", "trust = [\"/x\"]\n", 1, "move it to ~/config.toml"},
		{"another", "", "redist = \"never\"\n", 1, "move it to ~/config.toml"},
		{"a key without its table", "", "cuda = \"13.4\"\n", 1, "did you mean `toolchain.cuda`?"},
		{"a key of three tables", "", "kernel = \"x\"\n", 1, "did you mean `prove.kernel` or `test.kernel` or `bench.kernel`?"},
		{"an exit code that is too large", "", "[prove]\nexpect-exit = 256\n", 2, `prove.expect-exit: "256" is not an exit code`},
		{"a time on the GPU that is none", "", "[prove]\nmin-gpu-time = \"10\"\n", 2, `"10" is not a duration`},
		{"launches below 0", "", "[prove]\nmin-launches = -1\n", 2, "prove.min-launches: -1 is not a number from 1 on"},
		{"no launches", "", "[prove]\nargs = []\nmin-launches = 0\n", 3, "prove.min-launches: 0 is not a number from 1 on"},
		{"an exit code below 0", "", "[prove]\nexpect-exit = -1\n", 2, `prove.expect-exit: "-1" is not an exit code`},
		{"a table in another case", "", "[Prove]\nkernel = \"gemm\"\n", 1, `unknown key "Prove"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := config.Read([]config.Source{{Path: "f.toml", Table: tt.table, Data: []byte(tt.data), User: "~/config.toml"}})
			var e *config.Error
			if !errors.As(err, &e) {
				t.Fatalf("got %v", err)
			}
			if !strings.Contains(e.Error()+"\n"+e.Hint(), tt.says) || e.Hint() == "" || e.Line != tt.line {
				t.Errorf("got line %d, %v, want line %d, %q and a hint", e.Line, e.Error(), tt.line, tt.says)
			}
		})
	}
}

// TestReadAccepts: values at the ends of what is allowed, names of places in any case, and keys of other programs in a manifest.
func TestReadAccepts(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ table, data string }{
		{"", "[watch]\nmemory = 1\ntemperature = 0\nhold = \"1s\"\nidle = \"24h\"\n"}, {"", "[watch]\nmemory = 100\ntemperature = 100\n"}, {"", "[on.Slurm]\nplace = \"slurm\"\n"},
		{"package.metadata.gpubuild", "[package]\nname = \"app\"\n[package.metadata.Other]\nfoo = 1\n[dependencies]\nFoo = \"1\"\n[package.metadata.gpubuild]\nstrict = true\n"},
		{"package.metadata.gpubuild", "[package]\nname = \"app\"\n"}, {"package.metadata.gpubuild", "strict = 1\n"},
	} {
		if _, err := config.Read([]config.Source{{Path: "f.toml", Table: tt.table, Data: []byte(tt.data)}}); err != nil {
			t.Errorf("%q: %v", tt.data, err)
		}
	}
}

// TestTheStrongerSource: a table that a weaker file has and the stronger one has not counts, whole.
func TestTheStrongerSource(t *testing.T) {
	t.Parallel()
	read := func(first, second string) config.Config {
		return hosttest.Must(config.Read([]config.Source{{Path: "a.toml", Data: []byte(first)}, {Path: "b.toml", Data: []byte(second)}}))(t)
	}
	for _, key := range []string{"gpu-features = [\"x\"]", "gpu-packages = [\"x\"]", "[ci]\nimage = \"x\"", "[on.x]\nplace = \"slurm\"", "[watch]\nmemory = 7"} {
		for _, tt := range []struct{ first, second, origin string }{{key, "", "a.toml"}, {"", key, "b.toml"}, {key, key, "a.toml"}, {"", "", ""}} {
			c := read(tt.first, tt.second)
			origin := ""
			for _, is := range []string{c.GPUFeatures.Origin, c.GPUPackages.Origin, c.CI.Origin, c.On.Origin, c.Watch.Origin} {
				origin += is
			}
			hosttest.Equal(t, origin, tt.origin, key, tt.first, tt.second)
		}
	}
}

// FuzzRead: whatever stands in a repository's configuration, it is read or refused with a place and a hint, and never panics.
func FuzzRead(f *testing.F) {
	f.Add("[on.a]\ncommand = \"srun\"\n[[matrix.prove]]\nname = \"a\"\n", false)
	f.Add("[ci]\ninstall = \"x\"\n", false)
	f.Add("[package.metadata.gpubuild.matrix]\ncuda = [\"13.4\"]\n", true)
	f.Add("[test]\ngpu = [\"lib:a/*\"]\n[bench]\ngpu = [\"[\"]\n", false)
	f.Add("matrix = { exclude = [{ arch = [\"90\"] }] }\nprove.args = []\n", false)
	f.Fuzz(func(t *testing.T, text string, metadata bool) {
		s := config.Source{Path: "f.toml", Data: []byte(text)}
		if metadata {
			s.Table = "package.metadata.gpubuild"
		}
		_, err := config.Read([]config.Source{s})
		var e *config.Error
		if err != nil && (!errors.As(err, &e) || e.Hint() == "" || e.Line > strings.Count(text, "\n")+1) {
			t.Errorf("%v", err)
		}
	})
}

// TestSyntaxErrorsHaveTheirLine: BurntSushi's own excerpt panics on the first of these (index -1).
func TestSyntaxErrorsHaveTheirLine(t *testing.T) {
	for text, want := range map[string]int{
		"strict = true\r\n[prove]\r\nkernel = \"x\r\n": 3,
		"a = \"x\r\n":              1,
		"a = \"x":                  1,
		"\r\n\r\nb = '''\r\nx":     4,
		"strict = true\n[ci\n":     2,
		"strict = true\nstrict =":  2,
		"strict = tru\r\n":         1,
		"x = [\r\n1,\r\n\"y\r\n]":  3,
		"[prove]\nargs = [\n\"a\"": 3,
	} {
		_, err := config.Read([]config.Source{{Path: "gpubuild.toml", Data: []byte(text)}})
		var bad *config.Error
		if !errors.As(err, &bad) || bad.Line != want || bad.ExitCode() != 30 {
			t.Errorf("%q: got %v, want line %d", text, err, want)
		}
	}
}

// TestParseSize: M, G and T are powers of ten, and nothing else is a unit.
func TestParseSize(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{"": 0, "7": 7, "500M": 5e8, "20G": 2e10, "3T": 3e12, "0": -1, "0G": -1, "-1G": -1, "20K": -1, "G": -1, "1.5G": -1} {
		if got, err := config.ParseSize(text); (err != nil) != (want < 0) || err == nil && got != want {
			t.Errorf("%q: %d, %v", text, got, err)
		}
	}
}

// TestThresholds: what the table does not say stays.
func TestThresholds(t *testing.T) {
	t.Parallel()
	five, none := 5, 0
	usual := gpu.DefaultThresholds()
	for _, tt := range []struct {
		w    *config.Watch
		want func(*gpu.Thresholds)
	}{
		{nil, func(*gpu.Thresholds) {}}, {&config.Watch{}, func(*gpu.Thresholds) {}},
		{&config.Watch{Temperature: &none}, func(w *gpu.Thresholds) { w.TemperatureMargin = 0 }}, {&config.Watch{Memory: &five}, func(w *gpu.Thresholds) { w.MemoryPercent = 5 }},
		{&config.Watch{Hold: "9s"}, func(w *gpu.Thresholds) { w.Hold = 9 * time.Second }}, {&config.Watch{Idle: "9m"}, func(w *gpu.Thresholds) { w.Idle = 9 * time.Minute }},
	} {
		want := usual
		if tt.want(&want); tt.w.Thresholds() != want {
			t.Errorf("%+v: %+v", tt.w, tt.w.Thresholds())
		}
	}
}

// TestKernelsAreOneExpression: of several any may match.
func TestKernelsAreOneExpression(t *testing.T) {
	t.Parallel()
	for want, k := range map[string]config.Kernels{"": nil, "a|b": {"a|b"}, "(?:a|b)|(?:c)": {"a|b", "c"}} {
		hosttest.Equal(t, k.Expression(), want, k)
	}
	c, err := config.Read([]config.Source{{Path: "f.toml", Data: []byte("[prove]\nkernel = [\"gemm\", \"matmul\"]\n")}})
	if err != nil || c.Prove.Value.Kernel.Expression() != "(?:gemm)|(?:matmul)" {
		t.Errorf("%+v %v", c.Prove.Value, err)
	}
}

// TestValuesOfAnotherType: a user reads TOML's words, not Go's.
func TestValuesOfAnotherType(t *testing.T) {
	for text, want := range map[string]string{
		"strict = 1":                  "gpubuild.toml:1: strict has a value of the wrong type",
		"gpu-features = [1, 2]":       "gpubuild.toml:1: gpu-features has a value of the wrong type",
		"[toolchain]\ncuda = {a = 1}": "gpubuild.toml:2: toolchain.cuda has a value of the wrong type",
		"prove = 1":                   "gpubuild.toml:1: prove has a value of the wrong type",
	} {
		_, err := config.Read([]config.Source{{Path: "gpubuild.toml", Data: []byte(text)}})
		if err == nil || err.Error() != want {
			t.Errorf("%q:\n got %v\nwant %s", text, err, want)
		}
	}
}
