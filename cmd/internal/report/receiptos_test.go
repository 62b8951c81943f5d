package report_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gpubuild/buildenv"
	"gpubuild/buildenv/local"
	"gpubuild/cmd/internal/receipt"
	"gpubuild/cmd/internal/report"
	"gpubuild/gpu"
	"gpubuild/gpu/probe"
	"gpubuild/gpu/verify"
)

// A receipt is judged by the rules of the system where its evidence was recorded: one of Windows holds on Linux, one of Linux on Windows, and a
// stand-in's on neither.
func TestReceiptsOfAnotherSystem(t *testing.T) {
	const nvcuda = `C:\Windows\System32\nvcuda.dll`
	windows := verify.Loaded{LibCUDA: nvcuda, Real: nvcuda, System: `C:\Windows\system32`, Signed: []string{nvcuda}}
	unsigned := windows
	unsigned.Signed = nil
	linux := verify.Loaded{LibCUDA: "/usr/lib/libcuda.so.1", Real: "/usr/lib/libcuda.so.580.65.06", Version: "580.65.06", Module: "580.65.06", Nodes: []string{"/dev/nvidia0"}}
	standin := linux
	standin.Nodes = nil
	tests := []struct {
		story, os string
		loaded    verify.Loaded
		want      string // empty: it holds
	}{
		{"of Windows", buildenv.Windows, windows, ""},
		{"of Windows, not signed", buildenv.Windows, unsigned, "carries no signature"},
		{"of Linux", "", linux, ""},
		{"of Linux, a stand-in's", "", standin, "no NVIDIA device is open"},
		{"of Windows, and it says of Linux", "", windows, "stand-in"},
		{"of a system that nothing is known of", "plan9", linux, "cannot be checked"},
	}
	host, err := local.Host()
	noError(t, err)
	binary := filepath.Join(t.TempDir(), "app.exe")
	noError(t, os.WriteFile(binary, []byte("MZ"), 0o700))
	hash, err := receipt.Seal(binary)
	noError(t, err)
	for _, here := range []string{buildenv.Linux, buildenv.Windows} {
		for _, tt := range tests {
			t.Run(here+": "+tt.story, func(t *testing.T) {
				e := verify.Evidence{
					Schema: 1, OS: tt.os, Binary: "app.exe", Ran: true,
					Control: verify.Control{Outcome: verify.ControlRecorded, Loaded: tt.loaded, Real: true},
					Watch:   verify.Watch{Pid: 7, Started: 99},
					Processes: []verify.Process{{Self: true, Real: true, Loaded: tt.loaded, Process: probe.Process{
						Identity: probe.Identity{Pid: 7, Started: 99, Exe: "app.exe"}, Recording: true,
						Devices: []probe.Device{{UUID: "GPU-11111111-2222-3333-4444-555555555555", Name: "RTX", Capability: gpu.Capability{Major: 8, Minor: 9}}},
						Kernels: []probe.Kernel{{Name: "matmul", Count: 1, Waited: 1, Total: 10, Start: 1, End: 11}}, End: &probe.End{Kernels: 1, Exited: true},
					}}},
				}
				rules := verify.Rules{}
				r := receipt.New("devel", receipt.Binary{Path: "app.exe", Size: hash.Size, SHA256: hash.SHA256}, buildenv.Env{}, "", receipt.Ask(rules, false), e, verify.Judge(e, rules))
				data, err := r.Encode()
				noError(t, err)
				if r, err = receipt.Decode(data); err != nil {
					t.Fatal(err)
				}
				looking := host
				looking.OS = here
				real := receipt.RealWhereRecorded(looking, verify.RealDriver)
				wrong, _ := receipt.Verify(r, binary, true, real)
				if text := strings.Join(wrong, "\n"); (text == "") != (tt.want == "") || !strings.Contains(text, tt.want) {
					t.Errorf("%q, want %q", text, tt.want)
				}
				odd := r
				odd.Result = json.RawMessage(`{"schema":"gpubuild/history/1","results":[]}`)
				if data, err = odd.Encode(); err != nil {
					t.Fatal(err)
				}
				if list, _, err := report.Read(data, real); err == nil || !strings.Contains(err.Error(), "holds no result") {
					t.Errorf("a history in place of its result: %v, %v", list, err)
				}
				result, err := report.OfReceipt(r, real)
				noError(t, err)
				want := verify.Proved.String()
				if tt.want != "" {
					want = verify.Unproved.String()
				}
				if got := result.Programs[0].Proof.Verdict; got != want {
					t.Errorf("in a report it is %s, want %s", got, want)
				}
				late := r
				late.Verdict.Lines = []string{"audited"} // no word of the file is shown
				late.More = []receipt.Receipt{{Time: time.Now().Add(time.Hour)}}
				data, err = late.Encode()
				noError(t, err)
				late, err = receipt.Decode(data)
				noError(t, err)
				result, err = report.OfReceipt(late, real)
				noError(t, err)
				if p := result.Programs[0].Proof; p.Verdict != verify.Unproved.String() || tt.want == "" && !strings.Contains(p.Why, "dated in the future") ||
					slices.Contains(p.Lines, "audited") {
					t.Errorf("next to a receipt of the future it is %s: %s %q", p.Verdict, p.Why, p.Lines)
				}
			})
		}
	}
}
