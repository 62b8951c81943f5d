package config_test

import (
	"errors"
	"strings"
	"testing"

	"gpubuild/buildenv/hosttest"
	"gpubuild/cmd/internal/config"
)

func TestMarks(t *testing.T) {
	c, err := config.Read(
		[]config.Source{{Path: "gpubuild.toml", Data: []byte("[test]\ngpu = [\"kernels\", \"lib:*\"]\n[bench]\ngpu = [\"app/matmul\"]\n")}},
	)
	if err != nil {
		t.Fatal(err)
	}
	if c.Test.Value.GPU[1] != "lib:*" || c.Bench.Value.GPU[0] != "app/matmul" || c.Bench.Origin != "gpubuild.toml" {
		t.Errorf("got %+v %+v", c.Test, c.Bench)
	}
	err = c.Bench.Value.Unknown("app/matmul", []string{"bench:other"})
	var e *config.Error
	if !errors.As(err, &e) || e.Line != 4 || !strings.Contains(e.Error(), "gpubuild.toml:4: bench.gpu: no target") ||
		!strings.Contains(e.Hint(), "bench:other") {
		t.Errorf("got %v, hint %q", err, e.Hint())
	}
}

func TestMarksRefuse(t *testing.T) {
	for _, tt := range []struct {
		name, table, data string
		line              int
		says              string
	}{
		{"an empty list", "", "[test]\ngpu = []\n", 2, "no target is named"},
		{"no list", "", "[test]\n", 1, "no target is named"},
		{"an open bracket", "", "[test]\ngpu = [\"a\"]\n[bench]\ngpu = [\"[x\"]\n", 4, "is no pattern"},
		{"nothing behind the kind", "", "[test]\ngpu = [\"lib:\"]\n", 2, "is no pattern"},
		{"no kind of cargo's", "", "[test]\ngpu = [\"dylib:x\"]\n", 2, "is no kind"},
		{"twice", "", "[test]\ngpu = [\"a\", \"a\"]\n", 2, "twice"},
		{"the coverage of benchmarks", "", "[bench]\ngpu = [\"a\"]\ncoverage = 80\n", 3, `unknown key "bench.coverage"`},
		{"an unknown key", "", "[test]\ncpu = [\"a\"]\n", 2, `unknown key "test.cpu"`},
		{
			"in a manifest",
			"workspace.metadata.gpubuild",
			"[workspace]\n[workspace.metadata.gpubuild.test]\ngpu = [\"a\", \"\"]\n",
			3,
			"is no pattern",
		},
	} {
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

func TestMarkMatches(t *testing.T) {
	for _, tt := range []struct {
		pattern, pkg, kind, name string
		want                     bool
	}{
		{"kernels", "app", "test", "kernels", true},
		{"kernels", "app", "lib", "kernels", true},
		{"kernels", "app", "test", "kernels-2", false},
		{"integration-*", "app", "test", "integration-gpu", true},
		{"lib:kernels", "app", "bin", "kernels", false},
		{"lib:kernels", "app", "lib", "kernels", true},
		{"app/*", "app", "test", "x", true},
		{"app/*", "app2", "test", "x", false},
		{"test:app/x", "app", "test", "x", true},
		{"*", "app", "bench", "x", true},
	} {
		hosttest.Equal(t, config.Matches(tt.pattern, tt.pkg, tt.kind, tt.name), tt.want, tt.pattern, tt.pkg, tt.kind, tt.name)
	}
}
