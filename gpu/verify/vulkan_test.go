package verify

import (
	"regexp"
	"strings"
	"testing"

	"gpubuild/buildenv"
	"gpubuild/buildenv/hosttest"
	"gpubuild/gpu/probe"
)

var (
	discrete   = probe.Device{Name: "NVIDIA H200", UUID: "GPU-11111111-2222-3333-4444-555555555555", Type: "discrete", DriverID: 4}
	rasteriser = probe.Device{Name: "llvmpipe (LLVM 15)", UUID: "GPU-6d657361-2222-3333-4444-555555555555", Type: "cpu", DriverID: 13}
)

// vulkanRun is the evidence of a program that dispatched its own pipeline on a GPU, once, and of a control that did so before.
func vulkanRun() Evidence {
	code := 0
	loaded := Loaded{Backend: probe.Vulkan, LibCUDA: "/lib/libvulkan.so.1", Nodes: []string{"/dev/dri/renderD128"}, Devices: []probe.Device{discrete}}
	control := Control{Outcome: ControlRecorded, Device: discrete.Name, Loaded: loaded, Real: true, Nodes: loaded.Nodes}
	after := control
	return Evidence{
		Backend: probe.Vulkan, Binary: "/app", Control: control, After: &after, Ran: true,
		Watch: Watch{Pid: 7, Started: 9, Complete: true, Watched: 1, Nodes: loaded.Nodes},
		Processes: []Process{{Self: true, Real: true, Loaded: loaded, Process: probe.Process{
			Identity: probe.Identity{Pid: 7, Started: 9, Exe: "/app"}, Recording: true, Engine: "wgpu-hal", Devices: []probe.Device{discrete},
			Kernels: []probe.Kernel{{Name: "main", Count: 1, Total: 500, Start: 1000, End: 1500, Block: [3]int{8, 8, 1}, Shape: "push 0, buffers 0.0 0.1 0.2", Timed: 1, Waited: 1}},
			End:     &probe.End{Kernels: 1, Accepted: 1, Written: 1, Status: &code, Exited: true},
		}}},
	}
}

