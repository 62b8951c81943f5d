package probe

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpubuild/buildenv/hosttest"
)

// TestLines: what each line of a record changes of a process, and which lines cannot be true.
func TestLines(t *testing.T) {
	t.Parallel()
	vulkan := strings.Replace(recording, `"cupti":130500,`, "", 1)
	dispatch := strings.Replace(matmul, `"context":1`, `"context":0`, 1)
	repeat := func(n int, line string) string { return strings.Repeat(line+"\n", n) }
	wait := func(context, correlation int, more string) string {
		return fmt.Sprintf(`{"event":"waited","context":%d,"function":"f","correlation":%d%s}`+"\n", context, correlation, more)
	}
	on := func(stream, correlation int) string {
		return strings.Replace(matmul, `"context":1,"stream":7`, fmt.Sprintf(`"context":1,"stream":%d,"correlation":%d`, stream, correlation), 1)
	}
	var contexts, names strings.Builder
	for i := range maxContexts + 1 {
		contexts.WriteString(wait(i+1, 6, ""))
	}
	for i := range 65 {
		fmt.Fprintf(&names, "{\"event\":\"driver\",\"drivers\":[\"%d\",\"0\"]}\n", i)
	}
	waited := func(p Process) (n uint64) {
		for _, k := range p.Kernels {
			n += k.Waited
		}
		return n
	}
	for story, tt := range map[string]struct {
		lines string
		bad   int
		holds func(p Process, r Records) bool
	}{
		"records that were dropped":         {injected + recording + repeat(2, `{"event":"dropped","count":3}`), 0, func(p Process, _ Records) bool { return p.Dropped == 6 }},
		"dropped, and nobody says how many": {injected + recording + repeat(1, `{"event":"dropped"}`), 1, func(p Process, _ Records) bool { return p.Dropped == 0 }},
		"exited behind the end":             {injected + recording + end + repeat(1, `{"event":"exited"}`), 0, func(p Process, _ Records) bool { return p.End.Exited }},
		"an end that says so itself":        {injected + recording + strings.Replace(end, `"flush"`, `"exited":true,"written":9,"flush"`, 1), 0, func(p Process, _ Records) bool { return !p.End.Exited && p.End.Written == 0 }},
		"exited without an end":             {injected + recording + repeat(1, `{"event":"exited"}`), 1, func(p Process, _ Records) bool { return p.End == nil }},
		"two ends":                          {injected + recording + end + end, 1, func(p Process, _ Records) bool { return p.End != nil }},
		"a process without a number":        {strings.Replace(injected, `"pid":7`, `"pid":0`, 1), 1, func(p Process, r Records) bool { return len(r.Processes) == 0 }},
		"more programs than one process is": {strings.Repeat(injected, maxImages+1), 1, func(_ Process, r Records) bool { return len(r.Processes) == maxImages }},
		"a kernel without a name":           {injected + recording + strings.Replace(matmul, `"matmul"`, `""`, 1), 1, func(p Process, _ Records) bool { return len(p.Kernels) == 0 }},
		"a device before the first":         {injected + strings.Replace(device, `"ordinal":0`, `"ordinal":-1`, 1), 1, func(p Process, _ Records) bool { return len(p.Devices) == 0 }},
		"more devices than there are":       {injected + strings.Repeat(device, 257), 1, func(p Process, _ Records) bool { return len(p.Devices) == 256 }},
		"more refusals than are listed":     {injected + repeat(maxRefused+1, `{"event":"refused","rc":1}`), 1, func(p Process, _ Records) bool { return len(p.Refused) == maxRefused }},
		"a driver, named twice": {injected + recording + names.String(), 0, func(p Process, _ Records) bool {
			return len(p.Drivers) == 64 && p.Drivers[1] == "0" && p.Drivers[2] == "1"
		}},
		"functions of other files":         {injected + repeat(65, `{"event":"interposed","symbol":"f","by":"x"}`), 0, func(p Process, _ Records) bool { return len(p.Interposed) == 64 }},
		"a line that is too long":          {injected + repeat(1, strings.Repeat("x", 3*maxLine)) + recording, 1, func(p Process, _ Records) bool { return p.Recording }},
		"a line that is too long, and cut": {injected + recording + strings.Repeat("x", 3*maxLine), 1, func(p Process, r Records) bool { return p.Recording && !r.Truncated }},
		"an unknown line":                  {injected + repeat(1, `{"event":"tea"}`), 1, func(Process, Records) bool { return true }},
		"why it cannot be recorded":        {injected + repeat(1, `{"event":"unavailable","step":"load","rc":3,"why":"no"}`), 0, func(p Process, _ Records) bool { return p.Unavailable.String() == "load: no (3)" }},

		"Vulkan ends":                       {injected + vulkan + dispatch + end, 0, func(p Process, _ Records) bool { return waited(p) == 1 }},
		"Vulkan ends, and was not flushed":  {injected + vulkan + dispatch + strings.Replace(end, `"flush":0`, `"flush":1`, 1), 0, func(p Process, _ Records) bool { return waited(p) == 0 }},
		"Vulkan ends, and is not settled":   {injected + vulkan + dispatch + strings.Replace(end, `"flush":0`, `"unsettled":true,"flush":0`, 1), 0, func(p Process, _ Records) bool { return waited(p) == 0 }},
		"CUDA ends without a context":       {injected + recording + dispatch + end, 0, func(p Process, _ Records) bool { return waited(p) == 0 }},
		"Vulkan, a wait behind it":          {injected + vulkan + dispatch + repeat(1, `{"event":"waited","function":"vkQueueWaitIdle"}`), 0, func(p Process, _ Records) bool { return waited(p) == 1 }},
		"Vulkan, a wait before it":          {injected + vulkan + repeat(1, `{"event":"waited","function":"vkQueueWaitIdle"}`) + dispatch, 0, func(p Process, _ Records) bool { return waited(p) == 0 }},
		"a wait for its stream":             {injected + recording + on(7, 5) + wait(1, 6, `,"stream":7`), 0, func(p Process, _ Records) bool { return waited(p) == 1 }},
		"a wait for another stream":         {injected + recording + on(7, 5) + wait(1, 6, `,"stream":8`), 0, func(p Process, _ Records) bool { return waited(p) == 0 }},
		"a wait for another stream, before": {injected + recording + wait(1, 6, `,"stream":8`) + on(7, 5), 0, func(p Process, _ Records) bool { return waited(p) == 0 }},
		"waits for two streams":             {injected + recording + wait(1, 6, `,"stream":8`) + wait(1, 6, `,"stream":7`) + on(7, 5) + on(8, 5), 0, func(p Process, _ Records) bool { return waited(p) == 2 && len(p.Waits) == 2 }},
		"a stream's wait is none for all":   {injected + recording + wait(1, 6, "") + wait(1, 9, `,"stream":8`) + on(7, 8), 0, func(p Process, _ Records) bool { return waited(p) == 0 && len(p.Waits) == 2 }},
		"waits of two contexts":             {injected + recording + wait(1, 6, "") + wait(2, 9, "") + on(7, 5) + on(8, 8), 0, func(p Process, _ Records) bool { return waited(p) == 1 && len(p.Waits) == 2 }},
		"a later wait, for one stream":      {injected + recording + wait(1, 6, `,"stream":7`) + wait(1, 9, `,"stream":7`), 0, func(p Process, _ Records) bool { return len(p.Waits) == 1 && p.Waits[0].Correlation == 9 }},
		"the probe's wait takes the place": {injected + recording + wait(1, 6, "") + repeat(1, `{"event":"settled","context":1,"rc":0,"function":"g","correlation":6}`), 0, func(p Process, _ Records) bool {
			return len(p.Waits) == 1 && p.Waits[0].Probe && p.Waits[0].Function == "g"
		}},
		"more contexts than are kept": {injected + recording + contexts.String(), 0, func(p Process, _ Records) bool { return len(p.Waits) == maxContexts }},
		"more, and the oldest stream goes": {injected + recording + wait(900, 3, `,"stream":2`) + wait(900, 2, `,"stream":1`) + contexts.String()[:strings.Index(contexts.String(), fmt.Sprintf(`"context":%d,`, maxContexts))-len(`{"event":"waited",`)], 0, func(p Process, _ Records) bool {
			return len(p.Waits) == maxContexts && p.Waits[0].Correlation == 3 && p.Waits[1].Correlation == 6
		}},
		"a lost device stays so": {injected + vulkan + repeat(1, `{"event":"fault","rc":-4,"function":"f"}`), 0, func(p Process, _ Records) bool {
			return p.Refused[0].Loses() && p.Refused[0].All
		}},
		"a call that is none of a lost context": {injected + repeat(1, `{"event":"refused","rc":1,"kind":"launch"}`), 0, func(p Process, _ Records) bool { return !p.Refused[0].Loses() && !p.Refused[0].Ends() }},
	} {
		r := hosttest.Must(ParseRecords(strings.NewReader(tt.lines)))(t)
		var p Process
		if len(r.Processes) > 0 {
			p = r.Processes[0]
		}
		if r.Bad != tt.bad || !tt.holds(p, r) {
			if len(p.Waits) > 9 {
				p.Waits = p.Waits[:9]
			}
			t.Errorf("%s: %d bad, %d waits: %+v", story, r.Bad, len(p.Waits), p)
		}
	}
	for want, u := range map[string]Unavailable{"load: no": {Step: "load", Why: "no"}, "load: CUPTI answered 3": {Step: "load", RC: 3}} {
		hosttest.Equal(t, u.String(), want, u)
	}
	if CUDA.Injection() == Vulkan.Injection() || CUDA.Name() != "CUDA" || Vulkan.Name() != "Vulkan" {
		t.Error("the backends are called the same")
	}
}

// TestReadDir: only record files count, and a directory that is not there is an error.
func TestReadDir(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, err := ReadDir(filepath.Join(dir, "none")); err == nil {
		t.Error("no directory")
	}
	hosttest.OK(t, os.Mkdir(filepath.Join(dir, "a.jsonl"), 0o700))
	for name, text := range map[string]string{"7-99.jsonl": injected + recording + matmul, "7-99.jsonl.part": "x\n", "8-98.jsonl": strings.NewReplacer(`"pid":7`, `"pid":8`, `"started":99`, `"started":98`).Replace(injected) + matmul[:20]} {
		hosttest.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	r, err := ReadDir(dir)
	if err != nil || len(r.Processes) != 2 || r.Processes[0].Pid != 8 || r.Processes[1].Launches() != 1 || r.Bad != 0 || r.Cut != 1 || r.Lost != 0 || r.Truncated {
		t.Errorf("%+v, %v", r, err)
	}
}
