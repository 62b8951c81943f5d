package probe

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"gpubuild/buildenv/hosttest"
	"gpubuild/buildenv/hosttest/need"
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
	for _, tt := range []struct {
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
		{"nothing", "", 0, 0, 0, 0},
		{"two processes of one number, in two namespaces", injected + recording + device + injected + recording + matmul + matmul + end + end, 2, 1, 0, 2},
		{"two of them begin at once", injected + injected + recording + recording + matmul + end, 2, 1, 0, 1},
	} {
		t.Run(tt.story, func(t *testing.T) {
			r := hosttest.Must(ParseRecords(strings.NewReader(tt.text)))(t)
			var launches uint64
			for _, p := range r.Processes {
				launches += p.Launches()
			}
			if len(r.Processes) != tt.processes || r.Bad != tt.bad || r.Cut != tt.cut || launches != tt.launches {
				t.Errorf("got %d processes, %d bad, %d cut, %d launches", len(r.Processes), r.Bad, r.Cut, launches)
			}
		})
	}
}

func TestParsedProcess(t *testing.T) {
	r := hosttest.Must(ParseRecords(strings.NewReader(injected + recording + matmul + device + summed + end)))(t)
	p := r.Processes[0]
	k := Kernel{Name: "matmul", Count: 11, Total: 34, Start: 5, End: 100, Context: 1, Stream: 7, Block: [3]int{16, 16, 1}}
	if len(p.Kernels) != 1 || p.Kernels[0] != k {
		t.Errorf("got %+v", p.Kernels)
	}
	if d := (Device{UUID: "GPU-1", Name: "A", Capability: gpu.Capability{Major: 9}}); len(p.Devices) != 1 || p.Devices[0] != d {
		t.Errorf("got %+v", p.Devices)
	}
	if !p.Recording || p.CUPTI != 130500 || p.Caller != "/x/libcuda.so.1" || p.End == nil || p.End.Accepted != 11 || p.End.Forks != 2 || !p.End.Ignores || p.Callbacks != 0 {
		t.Errorf("got %+v", p)
	}
	silent := strings.Replace(recording, `,"callbacks":0`, "", 1) // a probe that does not say so does not count them
	if r, err := ParseRecords(strings.NewReader(injected + silent)); err != nil || r.Processes[0].Callbacks == 0 {
		t.Errorf("got %+v, %v", r.Processes, err)
	}
}

// TestRefusals: what makes up for a call that was refused, and what does not.
func TestRefusals(t *testing.T) {
	line := func(event, function string, kind CallKind, rc int, context, correlation uint32) string {
		return fmt.Sprintf(`{"event":%q,"context":%d,"rc":%d,"function":%q,"kind":%q,"correlation":%d}`+"\n", event, context, rc, function, kind, correlation)
	}
	refused := func(function string, kind CallKind, rc int, context, correlation uint32) string {
		return line("refused", function, kind, rc, context, correlation)
	}
	recovered := func(function string, kind CallKind, context uint32) string {
		return line("recovered", function, kind, 0, context, 9)
	}
	on := func(event string, rc int, device string) string {
		return strings.Replace(line(event, "cuCtxCreate_v2", Contexts, rc, 0, 5), "}", `,"on":`+device+"}", 1)
	}
	for story, tt := range map[string]struct {
		lines string
		left  int
	}{
		"a wait":                                 {refused("cuStreamSynchronize", Waits, 1, 1, 5), 1},
		"and again, with success":                {refused("cuStreamSynchronize", Waits, 1, 1, 5) + recovered("cuStreamSynchronize", Waits, 1), 0},
		"and in another context":                 {refused("cuStreamSynchronize", Waits, 1, 1, 5) + recovered("cuStreamSynchronize", Waits, 2), 1},
		"and by another call":                    {refused("cuStreamSynchronize", Waits, 1, 1, 5) + recovered("cuCtxSynchronize", Waits, 1), 1},
		"without a context, and then in one":     {refused("cuCtxSynchronize", Waits, 201, 0, 5) + recovered("cuCtxSynchronize", Waits, 1), 0},
		"a lost context":                         {refused("cuCtxSynchronize", Waits, 719, 1, 5) + recovered("cuCtxSynchronize", Waits, 1), 1},
		"a copy, and again with success":         {refused("cuMemcpyDtoH_v2", Copies, 1, 1, 5) + recovered("cuMemcpyDtoH_v2", Copies, 1), 1},
		"a launch, and again with success":       {refused("cuLaunchKernel", Launches, 1, 1, 5) + recovered("cuLaunchKernel", Launches, 1), 1},
		"memory, and a smaller piece by another": {refused("cuMemAlloc_v2", Memory, 2, 1, 5) + recovered("cuMemAllocAsync", Memory, 1), 0},
		"code, and other code in its place":      {refused("cuModuleLoadData", Code, 209, 1, 5) + recovered("cuLibraryLoadData", Code, 1), 0},
		"code, other code, and code again":       {refused("cuModuleLoad", Code, 209, 1, 5) + recovered("cuModuleLoad", Code, 1) + refused("cuLinkComplete", Code, 209, 1, 8), 1},
		"a context, and one on its device":       {on("refused", 46, "0") + on("recovered", 0, "0"), 0},
		"a context, and one on another device":   {on("refused", 46, "0") + on("recovered", 0, "1"), 1},
		"a context on an unknown device":         {on("refused", 46, "null") + on("recovered", 0, "1"), 1},
		"a context, then on an unknown device":   {on("refused", 46, "0") + on("recovered", 0, "null"), 1},
		"too many to be listed":                  {strings.Replace(refused("cuModuleLoad", Code, 209, 1, 5), "}", `,"last":true}`, 1) + recovered("cuModuleLoad", Code, 1), 1},
		"memory does not make up for code":       {refused("cuModuleLoad", Code, 209, 1, 5) + recovered("cuMemAlloc_v2", Memory, 1), 1},
		"the probe's own wait went well":         {line("settled", "cuCtxSynchronize", Waits, 0, 1, 9), 0},
		"the probe's own wait was refused":       {line("settled", "cuCtxSynchronize", Waits, 4, 1, 9), 1},
		"the device was lost, in Vulkan":         {`{"event":"fault","rc":-4,"function":"vkQueueSubmit"}` + "\n", 1},
	} {
		r, err := ParseRecords(strings.NewReader(injected + recording + tt.lines))
		if err != nil || r.Bad != 0 {
			t.Fatal(story, err, r.Bad)
		}
		if got := r.Processes[0].Refused; len(got) != tt.left {
			t.Errorf("%s: %v", story, got)
		}
	}
}

