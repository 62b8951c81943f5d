package ci

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/hosttest"
	"gpubuild/buildenv/local"
	"gpubuild/cmd/internal/config"
	"gpubuild/cmd/internal/console"
	"gpubuild/cmd/internal/session"
	"gpubuild/features/manifest"
)

// project is a session of a workspace below /r with some members: the text of each manifest behind its [package].
func project(t *testing.T, members map[string]string) *session.Session {
	t.Helper()
	files := map[string]string{"/r/.git/HEAD": "", "/r/w/Cargo.toml": "[workspace]\nmembers = [\"*\"]\nresolver = \"2\"\n"}
	for name, text := range members {
		files["/r/w/"+name+"/Cargo.toml"] = fmt.Sprintf("[package]\nname = %q\nversion = \"0.1.0\"\nedition = \"2021\"\n%s", name, text)
		files["/r/w/"+name+"/src/lib.rs"] = ""
	}
	h := hosttest.Memory(files)
	p, err := manifest.Load(h, "/r/w/Cargo.toml")
	if err != nil {
		t.Fatal(err)
	}
	return &session.Session{Machine: &session.Machine{Host: h}, Project: p}
}

const (
	optional = "[dependencies]\ncudarc = { version = \"0.17\", optional = true }\n[features]\n"
	always   = "[dependencies]\ncudarc = \"0.17\"\n[features]\n"
)

// TestRows: a build for each feature that leads to a GPU crate, of the packages that have it, and one without features for those that always do.
func TestRows(t *testing.T) {
	t.Parallel()
	for story, tt := range map[string]struct {
		members   map[string]string
		rows      string // NAME: ARGS, one a line
		noDefault bool
	}{
		"none":     {map[string]string{"a": "[features]\nfast = []\n"}, "", false},
		"features": {map[string]string{"a": optional + "cuda = [\"dep:cudarc\"]\nfast = []\n\"gpu/2\" = []\n"}, "cuda: -p a --features cuda", false},
		"two packages": {map[string]string{"b": optional + "cuda = [\"dep:cudarc\"]\n", "a": optional + "cuda = [\"dep:cudarc\"]\n"},
			"cuda: -p a -p b --features cuda", false},
		"cudnn with cuda":    {map[string]string{"a": optional + "cuda = [\"dep:cudarc\"]\ncudnn = [\"dep:cudarc\"]\n"}, "cuda: -p a --features cuda\ncudnn: -p a --features cuda,cudnn", false},
		"cudnn without cuda": {map[string]string{"a": optional + "cudnn = [\"dep:cudarc\"]\n"}, "cudnn: -p a --features cudnn", false},
		"another name":       {map[string]string{"a": optional + "gpu-fast = [\"dep:cudarc\"]\n"}, "gpu-fast: -p a --features gpu-fast", false},
		"through others": {map[string]string{"a": optional + "a = [\"b\", \"none\"]\nb = [\"c\"]\nc = [\"dep:cudarc\"]\noff = [\"none\", \"cuda-kernels\"]\nnone = []\ncuda-kernels = []\n"},
			"a: -p a --features a\nb: -p a --features b\nc: -p a --features c\ncuda-kernels: -p a --features cuda-kernels", false},
		"by default": {map[string]string{"a": optional + "default = [\"gpu\"]\ngpu = [\"dep:cudarc\"]\n"}, "default: -p a\ngpu: -p a --features gpu", true},
		"always":     {map[string]string{"a": always + "fast = []\ncuda = []\n"}, "cuda: -p a --features cuda\ndefault: -p a", false},
	} {
		s := project(t, tt.members)
		list, noDefault := rows(s.Machine.Host, s.Project, s.Project.Members, nil)
		var got []string
		for _, r := range list {
			got = append(got, r.Name+": "+r.Args)
		}
		if strings.Join(got, "\n") != tt.rows || noDefault != tt.noDefault {
			t.Errorf("%s: %q, %v", story, got, noDefault)
		}
	}
}

// TestChosenRows: with more features than GitHub runs jobs there is no workflow until gpubuild.toml chooses some.
func TestChosenRows(t *testing.T) {
	t.Parallel()
	var many strings.Builder
	for i := range mostRows {
		fmt.Fprintf(&many, "f%d = [\"cuda\"]\n", i)
	}
	s := project(t, map[string]string{"a": optional + "cuda = [\"dep:cudarc\"]\n" + many.String(), "b": "[features]\nf2 = []\n"})
	_, err := Make(s, "github", Options{Install: "true"})
	if err == nil || err.Error() != "257 features lead to a GPU crate, and a workflow has at most 256 rows" || !strings.Contains(exit.Hint(err), "[ci] features") {
		t.Errorf("%v: %s", err, exit.Hint(err))
	}
	s.Config.CI.Value = &config.CI{Features: []string{"f2", "f7"}}
	made := hosttest.Must(Make(s, "github", Options{Install: "true"}))(t)
	if !strings.Contains(string(made.Text), "-p a -p b --features f2") || !strings.Contains(string(made.Text), "-p a --features f7") || strings.Contains(string(made.Text), "f3") {
		t.Error(string(made.Text))
	}
}

