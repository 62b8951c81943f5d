package probe

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gpubuild/buildenv/hosttest"
	"gpubuild/buildenv/hosttest/need"
)

var update = flag.Bool("update", false, "write csrc/calls.h from the toolkit's header")

// callKinds is how csrc/calls.h was made from the names of the driver's functions: the first row that matches, without the version and the
// kind of default stream (_v2_ptsz). A copy counts as a wait for the default stream (READ) only where it always returns with the data on
// the host. The functions cu64… of CUDA 3.0 are in no driver of today.
var callKinds = []struct {
	kind string
	name *regexp.Regexp
}{
	{"LAUNCH", regexp.MustCompile(`^cu(Launch(Grid(Async)?|Kernel(Ex)?|CooperativeKernel(MultiDevice)?)?|GraphLaunch)$`)},
	{"WAIT", regexp.MustCompile(`^cu(Ctx|GreenCtx)(Synchronize|Query)$`)},
	{"STREAM", regexp.MustCompile(`^cuStream(Synchronize|Query)$`)},
	{"EVENT", regexp.MustCompile(`^cuEvent(Synchronize|Query)$`)},
	{"READ", regexp.MustCompile(`^cuMemcpy[DA]toH$`)},
	{"UPLOAD", regexp.MustCompile(`^cuMem(cpyHtoD(Async)?|set.*)$`)},
	{"PINNED", regexp.MustCompile(`^cuMem(HostAlloc|AllocHost)$`)},
	{"OTHER", regexp.MustCompile(`^cu(MemFree(Host|Async)?|Event(ElapsedTime|Record(WithFlags)?)|ModuleUnload|LaunchHostFunc)$|^cuStreamWaitEvent$`)},
	{"COPY", regexp.MustCompile(`^cuMemcpy`)},
	{"MEMORY", regexp.MustCompile(`^cu(Mem(Alloc(Pitch|Managed|Async|FromPoolAsync)?|Create)|(Array(3D)?|MipmappedArray)Create)$`)},
	{"CODE", regexp.MustCompile(`^cu(ModuleLoad(Data(Ex)?|FatBinary)?|LibraryLoad(Data|FromFile)|LinkComplete)$`)},
	{"CREATE", regexp.MustCompile(`^cu(CtxCreate|DevicePrimaryCtxRetain|GreenCtxCreate|StreamCreate(WithPriority)?)$`)},
	{"GRAPH", regexp.MustCompile(`^cuGraphInstantiate(WithFlags|WithParams)?$`)},
	{"LOOKUP", regexp.MustCompile(`^cu(ModuleGetFunction|LibraryGetKernel)$`)},
	{"COUNT", regexp.MustCompile(`^cuDeviceGetCount$`)},
	{"END", regexp.MustCompile(`^cu(CtxDestroy|DevicePrimaryCtx(Release|Reset)|GreenCtxDestroy)$`)},
	{"DEVICE", regexp.MustCompile(`^cu(DeviceGet(Attribute)?|CtxSetCurrent)$`)},
	{"USE", regexp.MustCompile(`^cu(Link|Library|Kernel|Module|Func|Occupancy|Graph(Add|Kernel|ExecKernel|Upload|ExecUpdate))`)},
}

var (
	callID  = regexp.MustCompile(`CUPTI_DRIVER_TRACE_CBID_(cu\w+)\s*=\s*(\d+)`)
	variant = regexp.MustCompile(`(_v\d)?(_pt[sd][sz])?$`)
	callRow = regexp.MustCompile(`\{ (\d+), (\w+) \}, /\* (\w+) \*/`)
)

type call struct {
	id         int
	kind, name string
}

// TestCalls compares the calls that the probe watches with those that NVIDIA's header lists.
func TestCalls(t *testing.T) {
	file := filepath.Join("csrc", "calls.h")
	header, err := os.ReadFile(filepath.Join(need.Toolkit(t), "include", "cupti_driver_cbid.h"))
	if err != nil {
		need.Missing(t, "toolkit", "without CUPTI's headers: %v", err)
	}
	var want []call
	for _, m := range callID.FindAllStringSubmatch(string(header), -1) {
		id := hosttest.Must(strconv.Atoi(m[2]))(t)
		for _, k := range callKinds {
			if k.name.MatchString(variant.ReplaceAllString(m[1], "")) {
				want = append(want, call{id, k.kind, m[1]})
				break
			}
		}
	}
	// A launch comes first: the probe needs it to know that this CUPTI calls back at all.
	slices.SortStableFunc(want, func(a, b call) int {
		return cmp.Or(order(b)-order(a), a.id-b.id)
	})
	if *update {
		hosttest.OK(t, os.WriteFile(file, []byte(callsHeader(want)), 0o644))
	}
	data := hosttest.Must(os.ReadFile(file))(t)
	have := map[int]call{}
	for _, m := range callRow.FindAllStringSubmatch(string(data), -1) {
		id := hosttest.Must(strconv.Atoi(m[1]))(t)
		if _, twice := have[id]; twice {
			t.Errorf("%d stands there twice", id)
		}
		have[id] = call{id, m[2], m[3]}
	}
	for _, c := range want {
		hosttest.Equal(t, have[c.id], c, "calls.h has", "the toolkit's header")
		delete(have, c.id)
	}
	older := strings.Contains(string(header), "cuMemcpyWithAttributesAsync") // an older toolkit does not know them all
	for _, c := range have {
		if older {
			t.Errorf("%v is in calls.h, and not in the toolkit's header", c)
		}
	}
}

// order puts cuLaunchKernel first, then the other launches.
func order(c call) int {
	switch {
	case c.name == "cuLaunchKernel":
		return 2
	case c.kind == "LAUNCH":
		return 1
	}
	return 0
}

func callsHeader(calls []call) string {
	var b strings.Builder
	b.WriteString("/* The driver's calls that the probe watches: number (CUpti_driver_api_trace_cbid), kind, name. Written by calls_test.go, with -update. */\n")
	for _, c := range calls {
		fmt.Fprintf(&b, "{ %d, %s }, /* %s */\n", c.id, c.kind, c.name)
	}
	return b.String()
}
