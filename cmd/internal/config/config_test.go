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
		{"a table that is none", "", "strict = true\n[matrix]\nfeatures = [\"cuda\"]\n", 2, `unknown key "matrix"`},
		{"an alert that is none", "", "[watch]\nfail-on = [\"xid\"]\n", 2, `there is no alert "xid"`},
		{"a key of another table", "", "[toolchain]\ncuda = \"13.4\"\n[ci]\ncuda = \"13.4\"\n", 4, `unknown key "ci.cuda"`},
		{"a key in another case", "", "[prove]\nKernel = \"gemm\"\n", 2, `unknown key "prove.Kernel"`},
		{"a key in another case beside the right one", "", "[prove]\nkernel = \"gemm\"\nKERNEL = \"relu\"\n", 3, `unknown key "prove.KERNEL"`},
		{"an architecture that is none", "", "[toolchain]\narch = \"foo\"\n", 2, `toolchain.arch: "foo" is not an architecture`},
		{"a version without quotes", "", "[toolchain]\ncuda = 13.4\n", 2, "toolchain.cuda has a value of the wrong type"},
		{"a table in another case", "", "[Prove]\nkernel = \"gemm\"\n", 1, `unknown key "Prove"`},
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