// TestMake: what a workflow is made of, or why there is none. A flag comes before the table; an architecture is only named where the
// configuration has none.
func TestMake(t *testing.T) {
	t.Parallel()
	gpu := map[string]string{"a": optional + "cuda = [\"dep:cudarc\"]\n"}
	none := map[string]string{"a": ""}
	table := config.Config{}
	table.CI.Value = &config.CI{Install: "own way", Setup: "own setup"}
	table.Arch = config.Value[string]{Value: "sm_90", Origin: "gpubuild.toml"}
	for story, tt := range map[string]struct {
		members map[string]string
		service string
		config  config.Config
		o       Options
		has     []string // of the workflow, or of the error
		lacks   string
	}{
		"no such service":     {gpu, "jenkins", table, Options{}, []string{`no workflow can be written for "jenkins"`}, ""},
		"no way to gpubuild":  {gpu, "github", config.Config{}, Options{}, []string{"a runner would not know how to get gpubuild"}, ""},
		"a flag alone":        {gpu, "github", config.Config{}, Options{Install: "get it"}, []string{"get it", "sm_80", "--features cuda", "working-directory: \"w\""}, "own way"},
		"an architecture":     {gpu, "github", config.Config{}, Options{Install: "get it", Arch: "sm_75"}, []string{"sm_75"}, "sm_80"},
		"the configuration":   {gpu, "github", table, Options{}, []string{"own way", "own setup"}, "sm_"},
		"a flag comes first":  {gpu, "gitlab", table, Options{Install: "get it", Arch: "sm_75"}, []string{"get it", "own setup", "sm_75"}, "own way"},
		"to prove on no GPU":  {gpu, "github", table, Options{Programs: []string{"--bin a"}}, []string{"--prove needs a GPU"}, ""},
		"on a runner":         {gpu, "github", table, Options{Programs: []string{"--bin a"}, Runner: []string{"gpu"}}, []string{`args: "--bin a"`}, ""},
		"no GPU crate":        {none, "github", table, Options{Runner: []string{"gpu"}}, []string{"no feature of this workspace leads to a CUDA crate"}, ""},
		"a program of wgpu":   {none, "github", table, Options{Programs: []string{"--bin a --gpu-backend vulkan"}, Runner: []string{"gpu"}}, []string{"vulkan", "--workspace"}, ""},
		"Vulkan at a place":   {gpu, "github", table, Options{Programs: []string{"--bin a --gpu-backend=vulkan"}, Place: "slurm"}, []string{"asks for Vulkan"}, ""},
		"CUDA at a place":     {gpu, "github", table, Options{Programs: []string{"--bin a"}, Place: "slurm"}, []string{"--gpu-on=slurm"}, ""},
		"a word of the shell": {gpu, "github", table, Options{Programs: []string{"--bin $(id)"}, Place: "slurm"}, []string{"cannot hold the argument"}, ""},
	} {
		s := project(t, tt.members)
		s.Config = tt.config
		made, err := Make(s, tt.service, tt.o)
		text := string(made.Text)
		if err != nil {
			text = err.Error()
		}
		for _, want := range tt.has {
			if !strings.Contains(text, want) {
				t.Errorf("%s: no %q in\n%s", story, want, text)
			}
		}
		if tt.lacks != "" && strings.Contains(text, tt.lacks) {
			t.Errorf("%s: %q in\n%s", story, tt.lacks, text)
		}
	}
}

// TestWrite: a file of the user's is replaced only where that is asked for, and what is no file never.
func TestWrite(t *testing.T) {
	t.Parallel()
	h, err := local.Host()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range Providers() {
		for story, tt := range map[string]struct {
			before      string // of the file; empty: it is not there
			directory   bool
			force       bool
			says, after string
		}{
			"a new file":                    {"", false, false, "Wrote", "text"},
			"the same":                      {"text", false, false, "Unchanged", "text"},
			"another of the same length":    {"TEXT", false, false, "is there already, and differs", "TEXT"},
			"another":                       {"longer text", false, false, "is there already, and differs", "longer text"},
			"another of the same, by force": {"TEXT", false, true, "Wrote", "text"},
			"another, by force":             {"longer text", false, true, "Wrote", "text"},
			"a directory, by force":         {"", true, true, "it is no file", ""},
			"a read-only one, by force":     {"read-only", false, true, "is read-only", "read-only"},
		} {
			root := t.TempDir()
			path := filepath.Join(append([]string{root}, p.File...)...)
			if tt.before != "" || tt.directory {
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			if tt.before != "" {
				err = errors.Join(os.WriteFile(path, []byte(tt.before), 0o644), os.Link(path, path+".before"))
			} else if tt.directory {
				err = os.Mkdir(path, 0o755)
			}
			if err != nil {
				t.Fatal(err)
			}
			if tt.before == "read-only" {
				hosttest.OK(t, os.Chmod(path, 0o444))
			}
			var said bytes.Buffer
			m := &session.Machine{Host: h, Shell: &console.Shell{Err: &said}}
			err := Init{Text: []byte("text"), provider: p, root: root}.Write(m, tt.force)
			if err != nil {
				fmt.Fprint(&said, err)
				if hint, is := err.(interface{ Hint() string }); is && strings.Contains(hint.Hint(), "include:") != (p.Keep != "") {
					t.Errorf("%s, %s: %s", p.Name, story, hint.Hint())
				}
			}
			if after, _ := os.ReadFile(path); !strings.Contains(said.String(), tt.says) || string(after) != tt.after {
				t.Errorf("%s, %s: %q, then %q", p.Name, story, said.String(), after)
			}
			if old, _ := os.ReadFile(path + ".before"); string(old) != tt.before {
				t.Errorf("%s, %s: written in place, which a full disk interrupts", p.Name, story)
			}
		}
	}
}
