package probe

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpubuild/gpu"
)

const (
	injected  = `{"event":"injected","version":1,"pid":7,"ppid":6,"started":99,"exe":"/x/app","caller":"/x/libcuda.so.1"}` + "\n"
	recording = `{"event":"recording","cupti":130500,"libcupti":"/x/libcupti.so.13","libcuda":"/x/libcuda.so.1","driver":13000,"callbacks":0,"drivers":["/x/libcuda.so.1"]}` + "\n"
	device    = `{"event":"device","ordinal":0,"uuid":"GPU-1","name":"A","major":9,"minor":0}` + "\n"
	matmul    = `{"event":"kernel","name":"matmul","device":0,"context":1,"stream":7,"grid":[2,2,1],"block":[16,16,1],"start":10,"end":14}` + "\n"
	summed    = `{"event":"kernel","name":"matmul","device":0,"context":1,"stream":7,"grid":[2,2,1],"block":[16,16,1],"start":5,"end":100,"count":10,"total":30}` + "\n"
	end       = `{"event":"end","flush":0,"kernels":11,"unfinished":0,"dropped":0,"accepted":11,"lost_writes":0,"forks":2,"ignores":true}` + "\n"
)

func TestParseRecords(t *testing.T) {
	tests := []struct {
		story, text         string
		processes, bad, cut int
		launches            uint64
	}{
		{"an orderly run", injected + recording + matmul + device + summed + end, 1, 0, 0, 11},
		{"killed in the middle of a line", injected + recording + matmul + matmul[:40], 1, 0, 1, 1},
		{"a whole line without its end is not believed", injected + recording + strings.TrimSuffix(matmul, "\n"), 1, 0, 1, 0},
		{"one program became another", injected + recording + matmul + injected + recording + end, 2, 0, 0, 1},
		{"interleaved", injected + recording + matmul[:30] + matmul, 1, 1, 0, 0},
		{"a program wrote text", injected + "hello\n" + recording + "\x00\xff\n\n" + end, 1, 3, 0, 0},
		{"no heartbeat", recording + matmul + end, 0, 3, 0, 0},
		{"another version", strings.Replace(injected, `"version":1`, `"version":2`, 1) + matmul, 0, 2, 0, 0},
		{"an end before its start", injected + strings.Replace(matmul, `"end":14`, `"end":10`, 1), 1, 1, 0, 0},
		{"no end", injected + strings.Replace(matmul, `"end":14`, `"end":0`, 1), 1, 1, 0, 0},
		{"no start", injected + strings.Replace(matmul, `"start":10`, `"start":0`, 1), 1, 1, 0, 0},
		{"no launches", injected + strings.Replace(summed, `"count":10`, `"count":0`, 1), 1, 1, 0, 0},
		{"more launches than nanoseconds", injected + strings.Replace(summed, `"total":30`, `"total":3`, 1), 1, 1, 0, 0},
		{"a negative device", injected + strings.Replace(matmul, `"device":0`, `"device":-1`, 1), 1, 1, 0, 0},
		{"numbers that turn over", injected + strings.Replace(summed, `"count":10,"total":30`, `"count":18446744073709551615,"total":18446744073709551615`, 1) + summed, 1, 0, 0, 1<<64 - 1},
		{"a line without end", injected + strings.Repeat("x", 3*maxLine) + "\n" + matmul, 1, 1, 0, 1},
		{"nothing", "", 0, 0, 0, 0},
		{"two processes of one number, in two namespaces", injected + recording + device + injected + recording + matmul + matmul + end + end, 2, 1, 0, 2},
		{"two of them begin at once", injected + injected + recording + recording + matmul + end, 2, 1, 0, 1},
	}
	for _, tt := range tests {
		t.Run(tt.story, func(t *testing.T) {
			r, err := ParseRecords(strings.NewReader(tt.text))
			if err != nil {
				t.Fatal(err)
			}
			var launches uint64
			for _, p := range r.Processes {
				launches = plus(launches, p.Launches())
			}
			if len(r.Processes) != tt.processes || r.Bad != tt.bad || r.Cut != tt.cut || launches != tt.launches {
				t.Errorf("got %d processes, %d bad, %d cut, %d launches", len(r.Processes), r.Bad, r.Cut, launches)
			}
		})
	}
}

func TestParsedProcess(t *testing.T) {
	r, err := ParseRecords(strings.NewReader(injected + recording + matmul + device + summed + end))
	if err != nil {
		t.Fatal(err)
	}
	p := r.Processes[0]
	k := Kernel{Name: "matmul", Count: 11, Total: 34, Start: 5, End: 100, Context: 1, Stream: 7, Grid: [3]int{2, 2, 1}, Block: [3]int{16, 16, 1}}
	if len(p.Kernels) != 1 || p.Kernels[0] != k {
		t.Errorf("got %+v", p.Kernels)
	}
	if d := (Device{UUID: "GPU-1", Name: "A", Capability: gpu.Capability{Major: 9}}); len(p.Devices) != 1 || p.Devices[0] != d {
		t.Errorf("got %+v", p.Devices)
	}
	if !p.Recording || p.CUPTI != 130500 || p.Caller != "/x/libcuda.so.1" || p.End == nil || p.End.Accepted != 11 || p.End.Forks != 2 || !p.End.Ignores || p.Callbacks != 0 {
		t.Errorf("got %+v", p)
	}
}