// TestEarly: a refusal is early where no launch was before it, whichever is written down first.
func TestEarly(t *testing.T) {
	const refused = `{"event":"early","context":1,"rc":719,"function":"cuMemcpyDtoH_v2","kind":"copy","correlation":7}` + "\n"
	kernel := func(correlation int) string {
		return strings.Replace(matmul, `"context":1`, fmt.Sprintf(`"context":2,"correlation":%d`, correlation), 1)
	}
	for lines, want := range map[string]bool{
		refused: true, refused + kernel(8): true, refused + kernel(8) + kernel(6): false, refused + kernel(6) + kernel(8): false,
	} {
		r, err := ParseRecords(strings.NewReader(injected + recording + lines))
		if err != nil || r.Bad != 0 {
			t.Fatal(err, r.Bad)
		}
		hosttest.Equal(t, r.Processes[0].Refused[0].Early, want, lines)
	}
}

// TestWaited: a wait counts for what was launched before it in its own context, whichever of both is written down first.
func TestWaited(t *testing.T) {
	kernel := func(context, correlation int) string {
		return strings.Replace(matmul, `"context":1`, fmt.Sprintf(`"context":%d,"correlation":%d`, context, correlation), 1)
	}
	wait := func(event string, context, correlation int) string {
		return fmt.Sprintf(`{"event":%q,"context":%d,"function":"cuCtxSynchronize","rc":0,"correlation":%d}`+"\n", event, context, correlation)
	}
	var streams strings.Builder
	for i := range maxContexts + 1 {
		fmt.Fprintf(&streams, `{"event":"waited","context":1,"function":"cuStreamSynchronize","correlation":3,"stream":%d}`+"\n", 100+i)
	}
	for story, tt := range map[string]struct {
		lines string
		want  uint64 // launches that were waited for
	}{
		"many streams, and then all":               {streams.String() + kernel(1, 5) + wait("waited", 1, 6) + kernel(1, 5), 2},
		"all, and then many streams":               {wait("waited", 1, 6) + streams.String() + kernel(1, 5), 1},
		"nothing waited":                           {kernel(1, 5), 0},
		"a wait after it":                          {kernel(1, 5) + wait("waited", 1, 6), 1},
		"a wait before it":                         {kernel(1, 5) + wait("waited", 1, 4), 0},
		"a wait of another context":                {kernel(1, 5) + wait("waited", 2, 6), 0},
		"the record comes late":                    {wait("waited", 1, 6) + kernel(1, 5), 1},
		"two launches, and a wait between them":    {kernel(1, 5) + wait("waited", 1, 6) + kernel(1, 7), 1},
		"two contexts, of which one is waited for": {kernel(1, 5) + kernel(2, 6) + wait("waited", 1, 7), 1},
		"an older wait is written down later":      {kernel(1, 5) + wait("waited", 1, 6) + wait("waited", 1, 3) + kernel(1, 4), 2},
		"the probe waited at the end":              {kernel(1, 5) + wait("settled", 1, 6), 1},
		"an orderly end alone is no wait":          {kernel(1, 5) + end, 0},
	} {
		r, err := ParseRecords(strings.NewReader(injected + recording + tt.lines))
		if err != nil || r.Bad != 0 {
			t.Fatal(story, err, r.Bad)
		}
		var got uint64
		for _, k := range r.Processes[0].Kernels {
			got += k.Waited
		}
		hosttest.Equal(t, got, tt.want, story)
	}
}

