package probe

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTimeline(t *testing.T) {
	dir := t.TempDir()
	text := `{"event":"injected","version":1,"pid":7,"started":9}
{"event":"kernel","name":"_Z6matmulPf","device":0,"context":1,"stream":7,"grid":[2,2,1],"block":[16,16,1],"start":2000,"end":5500}
no record
{"event":"kernel","name":"fill","device":1,"context":1,"stream":8,"grid":[1,1,1],"block":[64,1,1],"start":1000,"end":9000,"count":3,"total":6000}
{"event":"kernel","name":"late","device":0,"start":9,"end":0}
`
	if err := os.WriteFile(filepath.Join(dir, "7-9.jsonl"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	launches, err := Timeline(dir)
	if err != nil || len(launches) != 2 {
		t.Fatalf("%+v, %v", launches, err)
	}
	var out bytes.Buffer
	if err := WriteTrace(&out, launches, strings.ToUpper); err != nil {
		t.Fatal(err)
	}
	var trace struct {
		TraceEvents []struct {
			Name, Ph string
			Ts, Dur  float64
			Pid, Tid int
			Args     map[string]any
		}
	}
	if err := json.Unmarshal(out.Bytes(), &trace); err != nil {
		t.Fatal(err)
	}
	e := trace.TraceEvents
	if len(e) != 6 || e[2].Name != "_Z6MATMULPF" || e[2].Ph != "X" || e[2].Ts != 1 || e[2].Dur != 3.5 || e[2].Pid != 7 || e[2].Tid != 7 ||
		e[5].Ts != 0 || e[5].Args["launches"] != 3.0 || e[4].Args["name"] != "device 1, stream 8" {
		t.Errorf("%+v", e)
	}
	out.Reset()
	if err := WriteTrace(&out, nil, strings.ToUpper); err != nil || !strings.Contains(out.String(), `"traceEvents":[]`) {
		t.Errorf("%s, %v", &out, err)
	}
}

// TestLastKernel: the newest launch of all processes of the run, of files that are still written; not that of the control program.
func TestLastKernel(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if got := LastKernel(dir); got != "" {
		t.Errorf("nothing has run: %q", got)
	}
	for name, text := range map[string]string{
		"r1/target/1.jsonl":  `{"event":"injected","pid":1}` + "\n" + `{"event":"kernel","name":"early","start":5,"end":9}` + "\n",
		"r1/target/2.jsonl":  strings.Repeat(`{"event":"kernel","name":"many","start":1,"end":2}`+"\n", 5000) + `{"event":"kernel","name":"last","start":7,"end":12}` + "\n" + `{"event":"kern`,
		"r1/control/3.jsonl": `{"event":"kernel","name":"control","start":50,"end":90}` + "\n",
	} {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got := LastKernel(dir); got != "last" {
		t.Errorf("got %q", got)
	}
}