func TestJudgeVulkan(t *testing.T) {
	kernel := func(e *Evidence) *probe.Kernel { return &e.Processes[0].Kernels[0] }
	on := func(e *Evidence, d probe.Device) { e.Processes[0].Devices[0] = d }
	controlOn := func(e *Evidence, d probe.Device) {
		e.Control.Loaded.Devices, e.After.Loaded.Devices = []probe.Device{d}, []probe.Device{d}
	}
	nothing := func(e *Evidence) {
		p := &e.Processes[0]
		p.Kernels, p.End.Kernels, p.End.Accepted, p.End.Written = nil, 0, 0, 0
	}
	for _, tt := range []struct {
		story  string
		change func(e *Evidence, r *Rules)
		want   Kind
		why    string
	}{
		{"a pipeline of its own", func(*Evidence, *Rules) {}, Proved, ""},
		{"it has the name that was asked for", func(_ *Evidence, r *Rules) { r.Kernel = regexp.MustCompile("^main$") }, Proved, ""},
		{"another name was asked for", func(_ *Evidence, r *Rules) { r.Kernel = regexp.MustCompile("matmul") }, OtherKernels, "matmul"},
		{"on llvmpipe", func(e *Evidence, _ *Rules) { on(e, rasteriser) }, NotUsed, "the CPU (llvmpipe): 1 launch of main"},
		{"by the driver's number only", func(e *Evidence, _ *Rules) {
			on(e, probe.Device{Name: "GPU", UUID: discrete.UUID, Type: "discrete", DriverID: swiftShader})
		}, NotUsed, "SwiftShader"},
		{"a virtual GPU whose host has none", func(e *Evidence, _ *Rules) {
			on(e, probe.Device{Name: "Virtio-GPU Venus (llvmpipe)", UUID: discrete.UUID, Type: "virtual", DriverID: 22})
		}, NotUsed, "llvmpipe"},
		{"WARP", func(e *Evidence, _ *Rules) {
			on(e, probe.Device{Name: "Microsoft Direct3D12 (Microsoft Basic Render Driver)", UUID: discrete.UUID, Type: "discrete", DriverID: 23})
		}, NotUsed, "WARP"},
		{"the control found only llvmpipe", func(e *Evidence, _ *Rules) { controlOn(e, rasteriser) }, Unproved, "found only llvmpipe"},
		{"a node was opened, and Vulkan has only llvmpipe", func(e *Evidence, _ *Rules) {
			on(e, rasteriser)
			controlOn(e, rasteriser)
		}, Unproved, "/dev/dri/renderD128 was opened while it ran, and Vulkan has only llvmpipe here"},
		{"a node was opened that Vulkan's drivers do not open", func(e *Evidence, _ *Rules) {
			on(e, rasteriser)
			e.Watch.Nodes = []string{"/dev/dri/renderD128", "/dev/nvidia0"}
		}, Unproved, "/dev/nvidia0 was opened while it ran, and not while the control ran"},
		{"the first submission was refused", func(e *Evidence, _ *Rules) {
			nothing(e)
			e.Processes[0].Refused = []probe.Refusal{{RC: -2, Function: "vkQueueSubmit", Correlation: 1}}
		}, Unproved, "vkQueueSubmit answered Vulkan error -2"},
		{"the first submission lost the device", func(e *Evidence, _ *Rules) {
			nothing(e)
			e.Processes[0].Refused = []probe.Refusal{{RC: -4, Function: "vkQueueSubmit", Kind: probe.Lost}}
		}, Unproved, "vkQueueSubmit answered Vulkan error -4"},
		{"the layer was not loaded, and there is no GPU", func(e *Evidence, _ *Rules) {
			controlOn(e, rasteriser)
			e.Processes, e.Watch.Watched, e.Watch.Nodes = nil, 0, nil
			e.Watch.Seen = []Seen{{Pid: 7, Started: 9, Root: true, NoInjection: true}}
		}, NotUsed, "the layer was not loaded into it"},
		{"no GPU is here at all", func(e *Evidence, _ *Rules) {
			controlOn(e, rasteriser)
			e.Processes, e.Watch.Watched, e.Watch.Nodes = nil, 0, nil
		}, NotUsed, "ran on the CPU"},
		{"a GPU is here, and only Vulkan does not know it", func(e *Evidence, _ *Rules) {
			controlOn(e, rasteriser)
			e.Processes, e.Control.Nodes = nil, nil
		}, Unproved, "VK_INSTANCE_LAYERS"},
		{"wgpu's check of an indirect dispatch", func(e *Evidence, _ *Rules) {
			kernel(e).Block, kernel(e).Shape = wgpusOwn[0].block, wgpusOwn[0].shape
		}, NotUsed, "wgpu's own"},
		{"the same shader in a program without wgpu", func(e *Evidence, _ *Rules) {
			kernel(e).Block, kernel(e).Shape, e.Processes[0].Engine = wgpusOwn[0].block, wgpusOwn[0].shape, ""
		}, Proved, ""},
		{"the same shader with a label", func(e *Evidence, _ *Rules) {
			kernel(e).Block, kernel(e).Shape, kernel(e).Name = wgpusOwn[0].block, wgpusOwn[0].shape, "scan"
		}, Proved, ""},
		{"perhaps wgpu's scaling of timestamps", func(e *Evidence, _ *Rules) {
			kernel(e).Block, kernel(e).Shape = wgpusOwn[2].block, wgpusOwn[2].shape
		}, Unproved, "that may be wgpu's own"},
		{"an indirect dispatch", func(e *Evidence, _ *Rules) { kernel(e).Unsure = true }, Unproved, "indirect or conditional"},
		{"commands that the device generates", func(e *Evidence, _ *Rules) {
			kernel(e).Unsure, kernel(e).Name = true, "vkCmdExecuteGeneratedCommandsEXT"
		}, Unproved, "it called vkCmdExecuteGeneratedCommandsEXT: what that ran is not known"},
		{"a device and no dispatch", func(e *Evidence, _ *Rules) { nothing(e) }, NotUsed, "no work group of a compute pipeline was launched"},
		{"the same, with OpenGL loaded", func(e *Evidence, _ *Rules) {
			nothing(e)
			e.Processes[0].APIs = []string{"/lib/libEGL.so.1"}
		}, Unproved, "libEGL"},
		{"it crashed after the dispatch", func(e *Evidence, _ *Rules) { e.Exit = Exit{Code: 139, Signal: "SIGSEGV"} }, Unproved, "SIGSEGV"},
		{"the device was lost", func(e *Evidence, _ *Rules) {
			e.Processes[0].Refused = []probe.Refusal{{RC: -4, Function: "vkQueueSubmit", Kind: probe.Lost}}
		}, Unproved, "Vulkan error -4"},
		{"it was not waited for", func(e *Evidence, _ *Rules) { e.Processes[0].Kernels[0].Waited = 0 }, Unproved, "nothing waited"},
		{"submitted and not completed", func(e *Evidence, _ *Rules) {
			nothing(e)
			e.Processes[0].End.Accepted, e.Processes[0].End.Unfinished = 1, 1
		}, Unproved, "the end was not recorded"},
		{"a layer of the program's own below ours", func(e *Evidence, _ *Rules) {
			e.Conflicts = within(Process{Process: probe.Process{Identity: probe.Identity{Pid: 7}, Interposed: []probe.Interposed{{Symbol: "vkCreateInstance", By: "VK_LAYER_INTEL_nullhw"}}}})
		}, Unproved, "VK_LAYER_INTEL_nullhw"},
		{"no node of the device is open", func(e *Evidence, _ *Rules) {
			p := &e.Processes[0]
			p.Loaded.Nodes = nil
			p.Real, p.RealNote = realVulkan(p.Loaded)
		}, Unproved, "stand-in"},
		{"no loader", func(e *Evidence, _ *Rules) {
			nothing(e)
			e.Control = Control{Outcome: ControlNoLibrary, Why: "load: libvulkan.so.1: cannot open shared object file"}
		}, NoDevice, "no Vulkan loader here: libvulkan.so.1"},
		{"no driver", func(e *Evidence, _ *Rules) {
			nothing(e)
			e.Control = Control{Outcome: ControlNoDevice, Why: "vkCreateInstance: the Vulkan loader finds no driver (ICD)"}
		}, NoDevice, "no driver (ICD)"},
	} {
		t.Run(tt.story, func(t *testing.T) {
			e, r := vulkanRun(), Rules{}
			tt.change(&e, &r)
			if v := Judge(e, r); v.Kind != tt.want || !strings.Contains(v.Why, tt.why) {
				t.Errorf("got %s: %s\nwant %s: …%s…\n%s", v.Kind, v.Why, tt.want, tt.why, strings.Join(v.Lines, "\n"))
			}
		})
	}
}