// TestLastWait: of a context's own waits the latest call's, wherever it is written down.
func TestLastWait(t *testing.T) {
	p := Process{Waits: []Wait{{Context: 1, Correlation: 4}, {Context: 1, Correlation: 9}, {Context: 2, Correlation: 12}, {Context: 1, Correlation: 6}}}
	for context, want := range map[uint32]uint64{1: 9, 2: 12, 3: 0} {
		if last, ok := p.LastWait(context); last.Correlation != want || ok != (want > 0) {
			t.Errorf("context %d: %+v, %v", context, last, ok)
		}
	}
}

// TestBefore: what was waited for before a refusal stays with it, where the answer is one that the end brings.
func TestBefore(t *testing.T) {
	const lines = `{"event":"waited","context":1,"function":"cuCtxSynchronize","correlation":6}
{"event":"refused","context":1,"rc":201,"function":"cuMemcpyDtoH_v2","kind":"copy","correlation":7}
{"event":"refused","context":1,"rc":1,"function":"cuMemcpyDtoH_v2","kind":"copy","correlation":8}
{"event":"waited","context":1,"function":"cuCtxSynchronize","correlation":9}
`
	r, err := ParseRecords(strings.NewReader(injected + recording + lines))
	if err != nil || r.Bad != 0 {
		t.Fatal(err, r.Bad)
	}
	got := r.Processes[0].Refused
	if len(got) != 2 || len(got[0].Before) != 1 || got[0].Before[0].Correlation != 6 || got[1].Before != nil {
		t.Errorf("%+v", got)
	}
}

// TestLostContexts: cuda.h says of which errors the process must be started anew.
func TestLostContexts(t *testing.T) {
	header := hosttest.Must(os.ReadFile(filepath.Join(need.Toolkit(t), "include", "cuda.h")))(t)
	found := 0
	for _, m := range regexp.MustCompile(`(?s)/\*\*(.*?)\*/\s*(CUDA_ERROR_\w+)\s*=\s*(\d+)`).FindAllStringSubmatch(string(header), -1) {
		if !strings.Contains(strings.Join(strings.Fields(strings.ReplaceAll(m[1], "*", " ")), " "), "must be terminated and relaunched") {
			continue
		}
		found++
		if rc, err := strconv.Atoi(m[3]); err != nil || !(Refusal{RC: rc}).Loses() {
			t.Errorf("%s (%s) is not listed", m[2], m[3])
		}
	}
	if found < 10 {
		t.Errorf("only %d errors were found in cuda.h", found)
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
		hosttest.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	hosttest.OK(t, os.Mkdir(filepath.Join(dir, "9-99.jsonl"), 0o700))
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
		hosttest.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	want := 1
	hosttest.OK(t, os.Chmod(filepath.Join(dir, "9-99.jsonl"), 0))
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
	for _, tt := range []struct {
		story           string
		names, size, by int
	}{
		{"ten thousand long names are kept", 10000, 4000, 10000},
		{"more names than are kept", maxKernels + 1000, 20, maxKernels},
		{"more bytes than are kept", 17000 * 64 / 68, 4096 + 1000, maxNames / (4096 + 1000)},
	} {
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
			if p := r.Processes[0]; len(p.Kernels) != tt.by || r.Truncated != (tt.by < tt.names) {
				t.Errorf("got %d names, cut off: %v; want %d of %d", len(p.Kernels), r.Truncated, tt.by, tt.names)
			}
		})
	}
}

func FuzzParseRecords(f *testing.F) {
	f.Add([]byte(injected + recording + matmul + device + summed + end))
	f.Add([]byte(injected + matmul[:30] + matmul + "\n{}\n{\"event\":\"dropped\",\"count\":-1}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r := hosttest.Must(ParseRecords(strings.NewReader(string(data))))(t)
		for _, p := range r.Processes {
			for _, k := range p.Kernels {
				if k.Name == "" || k.End <= k.Start || k.Count == 0 || k.Total < k.Count && k.Total != ^uint64(0) {
					t.Errorf("%+v", k)
				}
			}
		}
	})
}
