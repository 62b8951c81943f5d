package scan

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
	"gpubuild/cmd/internal/proof"
	"gpubuild/cmd/internal/receipt"
	"gpubuild/cmd/internal/session"
	"gpubuild/gpu"
	"gpubuild/gpu/runs"
	"gpubuild/gpu/verify"
)

// this means the GPUs and the driver of this machine.
const this = "this"

// IsReceipt reports whether the value of --runs-on is the name of a receipt.
func IsReceipt(on string) bool {
	return on != this && !strings.Contains(on, "driver=") && !strings.HasPrefix(on, "sm_") && !isGPU(on)
}

func isGPU(word string) bool {
	a, err := gpu.ParseArch(word)
	return err == nil && !a.Virtual && a.Suffix == ""
}

// targets are the GPUs that --runs-on means. Of one without an operating system the file decides.
func targets(ctx context.Context, m *session.Machine, o Options) ([]runs.Target, error) {
	switch {
	case o.RunsOn == "":
		return nil, nil
	case o.Receipt != nil:
		return proven(*o.Receipt, o.RunsOn)
	case o.RunsOn != this:
		return parse(o.RunsOn)
	}
	out, notes := proof.Here(ctx, m)
	if len(out) == 0 {
		return nil, exit.Errorf(exit.Missing, "name a GPU and a driver: --runs-on sm_90,driver=580", "--runs-on this: %s", strings.Join(notes, "; "))
	}
	return out, nil
}

// parse reads sm_120,driver=570,os=windows.
func parse(on string) ([]runs.Target, error) {
	var t runs.Target
	for word := range strings.SplitSeq(on, ",") {
		key, value, _ := strings.Cut(word, "=")
		switch {
		case isGPU(word) && t.GPU.IsZero():
			a, _ := gpu.ParseArch(word)
			t.GPU = a.Capability
		case key == "driver" && t.Driver == "" && gpu.Numbers(value) != nil:
			t.Driver = value
		case key == "os" && t.OS == "" && (value == buildenv.Linux || value == buildenv.Windows):
			t.OS = value
		default:
			return nil, exit.Errorf(exit.Usage, "write it like --runs-on sm_120,driver=570 or --runs-on sm_120,driver=570.26,os=windows",
				"--runs-on %s: %.200q is neither a GPU nor driver=VERSION nor os=linux or os=windows", on, word)
		}
	}
	if t.GPU.IsZero() || t.Driver == "" {
		return nil, exit.Errorf(exit.Usage, "write it like --runs-on sm_120,driver=570", "--runs-on %s: it takes a GPU and a driver", on)
	}
	return []runs.Target{t}, nil
}

// proven is the GPU of which a receipt's proof speaks.
func proven(r receipt.Receipt, name string) ([]runs.Target, error) {
	refuse := func(what string) error {
		return exit.Errorf(exit.Usage, "name a GPU and a driver: --runs-on sm_90,driver=580", "--runs-on %s: %s", name, what)
	}
	if !r.Intact() {
		return nil, refuse("the receipt was changed after it was written: its sum does not fit")
	}
	t := runs.Target{Driver: cmp.Or(r.Driver, r.Evidence.Control.Loaded.Module), OS: buildenv.Linux}
	windows := func(l verify.Loaded) {
		if l.WSL || l.System != "" { // WSL2 has Windows' driver
			t.OS = buildenv.Windows
		}
	}
	control := r.Evidence.Control
	windows(control.Loaded)
	if control.UUID == r.Verdict.UUID {
		t.GPU, _ = gpu.ParseCapability(control.Capability) // zero is refused below
		t.Name = control.Device
	}
	for _, p := range r.Evidence.Processes {
		for _, d := range p.Devices {
			if d.UUID == r.Verdict.UUID && d.UUID != "" {
				t.GPU, t.Name, t.Driver = d.Capability, d.Name, cmp.Or(t.Driver, p.Loaded.Version)
				windows(p.Loaded)
			}
		}
	}
	if t.GPU.IsZero() || t.Driver == "" {
		return nil, refuse("the receipt does not say on which CUDA GPU and driver its program ran")
	}
	return []runs.Target{t}, nil
}

// shownNames is how many of the kernels with one answer are named without --all-targets.
const shownNames = 3

// verdictLines words the answer for one GPU; every: with the names of all kernels that do not run.
func verdictLines(v runs.Verdict, every bool) string {
	var b strings.Builder
	var lines []string // an answer and its reason, once for all kernels of a fatbin that have it
	names, fixes := map[string][]string{}, map[string]string{}
	for _, k := range v.Kernels {
		if k.Answer != gpu.Yes && k.Answer != gpu.Translated {
			line := fmt.Sprintf("%s: %s (%s)", k.Answer, k.Why, strings.TrimSpace(fmt.Sprintf("at %#010x %s", k.Fatbin, k.Where)))
			if names[line] == nil {
				lines = append(lines, line)
			}
			names[line], fixes[line] = append(names[line], k.Name), k.Fix
		}
	}
	fmt.Fprintf(&b, "  on %s\n", v)
	for _, why := range v.Why {
		fmt.Fprintf(&b, "      %s\n", why)
	}
	for _, line := range lines {
		fmt.Fprintf(&b, "      %s\n", line)
		for n, name := range names[line] {
			if n == shownNames && !every {
				fmt.Fprintf(&b, "          … and %d more kernels\n", len(names[line])-n)
				break
			}
			fmt.Fprintf(&b, "          %s\n", name)
		}
		if fixes[line] != "" {
			fmt.Fprintf(&b, "        fix: %s\n", fixes[line])
		}
	}
	if len(v.Libraries) > 0 {
		fmt.Fprintf(&b, "      needs %s; kernels of libraries are not judged\n", strings.Join(v.Libraries, ", "))
	}
	return b.String()
}