// A load that was refused counts unless a later one succeeded; after the last that is listed nothing is known any more.
func TestRefusedLoads(t *testing.T) {
	refusal := func(function string, correlation uint32) string {
		return fmt.Sprintf(`{"event":"refused","rc":209,"function":%q,"correlation":%d}`+"\n", function, correlation)
	}
	const loaded = `{"event":"loaded"}` + "\n"
	for story, tt := range map[string]struct {
		lines             string
		refused, unloaded uint32
	}{
		"a load":                      {refusal("cuModuleLoadData", 5), 0, 5},
		"and other code in its place": {refusal("cuLibraryLoadData", 5) + loaded, 0, 0},
		"and again":                   {refusal("cuModuleLoad", 5) + loaded + refusal("cuLinkComplete", 8), 0, 8},
		"too many to be listed":       {refusal("cuModuleLoad", math.MaxUint32) + loaded, 0, math.MaxUint32},
		"a launch, and a load":        {refusal("cuLaunchKernel", 5) + loaded, 5, 0},
	} {
		r, err := ParseRecords(strings.NewReader(injected + recording + tt.lines))
		if err != nil || r.Bad != 0 {
			t.Fatal(story, err, r.Bad)
		}
		var got [2]uint32
		for i, f := range []*Refusal{r.Processes[0].Refused, r.Processes[0].Unloaded} {
			if f != nil {
				got[i] = f.Correlation
			}
		}
		if got != [2]uint32{tt.refused, tt.unloaded} {
			t.Errorf("%s: %v", story, got)
		}
	}
}

func TestReadDirBelievesAFileOnlyAboutItsOwnProcess(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"7-99.jsonl": injected + recording + matmul + end, // the process itself
		"8-99.jsonl": injected + recording + matmul + end, // another one speaks of it
		"notes.txt":  "not ours",
		// a process of the same number and start in another PID namespace
		"7-99-4026532000.jsonl": strings.Replace(injected, `"started":99`, `"started":99,"namespace":4026532000`, 1) + recording + end,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "9-99.jsonl"), 0o700); err != nil {
		t.Fatal(err)
	}
	r, err := ReadDir(dir)
	if err != nil || len(r.Processes) != 2 || r.Bad != 1 {
		t.Errorf("got %+v, %v", r, err)
	}
}

// A record file without a line is a process that could not write, and one that may not be read belongs to another user: each is told, and neither
// ends the reading.
func TestRecordsThatCouldNotBeWritten(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"7-99.jsonl": injected + recording + matmul + end, "8-99.jsonl": "", "9-99.jsonl": injected} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want := 1
	if err := os.Chmod(filepath.Join(dir, "9-99.jsonl"), 0); err != nil {
		t.Fatal(err)
	}
	if f, err := os.Open(filepath.Join(dir, "9-99.jsonl")); err == nil { // root reads it all the same, and finds that it speaks of another process
		f.Close()
	} else {
		want = 2
	}
	r, err := ReadDir(dir)
	if err != nil || len(r.Processes) != 1 || r.Lost != want || r.Bad != 2-want {
		t.Errorf("got %+v, %v; want %d lost", r, err, want)
	}
}

func TestThousandsOfKernels(t *testing.T) {
	tests := []struct {
		story           string
		names, size, by int
	}{
		{"ten thousand long names are kept", 10000, 4000, 10000},
		{"more names than are kept", maxKernels + 1000, 20, maxKernels},
		{"more bytes than are kept", 17000 * 64 / 68, 4096 + 1000, maxNames / (4096 + 1000)},
	}
	for _, tt := range tests {
		t.Run(tt.story, func(t *testing.T) {
			var text strings.Builder
			text.WriteString(injected + recording)
			for i := range tt.names {
				name := fmt.Sprintf("%0*d", tt.size, i)
				text.WriteString(strings.Replace(matmul, "matmul", name, 1))
			}
			r, err := ParseRecords(strings.NewReader(text.String()))
			if err != nil || r.Bad != 0 {
				t.Fatalf("%d bad, %v", r.Bad, err)
			}
			if p := r.Processes[0]; p.Launches() != uint64(tt.names) || len(p.Kernels) != tt.by {
				t.Errorf("got %d launches of %d names, want %d of %d", p.Launches(), len(p.Kernels), tt.names, tt.by)
			}
		})
	}
}

func FuzzParseRecords(f *testing.F) {
	f.Add([]byte(injected + recording + matmul + device + summed + end))
	f.Add([]byte(injected + matmul[:30] + matmul + "\n{}\n{\"event\":\"dropped\",\"count\":-1}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := ParseRecords(strings.NewReader(string(data)))
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range r.Processes {
			for _, k := range p.Kernels {
				if k.Name == "" || k.End <= k.Start || k.Count == 0 || k.Total < k.Count && k.Total != ^uint64(0) {
					t.Errorf("%+v", k)
				}
			}
		}
	})
}
