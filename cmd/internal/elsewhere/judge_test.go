//go:build linux

package elsewhere

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/xtaci/smux"

	"gpubuild/buildenv"
	"gpubuild/buildenv/hosttest"
	"gpubuild/buildenv/hosttest/need"
	"gpubuild/buildenv/local"
	"gpubuild/cmd/internal/proof"
	"gpubuild/cmd/internal/receipt"
	"gpubuild/cmd/internal/session"
	"gpubuild/gpu"
	"gpubuild/gpu/probe"
	"gpubuild/gpu/verify"
	"gpubuild/toolchain/explain"
	"gpubuild/toolchain/loader"
)

// TestJudgedHere: what comes back counts by its evidence, whatever verdict came with it. A receipt binds the files of this side that were
// sent; what only the other machine has is named as such.
func TestJudgedHere(t *testing.T) {
	t.Parallel()
	h := hosttest.Must(local.Host())(t)
	const uuid, there = "GPU-11111111-2222-3333-4444-555555555555", "/home/u/.cache/gpubuild/elsewhere/runs/run-1"
	app, script := filepath.Join(t.TempDir(), "app"), filepath.Join(t.TempDir(), "train.py")
	weights := filepath.Join(t.TempDir(), "weights")
	for _, name := range []string{app, script, weights} {
		hosttest.OK(t, os.WriteFile(name, []byte("x"), 0o700))
	}
	req := request{Files: []file{{Name: "bin/app", SHA256: sumOf("x"), Size: 1, From: app}, {Name: "work/train.py", SHA256: sumOf("x"), Size: 1, From: script},
		{Name: "work/weights", SHA256: sumOf("x"), Size: 1, From: weights}},
		Task: proof.Task{Binary: "bin/app", Args: []string{"-n", "1"}, Asked: receipt.Asked{Expect: "gpu", Child: "python3"}}}
	driver := verify.Loaded{LibCUDA: "/usr/lib/libcuda.so.1", Real: "/usr/lib/libcuda.so.580.65.06", Version: "580.65.06", Module: "580.65.06",
		Nodes: []string{"/dev/nvidia0"}}
	proven := func() proof.Proof {
		e := verify.Evidence{
			Schema: 1, Binary: there + "/bin/app", Args: receipt.Hidden(req.Task.Args), Ran: true,
			Control: verify.Control{Outcome: verify.ControlRecorded, Device: "H200", UUID: uuid, Loaded: driver, Real: true},
			Watch: verify.Watch{Pid: 7, Started: 99, Complete: true,
				Seen: []verify.Seen{{Pid: 7, Started: 99, Exe: there + "/bin/app"}}},
			Processes: []verify.Process{{Self: true, Real: true, Loaded: driver, Process: probe.Process{
				Identity: probe.Identity{Pid: 7, Started: 99, Exe: there + "/bin/app"}, Recording: true, LibCUDA: driver.LibCUDA,
				Devices: []probe.Device{{UUID: uuid, Name: "H200", Capability: gpu.Capability{Major: 9}}},
				Kernels: []probe.Kernel{{Name: "matmul", Count: 3, Total: 3000, Start: 1, End: 9000, Waited: 3}},
				End:     &probe.End{Kernels: 3, Accepted: 3, Exited: true},
			}}},
		}
		r := receipt.Receipt{Environment: map[string]string{"CUDA_VISIBLE_DEVICES": "0"},
			UsedFiles: []receipt.Binary{{Path: there + "/work/train.py", SHA256: sumOf("x"), Size: 1}, {Path: "/usr/bin/python3", SHA256: sumOf("p"), Size: 9}}}
		return proof.Proof{Verdict: verify.Verdict{Kind: verify.Proved}, Evidence: e, Receipt: &r}
	}
	for _, tt := range []struct {
		story  string
		change func(*proof.Proof)
		want   verify.Kind
		err    string
	}{
		{"as it ran", func(*proof.Proof) {}, verify.Proved, ""},
		{"a verdict without evidence", func(k *proof.Proof) { k.Evidence.Processes[0].Kernels = nil }, verify.Unproved, ""},
		{"no control", func(k *proof.Proof) { k.Evidence.Control = verify.Control{} }, verify.Unproved, ""},
		{"a driver that says itself that it is real", func(k *proof.Proof) { k.Evidence.Processes[0].Loaded.Module = "999.1" }, verify.Unproved, ""},
		{"another program", func(k *proof.Proof) { k.Evidence.Binary = "/usr/bin/other" }, verify.Unproved, "another command"},
		{"a launcher of another program", func(k *proof.Proof) { k.Evidence.Launcher = true }, verify.Unproved, "another command"},
		{"other arguments", func(k *proof.Proof) { k.Evidence.Args = nil }, verify.Unproved, "another command"},
		{"no receipt", func(k *proof.Proof) { k.Receipt, k.NoReceipt = nil, "no receipt: x changed" }, verify.Proved, ""},
		{"another script", func(k *proof.Proof) { k.Receipt.UsedFiles[0].SHA256 = sumOf("y") }, verify.Unproved, "was changed there"},
	} {
		came := proven()
		tt.change(&came)
		m := &session.Machine{Host: h, Real: verify.RealDriver, CacheDir: t.TempDir()}
		p, err := judged(m, req, "node1", came)
		if tt.err != "" {
			if err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%s: %v", tt.story, err)
			}
			continue
		}
		if err != nil || p.Verdict.Kind != tt.want || p.Program != app || p.Host != "node1" {
			t.Errorf("%s: %v, %+v", tt.story, err, p.Verdict)
			continue
		}
		hosttest.Equal(t, p.NoReceipt, came.NoReceipt, tt.story, "why there is no receipt")
		if p.Verdict.Kind != verify.Proved || p.Receipt == nil {
			continue
		}
		real := func(verify.Evidence) func(verify.Loaded) (bool, string) { return verify.RealDriver(m.Host) }
		data := hosttest.Must(p.Receipt.Encode())(t)
		r := hosttest.Must(receipt.Decode(data))(t)
		if wrong, _ := receipt.Verify(r, app, false, real); len(wrong) > 0 || r.Environment["CUDA_VISIBLE_DEVICES"] != "0" {
			t.Errorf("the receipt does not hold here: %q", wrong)
		}
		if i := slices.IndexFunc(r.UsedFiles, func(b receipt.Binary) bool { return b.Host == "node1" }); len(r.UsedFiles) != 3 || i != 1 || r.UsedFiles[0].Path != script ||
			r.UsedFiles[2] != (receipt.Binary{Path: weights, Size: 1, SHA256: sumOf("x"), Sent: true}) {
			t.Errorf("also: %+v", r.UsedFiles)
		}
		hosttest.OK(t, os.WriteFile(script, []byte("y"), 0o600))
		if wrong, _ := receipt.Verify(r, app, false, real); len(wrong) != 1 {
			t.Errorf("the script was changed: %q", wrong)
		}
		hosttest.OK(t, os.WriteFile(weights, []byte("y"), 0o600))
		if wrong, _ := receipt.Verify(r, app, false, real); len(wrong) != 2 || !strings.Contains(wrong[1], "weights, which was used with it, is another one") {
			t.Errorf("what was sent was changed: %q", wrong)
		}
		hosttest.OK(t, os.Remove(weights))
		if wrong, _ := receipt.Verify(r, app, false, real); len(wrong) != 1 {
			t.Errorf("what was sent is not here: %q", wrong)
		}
	}
	m := &session.Machine{Host: h, Real: verify.RealDriver, CacheDir: t.TempDir()}
	came, open, strange := proven(), req, req
	open.Task.WithArgs, strange.Task.Asked.Expect = true, "luck"
	if _, err := judged(m, open, "node1", came); err == nil {
		t.Error("arguments that are stored were compared with their hash")
	}
	came.Evidence.Args = open.Task.Args
	if _, err := judged(m, open, "node1", came); err != nil {
		t.Error(err)
	}
	if _, err := judged(m, strange, "node1", proven()); err == nil || !strings.Contains(err.Error(), "luck") {
		t.Errorf("rules that are none: %v", err)
	}
}