// The shipped predicate knows a rasteriser, and a driver that no device belongs to.
func TestRealVulkan(t *testing.T) {
	for _, tt := range []struct {
		device probe.Device
		nodes  []string
		want   bool
	}{
		{discrete, []string{"/dev/nvidia0"}, true},
		{discrete, nil, false},
		{rasteriser, nil, true},
		{probe.Device{Name: "?", Type: "other"}, []string{"/dev/dri/renderD128"}, false},
	} {
		l := Loaded{Backend: probe.Vulkan, Devices: []probe.Device{tt.device}, Nodes: tt.nodes}
		if got, why := RealDriver(buildenv.Host{OS: buildenv.Linux})(l); got != tt.want || got != (why == "") {
			t.Errorf("%+v, %q: %v %s", tt.device, tt.nodes, got, why)
		}
	}
}

// The adapter is what the program computed on, or opened; else what there is here.
func TestAdapter(t *testing.T) {
	e := vulkanRun()
	e.Processes[0].Devices = []probe.Device{{Name: "A", Type: "discrete", API: "1.3.1"}, {Ordinal: 1, Name: "B", Type: "cpu", Driver: "llvmpipe", API: "1.3.2"}}
	e.Processes[0].Kernels[0].Device = 1
	for _, want := range []string{"B (cpu), llvmpipe, Vulkan 1.3.2", "A (discrete), unknown driver, Vulkan 1.3.1", "NVIDIA H200 (discrete), unknown driver, Vulkan ", ""} {
		hosttest.Equal(t, e.Adapter(), want)
		switch p := &e.Processes[0]; {
		case p.Kernels != nil:
			p.Kernels = nil
		case p.Devices != nil:
			p.Devices = nil
		default:
			e.Backend = probe.CUDA
		}
	}
}

func TestLayered(t *testing.T) {
	env := buildenv.NewEnv(buildenv.Linux, []string{"VK_INSTANCE_LAYERS=VK_LAYER_KHRONOS_validation"})
	for _, tt := range []struct {
		env      buildenv.Env
		replaced []string
		want     string // VK_ADD_LAYER_PATH|VK_LAYER_PATH
	}{
		{env, nil, "/probe|"},
		{env, []string{"/usr/share/l"}, "/probe|/probe:/usr/share/l"},
		{env.Set(probe.LayerPathVariable, "/own"), nil, "/probe|/probe:/own"},
		{env.Set(probe.AddLayersVariable, "/own"), nil, "/probe:/own|"},
	} {
		got := layered(tt.env, "/probe/layer.so", tt.replaced)
		hosttest.Equal(t, got.Get(probe.AddLayersVariable)+"|"+got.Get(probe.LayerPathVariable), tt.want)
		hosttest.Equal(t, got.Get(probe.LayersVariable), "VK_LAYER_KHRONOS_validation:"+probe.LayerName, "the layers are")
	}
}
