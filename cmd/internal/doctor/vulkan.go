package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/cmd/internal/proof"
	"gpubuild/cmd/internal/session"
	"gpubuild/features"
	"gpubuild/gpu/probe"
	"gpubuild/gpu/verify"
)

// lookAtVulkan asks what Vulkan has here, where the project links wgpu or ash. The control lists the devices, and is compiled for that.
func lookAtVulkan(ctx context.Context, m *session.Machine, a *features.Reach) *Vulkan {
	if m.Host.OS != buildenv.Linux || !a.UsesVulkan() {
		return nil
	}
	v := &Vulkan{Drivers: verify.VulkanDrivers(m.Host)}
	p, err := proof.BuildProbe(ctx, m, probe.Vulkan)
	if err != nil {
		v.Why = err.Error()
		return v
	}
	v.Devices, v.Why = verify.VulkanDevices(ctx, m.Host, m.Runner, p)
	return v
}

// withoutCUDA makes what only CUDA needs a mere information for a project that uses Vulkan and nothing of CUDA.
func withoutCUDA(checks []Check) {
	for i, c := range checks {
		if c.State != OK && slices.Contains([]string{"driver", "devices", "cupti"}, c.ID) {
			checks[i].State, checks[i].Absent = Info, false
		}
	}
}

func checkVulkan(v Vulkan) Check {
	c := Check{ID: "vulkan", State: OK}
	var says, problems []string
	software := true
	for _, d := range v.Devices {
		kind := d.Type
		if verify.Software(d) != "" {
			kind = "software"
		} else {
			software = false
		}
		says = append(says, fmt.Sprintf("%s (%s)", d.Name, kind))
	}
	for _, d := range v.Drivers {
		c.Places = append(c.Places, d.Manifest)
		if d.Problem != "" {
			problems = append(problems, d.Manifest+": "+d.Problem)
		}
	}
	c.Says = strings.Join(append(says, problems...), "; ")
	switch {
	case len(v.Devices) == 0:
		c.State, c.Says = Missing, strings.Join(append([]string{"no Vulkan device: " + v.Why}, problems...), "; ")
		c.Fix = "install the GPU's driver with its Vulkan part, and the loader (Debian: libvulkan1)"
	case software:
		c.State, c.Absent, c.Says = Warning, true, "Vulkan has only software devices; "+c.Says
		c.Fix = "install the Vulkan driver of the GPU"
	case len(problems) > 0:
		c.State, c.Fix = Warning, "install that driver's library, or remove the file that names it"
	}
	if c.State != OK {
		c.Breaks = "programs on wgpu, ash or Vulkan run on the CPU or not at all"
	}
	return c
}
