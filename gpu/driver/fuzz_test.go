package driver

import (
	"bytes"
	"testing"
)

func FuzzNvidiaSMI(f *testing.F) {
	f.Add("0, GPU-a, NVIDIA L4, 8.9, 23034, 550.54.15\n", false)
	f.Add("0, GPU-a, Tesla T4, 15109, 470.82.01\n", true)
	f.Add("[N/A], [N/A], [N/A], [N/A], [N/A], [N/A]\nx\n", false)
	f.Fuzz(func(t *testing.T, out string, old bool) {
		a, err := parseSMI(out, old)
		if err != nil && len(a.Devices) > 0 {
			t.Error("devices and an error")
		}
		for _, d := range a.Devices {
			if d.Index < 0 || d.Major < 0 || d.Major > 99 {
				t.Errorf("%+v", d)
			}
		}
	})
}

func FuzzAnswer(f *testing.F) {
	good, _ := answer{Driver: "580.65.06", CUDA: 13000, Devices: []childDevice{{UUID: "GPU-a", Major: 9}}}.encode()
	f.Add(good)
	f.Add(append([]byte("NVML: a library that talks\n"), good...))
	f.Add([]byte(`{"schema":"gpubuild/nvml/2"}`))
	f.Fuzz(func(t *testing.T, out []byte) {
		a, ok := parseAnswer(out)
		if !ok {
			return
		}
		data, _ := a.encode()
		b, ok := parseAnswer(data)
		again, _ := b.encode()
		if !ok || !bytes.Equal(data, again) {
			t.Errorf("%q became %q", data, again)
		}
	})
}
