package proof

import (
	"bytes"
	"strings"
	"testing"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/finding"
	"gpubuild/cmd/internal/audit"
	"gpubuild/cmd/internal/console"
	"gpubuild/cmd/internal/session"
	"gpubuild/features"
	"gpubuild/gpu"
	"gpubuild/gpu/fatbin"
)

// TestLineOfAScan: equal device code is counted, whether its PTX is text or in a fatbin; without any the libraries of CUDA are named.
func TestLineOfAScan(t *testing.T) {
	t.Parallel()
	arch := gpu.Arch{Capability: gpu.Capability{Major: 9}}
	cubin := fatbin.Image{Kind: fatbin.Cubin, Arch: arch, Toolkit: "13.4.92"}
	ptx := fatbin.Image{Kind: fatbin.PTX, Arch: arch, PTXVersion: "9.4", Toolkit: "13.4.92"}
	text, old, bare := ptx, cubin, ptx
	text.Kind, old.Toolkit, bare.PTXVersion = fatbin.PTXText, "", ""
	for want, r := range map[string]fatbin.Report{
		"no device code (code that is made at run time is not seen)":                  {Imports: []string{"libc.so.6", "libcurl.so.4"}, Delayed: []string{"user32.dll"}},
		"no device code; loads libcublas.so.13, nvcuda.dll":                           {Imports: []string{"libc.so.6", "libcublas.so.13"}, Delayed: []string{"nvcuda.dll"}},
		"2 PTX " + arch.String() + " (PTX 9.4)":                                       {Images: []fatbin.Image{ptx, text}},
		"1 PTX " + arch.String():                                                      {Images: []fatbin.Image{bare}, Imports: []string{"libcuda.so.1"}},
		"1 cubin " + arch.String() + ", 2 cubin " + arch.String() + " (nvcc 13.4.92)": {Images: []fatbin.Image{cubin, old, cubin}},
	} {
		if got := Line(&r); !strings.EqualFold(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	for name, want := range map[string]bool{"libcuda.so.1": true, "libcurl.so.4": false, "libnvrtc.so.13": true, "libc.so.6": false, "NVCUDA.dll": true,
		"cublas64_13.dll": true, "nvrtc64_120_0.dll": true, "curl64.dll": false, "foo64_1.dll": false, "cublas64_13.exe": false} {
		if got := IsCUDALibrary(name); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
	m := &session.Machine{Host: buildenv.Host{OS: buildenv.Linux, Cwd: "/w"}}
	reach := &features.Reach{Findings: []features.Finding{{Finding: finding.Finding{ID: "features.other", Path: "/w/a"}}}}
	if f, is := NoDeviceCode(m, reach); is {
		t.Errorf("%+v", f)
	}
	reach.Findings = append(reach.Findings, features.Finding{Finding: finding.Finding{ID: features.IDUndecided, Path: "/w/Cargo.toml", Line: 3}})
	if f, is := NoDeviceCode(m, reach); !is || f.Path != "Cargo.toml" || f.Line != 3 || f.ID != "features.no-device-code" {
		t.Errorf("%+v, %v", f, is)
	}
}

// TestShownAudit: what an audit says, its findings and its exit code, by what the modes came to.
func TestShownAudit(t *testing.T) {
	t.Parallel()
	of := func(mode string, k audit.Kind, code int, why string) audit.Outcome {
		return audit.Outcome{Mode: mode, What: "what", Kind: k, Code: code, Why: why, Said: "words of " + mode}
	}
	base := of("baseline", audit.Baseline, 0, "it ends well")
	for story, tt := range map[string]struct {
		modes    []audit.Outcome
		code     int
		findings string
		says     []string
		not      string
	}{
		"honest":                  {[]audit.Outcome{base, of("a", audit.Honest, 1, "it failed"), of("b", audit.NotReached, 1, "not asked")}, exit.Done, "", []string{"notices a driver that fails", "it failed", "not asked", "it ends well"}, "words of"},
		"it fell back":            {[]audit.Outcome{base, of("a", audit.Honest, 1, "it failed"), of("b", audit.FellBack, 0, "it ended well")}, exit.NotUsed, "audit.fallback", []string{"hides a driver that fails", "words of b"}, "words of a"},
		"one is unsure":           {[]audit.Outcome{base, of("a", audit.Honest, 1, "it failed"), of("b", audit.Unsure, 0, "who knows")}, exit.Unproved, "audit.unsure", []string{"is not known", "words of b"}, "words of a"},
		"none is reached":         {[]audit.Outcome{base, of("a", audit.NotReached, 0, "it never asks"), of("b", audit.NotReached, 0, "it never asks")}, exit.Unproved, "audit.unsure audit.unsure", []string{"all 2 modes: it never asks"}, "words of"},
		"none, for other reasons": {[]audit.Outcome{base, of("a", audit.NotReached, 0, "it never asks"), of("b", audit.NotReached, 0, "it crashed")}, exit.Unproved, "audit.unsure audit.unsure", []string{"it never asks", "it crashed"}, "all 2 modes"},
		"a single mode":           {[]audit.Outcome{base, of("a", audit.NotReached, 0, "it never asks")}, exit.Unproved, "audit.unsure", []string{"it never asks"}, "all 1 modes"},
		"nothing was run":         {nil, exit.Unproved, "", nil, "Audited"},
	} {
		var said bytes.Buffer
		printAudit(&session.Machine{Shell: &console.Shell{Err: &said}}, tt.modes)
		for _, want := range tt.says {
			if !strings.Contains(said.String(), want) {
				t.Errorf("%s: no %q in\n%s", story, want, said.String())
			}
		}
		if strings.Contains(said.String(), tt.not) {
			t.Errorf("%s: %q in\n%s", story, tt.not, said.String())
		}
		var ids []string
		for _, f := range auditFindings(tt.modes, "src/main.rs") {
			if ids = append(ids, f.ID); f.Path != "src/main.rs" || (f.Evidence != "") != (f.ID == "audit.fallback") {
				t.Errorf("%s: %+v", story, f)
			}
		}
		if got := strings.Join(ids, " "); got != tt.findings || exit.Of(auditEnd(tt.modes)) != tt.code {
			t.Errorf("%s: findings %q, end %v", story, got, auditEnd(tt.modes))
		}
	}
}
