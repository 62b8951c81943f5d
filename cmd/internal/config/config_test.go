package config_test

import (
	"errors"
	"strings"
	"testing"

	"gpubuild/cmd/internal/config"
)

func TestReadMergesWithOrigins(t *testing.T) {
	c, err := config.Read([]config.Source{
		{Path: "gpubuild.toml", Data: []byte("gpu-features = [\"gpu\"]\n[toolchain]\narch = \"sm_90\"\n[prove]\nargs = [\"--device\", \"cuda\"]\n")},
		{Path: "Cargo.toml", Table: "workspace.metadata.gpubuild", Data: []byte("[workspace]\nmembers = []\n[workspace.metadata.gpubuild]\nstrict = true\n[workspace.metadata.gpubuild.toolchain]\narch = \"sm_80\"\ncuda = \"13.4\"\n")},
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
		{"a mistyped key in metadata", "package.metadata.gpubuild", "[package]\nname = \"a\"\n[package.metadata.gpubuild]\nstrikt = true\n", 4, `unknown key "strikt"`},
		{"broken TOML", "", "strict = \n", 1, "expected value"},
		{"a wrong type", "", "strict = \"yes\"\n", 0, "incompatible types"},
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
	_, err := config.Read([]config.Source{{Path: "Cargo.toml", Table: "package.metadata.gpubuild", Data: []byte("[package.metadata.docs]\nx = 1\n[package.metadata.gpubuild]\nstrict = true\n")}})
	if err != nil {
		t.Error(err)
	}
}
