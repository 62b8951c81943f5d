package scan

import (
	"context"
	"testing"

	"gpubuild/buildenv/hosttest"
	"gpubuild/cmd/internal/receipt"
	"gpubuild/gpu"
	"gpubuild/gpu/probe"
	"gpubuild/gpu/runs"
	"gpubuild/gpu/verify"
)

// TestReceiptsGPU: a receipt names the GPU of which its verdict speaks, and the driver that was loaded there.
func TestReceiptsGPU(t *testing.T) {
	on := func(r receipt.Receipt) runs.Target {
		t.Helper()
		whole := hosttest.Must(receipt.Decode(hosttest.Must(r.Encode())(t)))(t)
		list := hosttest.Must(targets(context.Background(), nil, Options{RunsOn: "r.json", Receipt: &whole}))(t)
		hosttest.Equal(t, len(list), 1)
		return list[0]
	}
	r := receipt.Receipt{Schema: receipt.Schema, Verdict: verify.Verdict{UUID: "GPU-2"}, Driver: "580.65.06", Evidence: verify.Evidence{
		Control: verify.Control{UUID: "GPU-1", Capability: "7.5", Device: "T4"},
		Processes: []verify.Process{{Process: probe.Process{Devices: []probe.Device{
			{UUID: "GPU-1", Capability: gpu.Capability{Major: 7, Minor: 5}, Name: "T4"},
			{UUID: "GPU-2", Capability: gpu.Capability{Major: 9}, Name: "H200"}}}}}}}
	hosttest.Equal(t, on(r), runs.Target{GPU: gpu.Capability{Major: 9}, Name: "H200", Driver: "580.65.06", OS: "linux"})
	r.Verdict.UUID, r.Evidence.Control.Loaded.WSL = "GPU-1", true
	hosttest.Equal(t, on(r), runs.Target{GPU: gpu.Capability{Major: 7, Minor: 5}, Name: "T4", Driver: "580.65.06", OS: "windows"})
}
