package driver

import "testing"

func FuzzNvidiaSMI(f *testing.F) {
	f.Add("0, GPU-a, NVIDIA L4, 8.9, 23034, 550.54.15\n")
	f.Add("[N/A], [N/A], [N/A], [N/A], [N/A], [N/A]\nx\n")
	f.Fuzz(func(t *testing.T, out string) {
		a, err := parseSMI(out)
		if err != nil && len(a.Devices) > 0 {
			t.Error("devices and an error")
		}
		for _, d := range a.Devices {
			if d.Index < 0 || d.Capability.Major < 0 || d.Capability.Major > 99 {
				t.Errorf("%+v", d)
			}
		}
	})
}
