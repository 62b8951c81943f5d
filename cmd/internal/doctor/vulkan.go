package doctor

import (
	"context"
	"fmt"
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
	v := &Vulkan{}
	p, err := proof.Files{}.BuildProbe(ctx, m, probe.Vulkan)
	if err != nil {
		v.Why = err.Error()
		return v
	}
	v.Devices, v.Why = verify.VulkanDevices(ctx, m.Host, m.Runner, p)
	return v
}

func checkVulkan(v Vulkan) Check {
	c := Check{ID: "vulkan", State: OK}
	var says []string
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
	c.Says = strings.Join(says, "; ")
	switch {
	case len(v.Devices) == 0:
		c.State, c.Says = Missing, "no Vulkan device: "+v.Why
		c.Fix = "install the GPU's driver with its Vulkan part, and the loader (Debian: libvulkan1)"
	case software:
		c.State, c.Absent, c.Says = Warning, true, "Vulkan has only software devices; "+c.Says
		c.Fix = "install the Vulkan driver of the GPU"
	}
	if c.State != OK {
		c.Breaks = "programs on wgpu, ash or Vulkan run on the CPU or not at all"
	}
	return c
}