// TestLines: what is written comes back in pieces of any size, each ends a line, and what was changed on the way is noticed.
func TestLines(t *testing.T) {
	t.Parallel()
	var wire bytes.Buffer
	out := &lines{to: &wire}
	text := strings.Repeat("a\nb\x00", 1000)
	for _, piece := range []string{text, "x", "", text} {
		if n, err := out.Write([]byte(piece)); err != nil || n != len(piece) || !bytes.HasSuffix(wire.Bytes(), []byte("\n")) {
			t.Fatalf("%d, %v", n, err)
		}
	}
	sent := wire.String()
	got, err := io.ReadAll(iotest.OneByteReader(&lines{from: bufio.NewReader(strings.NewReader(sent))}))
	if err != nil || string(got) != text+"x"+text {
		t.Errorf("%d bytes came of %d, %v", len(got), 2*len(text)+1, err)
	}
	if _, err := io.ReadAll(&lines{from: bufio.NewReader(strings.NewReader(strings.ReplaceAll(sent, "\n", "\r\n")))}); !errors.Is(err, smux.ErrInvalidProtocol) {
		t.Errorf("a terminal's line ends: %v", err)
	}
}

// TestMultiplexed: much is on its way before the other side reads, since it takes srun long to say that more may come.
func TestMultiplexed(t *testing.T) {
	t.Parallel()
	here, there := net.Pipe()
	client, err1 := smux.Client(here, multiplexed(time.Minute))
	server, err2 := smux.Server(there, multiplexed(time.Minute))
	hosttest.OK(t, errors.Join(err1, err2))
	defer client.Close()
	defer server.Close()
	out := hosttest.Must(client.OpenStream())(t)
	_, err1 = out.Write([]byte("x"))
	in, err2 := server.AcceptStream()
	hosttest.OK(t, errors.Join(err1, err2))
	hosttest.Must(io.ReadFull(in, make([]byte, 1)))(t)
	hosttest.OK(t, out.SetWriteDeadline(time.Now().Add(20*time.Second)))
	if n, err := out.Write(make([]byte, 2<<20)); err != nil {
		t.Errorf("%d bytes of 2 MiB were taken: %v", n, err)
	}
}

