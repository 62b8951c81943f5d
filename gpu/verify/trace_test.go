package verify

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gpubuild/buildenv/hosttest"
	"gpubuild/buildenv/hosttest/need"
	"gpubuild/buildenv/proc"
)

// trace is one run of an animal on a real GPU, as testdata/traces keeps it: what was recorded, and what was said of it.
type trace struct {
	Schema   string   `json:"schema"`
	Story    string   `json:"story"` // which of the animals in zoo.toml
	Verdict  Kind     `json:"verdict"`
	Why      string   `json:"why,omitempty"`
	Evidence Evidence `json:"evidence"`
}

const traceSchema = "gpubuild/trace/1"

var tracesDir = filepath.Join("..", "..", "testdata", "traces")

func (x trace) write(path string) (err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	z := gzip.NewWriter(f)
	e := json.NewEncoder(z)
	e.SetIndent("", " ")
	return errors.Join(e.Encode(x), z.Close(), f.Close())
}

func readTrace(path string) (x trace, err error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return x, err
	}
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return x, fmt.Errorf("%s: %w", path, err)
	}
	d := json.NewDecoder(io.LimitReader(z, 256<<20))
	d.DisallowUnknownFields()
	if err := d.Decode(&x); err != nil {
		return x, fmt.Errorf("%s: %w", path, err)
	}
	if x.Schema != traceSchema {
		return x, fmt.Errorf("%s: schema %q, not %s", path, x.Schema, traceSchema)
	}
	return x, nil
}

// replay judges a trace by today's rules and answers what is wrong with it.
func (x trace) replay(animals []animal, real func(Loaded) (bool, string)) error {
	for _, a := range animals {
		if a.Story != x.Story {
			continue
		}
		o := Options{}
		a.asks(&o)
		v := Judge(Reconsider(x.Evidence, real), o.Rules)
		if wrong := a.belies(v); wrong != "" {
			return errors.New(wrong)
		}
		if v.Kind != x.Verdict {
			return fmt.Errorf("judged %s (%s), was %s (%s) when it was recorded", v.Kind, v.Why, x.Verdict, x.Why)
		}
		return nil
	}
	return fmt.Errorf("zoo.toml has no animal %q", x.Story)
}

// TestTraces judges what real GPUs have recorded, on every machine.
func TestTraces(t *testing.T) {
	files := hosttest.Must(filepath.Glob(filepath.Join(tracesDir, "*", "*.json.gz")))(t)
	if len(files) == 0 {
		need.Missing(t, "gpu", "no trace of a real GPU is kept yet: .ci/gpu records them")
	}
	animals := readZoo(t)
	elsewhere, err := hosttest.Parse([]byte("os: linux\narch: amd64\n")) // nothing of this machine decides
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		t.Run(strings.TrimPrefix(f, tracesDir), func(t *testing.T) {
			x, err := readTrace(f)
			if err == nil {
				err = x.replay(animals, RealDriver(elsewhere))
			}
			hosttest.Equal(t, err, nil)
		})
	}
}

// TestTraceKeepsWhatWasSeen records animals on the stand-in driver as a real GPU's would be, and judges what was read back.
func TestTraceKeepsWhatWasSeen(t *testing.T) {
	l := newLab(t)
	animals := readZoo(t)
	z := newZooKeeper(t, l)
	stories := map[string]Kind{"a product on the GPU, by dlopen": Proved, "plain CPU": NotUsed, "a status that was not expected": Unproved}
	for _, a := range animals {
		want, ok := stories[a.Story]
		if !ok {
			continue
		}
		delete(stories, a.Story)
		o := z.in(t).options(a, l.options(t))
		e := hosttest.Must(Run(context.Background(), l.host, proc.Runner{Grace: time.Second}, o))(t)
		v := Judge(e, o.Rules)
		path := filepath.Join(t.TempDir(), "new", "1.json.gz")
		hosttest.OK(t, (trace{traceSchema, a.Story, v.Kind, v.Why, e}).write(path))
		x := hosttest.Must(readTrace(path))(t)
		if err := x.replay(animals, l.pretend); err != nil || x.Verdict != want {
			t.Errorf("%s: %s, %v", a.Story, x.Verdict, err)
		}
		if err := x.replay(animals, RealDriver(l.host)); want != Unproved && err == nil {
			t.Errorf("%s: the shipped predicate says %s of a stand-in's trace, too", a.Story, x.Verdict)
		}
		x.Story = "nobody"
		if err := x.replay(animals, l.pretend); err == nil {
			t.Error("an animal that is not in the zoo is judged")
		}
	}
	if len(stories) > 0 {
		t.Errorf("zoo.toml lacks %v", stories)
	}
}

// TestZooPTX has the real ptxas compile the kernels that the zoo gives a driver, which the stand-in driver does not read.
func TestZooPTX(t *testing.T) {
	toolkit := need.Toolkit(t)
	header := hosttest.Must(filepath.Abs(filepath.Join(zooDir, "ptx.h")))(t)
	dir := t.TempDir()
	source, program := filepath.Join(dir, "say.c"), filepath.Join(dir, "say")
	text := fmt.Sprintf("#include %q\nint main(int n, char **a) { (void)n; fputs(ptx(a[1]), stdout); return 0; }\n", header)
	hosttest.OK(t, os.WriteFile(source, []byte(text), 0o600))
	if out, err := exec.Command("gcc", "-std=c11", "-o", program, source).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, name := range []string{"matmul", "fill_f32"} {
		ptx := hosttest.Must(exec.Command(program, name).Output())(t)
		file := filepath.Join(dir, name+".ptx")
		hosttest.OK(t, os.WriteFile(file, ptx, 0o600))
		for _, arch := range []string{"sm_75", "sm_90", "sm_120"} {
			if out, err := exec.Command(filepath.Join(toolkit, "bin", "ptxas"), "-arch="+arch, "-o", filepath.Join(dir, "out.cubin"), file).CombinedOutput(); err != nil {
				t.Errorf("%s for %s: %v: %s", name, arch, err, out)
			}
		}
		if rust, err := os.ReadFile(filepath.Join(zooDir, "rust", "src", "matmul.ptx")); name == "matmul" && (err != nil || !bytes.Equal(rust, ptx)) {
			t.Errorf("zoo/rust has another kernel: %v", err)
		}
	}
}
