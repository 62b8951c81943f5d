package config_test

import (
	"errors"
	"strings"
	"testing"

	"gpubuild/cmd/internal/config"
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
	tests := []struct {
		name, table, data string
		line              int
		says              string
	}{
		{"a mistyped key", "", "\n[prove]\narg = [\"x\"]\n", 3, `unknown key "prove.arg"`},
		{"a mistyped table", "", "[proof]\nargs = []\n", 1, `unknown key "proof"`},
		{
			"a mistyped key in metadata",
			"package.metadata.gpubuild",
			"[package]\nname = \"a\"\n[package.metadata.gpubuild]\nstrikt = true\n",
			4,
			`unknown key "strikt"`,
		},
		{"broken TOML", "", "strict = \n", 1, "expected value"},
		{"a wrong type", "", "strict = \"yes\"\n", 0, "it must be true or false"},
		{"a repository that wants to download", "", "[toolchain]\ncuda = \"fetch\"\n", 2, "start a download"},
		{"a kernel that is no expression", "", "[prove]\nkernel = \"(\"\n", 2, "missing closing"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := config.Read([]config.Source{{Path: "f.toml", Table: tt.table, Data: []byte(tt.data)}})
			var e *config.Error
			if !errors.As(err, &e) {
				t.Fatalf("got %v", err)
			}
			if !strings.Contains(e.Error(), tt.says) || e.Hint() == "" {
				t.Errorf("got %q, want it to say %q and a hint", e.Error(), tt.says)
			}
			if tt.line != 0 && e.Line != tt.line {
				t.Errorf("line: got %d, want %d", e.Line, tt.line)
			}
		})
	}
}

func TestMetadataOfOthersIsNoneOfOurBusiness(t *testing.T) {
	_, err := config.Read(
		[]config.Source{
			{
				Path:  "Cargo.toml",
				Table: "package.metadata.gpubuild",
				Data:  []byte("[package.metadata.docs]\nx = 1\n[package.metadata.gpubuild]\nstrict = true\n"),
			},
		},
	)
	if err != nil {
		t.Error(err)
	}
}

func TestReadMatrix(t *testing.T) {
	c, err := config.Read([]config.Source{{Path: "gpubuild.toml", Data: []byte(`
[matrix]
features = ["cuda", "cuda,cudnn"]
cuda = ["13.3", "13.4"]
arch = ["9.0a", "80"]
image = { "12.8" = "nvidia/cuda:12.8.1-devel-ubuntu24.04" }
[matrix.runner]
linux-x86_64 = ["ubuntu-24.04"]
[[matrix.prove]]
name = "a100"
arch = ["sm_80"]
wrapper = "srun --gres=gpu:1"
capability = "80"
[ci]
install = "go install example.org/gpubuild@v1"
`)}})
	if err != nil {
		t.Fatal(err)
	}
	m := c.Matrix.Value
	if m == nil || strings.Join(m.Arch, " ") != "sm_90a sm_80" || m.Image["12.8"] == "" || m.Runner["linux-x86_64"][0] != "ubuntu-24.04" ||
		m.Prove[0].Capability != "8.0" || m.Prove[0].Arch[0] != "sm_80" || c.CI.Value.Install == "" {
		t.Errorf("got %+v", m)
	}
}

func TestMatrixRefuses(t *testing.T) {
	tests := []struct {
		name, table, data string
		line              int
		says              string
	}{
		{"a mistyped key", "", "[matrix]\narchs = [\"sm_90\"]\n", 2, `unknown key "matrix.archs"`},
		{"a key of another table", "", "[toolchain]\ncuda = \"13.4\"\n[ci]\ncuda = \"13.4\"\n", 4, `unknown key "ci.cuda"`},
		{
			"a mistyped key of the second place",
			"",
			"[[matrix.prove]]\nname = \"a\"\n[[matrix.prove]]\nname = \"b\"\nlabels = [\"x\"]\n",
			5,
			`unknown key "matrix.prove.labels"`,
		},
		{
			"a mistyped key in an inline table",
			"",
			"[matrix]\nexclude = [{ cuda = [\"13.4\"], oss = [\"x\"] }]\n",
			2,
			`unknown key "matrix.exclude.oss"`,
		},
		{
			"a mistyped key in metadata",
			"package.metadata.gpubuild",
			"[package]\nname = \"a\"\n[package.metadata.gpubuild.matrix]\ncudas = []\n",
			4,
			`unknown key "matrix.cudas"`,
		},
		{"an empty axis", "", "[matrix]\nfeatures = [\"cuda\"]\ncuda = []\n", 3, "leaves no row"},
		{"a major version only", "", "[matrix]\ncuda = [\"13\"]\n", 2, `"13" is not a version such as 13.4`},
		{"one feature list twice", "", "[matrix]\nfeatures = [\"cuda,cudnn\", \" cudnn cuda, \"]\n", 2, `"cuda,cudnn" is listed twice`},
		{"one value twice, in two forms", "", "[matrix]\narch = [\"sm_90\", \"9.0\"]\n", 2, `"sm_90" is listed twice`},
		{"PTX for an arch", "", "[matrix]\narch = [\"compute_90\"]\n", 2, "is not an architecture"},
		{"a platform by Go's name", "", "[matrix]\nplatform = [\"linux/amd64\"]\n", 2, "linux-x86_64"},
		{"a newline in a feature", "", "[matrix]\nfeatures = [\"cuda\\n::error::x\"]\n", 2, "is not features"},
		{"an exclude of everything", "", "[[matrix.exclude]]\n", 1, "leave no row"},
		{"a place without a name", "", "[matrix]\n[[matrix.prove]]\nrunner = [\"gpu\"]\n", 2, "a short name"},
		{"two places of one name", "", "[[matrix.prove]]\nname = \"a\"\n[[matrix.prove]]\nname = \"a\"\n", 2, "names two places"},
		{"a driver that is none", "", "[[matrix.prove]]\nname = \"a\"\ndriver = \"newest\"\n", 3, "is no driver version"},
		{"a compiler that is none", "", "[matrix.compilers]\nlabel = [\"gcc\"]\n", 2, "is no compiler"},
		{"a runner of no platform", "", "[matrix.runner]\nlinux = [\"x\"]\n", 2, "a platform such as"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := config.Read([]config.Source{{Path: "f.toml", Table: tt.table, Data: []byte(tt.data)}})
			var e *config.Error
			if !errors.As(err, &e) {
				t.Fatalf("got %v", err)
			}
			if !strings.Contains(e.Error(), tt.says) || e.Hint() == "" || e.Line != tt.line {
				t.Errorf("got line %d, %q, want line %d, %q and a hint", e.Line, e.Error(), tt.line, tt.says)
			}
		})
	}
}

// FuzzRead: whatever stands in a repository's configuration, it is read or refused with a place and a hint, and never panics.
func FuzzRead(f *testing.F) {
	f.Add("[matrix]\nfeatures = [\"cuda\"]\n[[matrix.prove]]\nname = \"a\"\nwrapper = \"srun\"\n", false)
	f.Add("[matrix.runner]\nlinux-x86_64 = [\"a\"]\n[ci]\ninstall = \"x\"\n", false)
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
