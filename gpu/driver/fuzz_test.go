package driver

import "testing"

func FuzzNvidiaSMI(f *testing.F) {
	f.Add("0, GPU-a, NVIDIA L4, 8.9, 23034, 550.54.15\n", false)
	f.Add("0, GPU-a, Tesla T4, 15109, 470.82.01\n", true)
	f.Add("[N/A], [N/A], [N/A], [N/A], [N/A], [N/A]\nx\n", false)
	f.Fuzz(func(t *testing.T, out string, old bool) {
		a, err := parseSMI(out, old)
		if err != nil && len(a.devices) > 0 {
			t.Error("devices and an error")
		}
		for _, d := range a.devices {
			if d.Index < 0 || d.Capability.Major < 0 || d.Capability.Major > 99 {
				t.Errorf("%+v", d)
			}
		}
	})
}