// TestOlderGlibc: what the loader there says of a glibc that it lacks, or the shell of a program whose loader is not there, leads to the
// command that makes a gpubuild without one.
func TestOlderGlibc(t *testing.T) {
	self := need.Program(t, "sh", "sh")
	if loader.NeedsGlibc(self) == "" {
		need.Missing(t, "glibc", "%s needs none", self)
	}
	for said, tt := range map[string]struct {
		code int
		want string
	}{
		"/home/u/gpubuild: /lib64/libc.so.6: version `GLIBC_2.34' not found (required by /home/u/gpubuild)": {1, "big has an older one (ssh ended with 1: "},
		"sh: exec: line 0: /home/u/gpubuild: not found":                                                     {127, "big has none: it may be a musl system (ssh ended with 127: "},
		"bash: /home/u/gpubuild: cannot execute: required file not found":                                   {1, "big has none"},
		"sh: mv: cannot write: no space left":                                                               {97, "big did not start gpubuild"},
	} {
		l := &link{m: &session.Machine{Self: self}, place: proof.Place{On: proof.On{Name: "big"}, Command: []string{"/usr/bin/ssh"}}, step: ".", said: &explain.Tail{}}
		_, _ = l.said.Write([]byte(said + "\n"))
		err := l.lost(buildenv.Result{Code: tt.code})
		if err.ID != IDRefused || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Hint(), "CGO_ENABLED=0 go build") != (tt.code != 97) {
			t.Errorf("%v; %s", err, err.Hint())
		}
	}
}
