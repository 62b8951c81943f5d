package explain

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
)

// TestStatusesOfTheToolkit: the table knows every status of the installed headers, with its number.
func TestStatusesOfTheToolkit(t *testing.T) {
	for _, root := range need.Toolkits(t, 1) {
		for header, name := range map[string]string{"cuda.h": `CUDA_ERROR_\w+`, "driver_types.h": `cudaError[A-Z]\w+`} {
			text := hosttest.Must(os.ReadFile(filepath.Join(root, "include", header)))(t)
			found := regexp.MustCompile(`(?m)^\s*(`+name+`)\s*=\s*(\d+)`).FindAllSubmatch(text, -1)
			if len(found) < 100 {
				t.Errorf("%s: only %d were found", header, len(found))
			}
			for _, m := range found {
				code := hosttest.Must(strconv.Atoi(string(m[2])))(t)
				if s := LookupStatus(string(m[1])); s == nil || s.Code != code {
					t.Errorf("%s %s = %d: got %+v", header, m[1], code, s)
				}
			}
		}
	}
	if s := LookupStatus("700"); s == nil || s.Name != "CUDA_ERROR_ILLEGAL_ADDRESS" || s.Meaning == "" {
		t.Errorf("700: %+v", s)
	}
}

// TestRuntimeNames: what a rule knows by the driver's name of a status it knows by that of CUDA's run-time library, too.
func TestRuntimeNames(t *testing.T) {
	rs := table(t)
	known := func(code string) (by []string) {
		for _, r := range rs.Lookup(code) {
			by = append(by, r.ID)
		}
		return by
	}
	pairs := 0
	for name, s := range statuses() {
		d := LookupStatus(strconv.Itoa(s.Code))
		if !strings.HasPrefix(name, "cudaerror") || d == nil {
			continue
		}
		pairs++
		got, want := ask(t, "app failed: "+s.Name+"\n"), ask(t, "app failed: "+d.Name+"\n")
		if fmt.Sprint(ids(got)) != fmt.Sprint(ids(want)) || fmt.Sprint(known(s.Name)) != fmt.Sprint(known(d.Name)) {
			t.Errorf("%s: %v, %s: %v", s.Name, ids(got), d.Name, ids(want))
		}
		if len(got.Found) > 0 && !strings.Contains(got.Found[0].Text, s.Name) {
			t.Errorf("%s is not shown as it was written: %s", s.Name, got.Found[0].Text)
		}
	}
	if pairs < 50 {
		t.Errorf("%d pairs", pairs)
	}
}

// TestStatusByCode: a status that no rule has as a code is known by the general rule for statuses.
func TestStatusByCode(t *testing.T) {
	for code, want := range map[string]string{
		"CUDA_ERROR_LAUNCH_TIMEOUT": "ran longer", "46": "compute mode", "CUSPARSE_STATUS_ZERO_PIVOT": "singular", "CUDA_ERROR_CONTAINED": "NVLink",
	} {
		if by := table(t).Lookup(code); len(by) != 1 || !strings.Contains(by[0].Cause, want) {
			t.Errorf("%s: %+v", code, by)
		}
	}
}

// TestStatusByNumber: a status that a line gives by its number is that of the function or library that the line names; how many there are is none.
func TestStatusByNumber(t *testing.T) {
	const assertion = "panicked at src/gpu.rs:1:1:\nassertion `left == right` failed: "
	for text, want := range map[string]string{
		"cudnnCreate failed with status 1": "cudnn-not-initialized", "cudnn error 3000": "cuda-status", "NVML error 18": "nvml-mismatch-becomes-arch",
		"NCCL error 2": "nccl-error", "ncclCommInitRank failed: 5": "nccl-error", "cuInit(0) = 100": "no-device", "cuResult: 209": "no-kernel-image",
		assertion + "cuInit\n  left: 100\n right: 0": "no-device", assertion + "length\n  left: 100\n right: 0": "", assertion + "cuInit\n  left: 100\n right: 1": "",
		"NCCL failed 3 times": "", "nvmlDeviceGetCount_v2 returned 2": "", "NVML returned 2 devices": "", "NCCL version 2": "", "cuBLAS result: 14": "", "CUDA download status: 100%": "", "cuDNN status: 0": "",
	} {
		hosttest.Equal(t, first(t, text), want, text)
	}
}
