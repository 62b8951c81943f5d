package verify

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gpubuild/buildenv/hosttest"
	"gpubuild/buildenv/hosttest/need"
)

func TestDeviceNodes(t *testing.T) {
	h, err := hosttest.Parse([]byte("os: linux\n-- /dev/nvidiactl --\n-- /dev/nvidia0 --\n-- /dev/nvidia-uvm --\n-- /dev/nvidia-caps/nvidia-cap1 --\n-- /dev/null --\n" +
		"-- /dev/dxg --\n-- /dev/kfd --\n-- /dev/dri/card0 --\n-- /dev/dri/renderD128 --\n-- /dev/nvmap --\n-- /dev/nvhost-gpu --\n-- /dev/nvhost-ctrl --\n-- /dev/nvgpu/igpu0/ctrl --\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"/dev/dri/renderD128", "/dev/dxg", "/dev/kfd", "/dev/nvgpu/igpu0/ctrl", "/dev/nvhost-gpu", "/dev/nvidia0", "/dev/nvidiactl", "/dev/nvmap"}
	got := DeviceNodes(h)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// The watcher tells which of the nodes was opened, and where one of them cannot be watched that it does not know.
func TestWatcherOfNodes(t *testing.T) {
	l := newLab(t)
	dir := t.TempDir()
	one, two, third := filepath.Join(dir, "one"), filepath.Join(dir, "two"), filepath.Join(dir, "third")
	for _, p := range []string{one, two, third} {
		if err := makeNode(p); err != nil {
			t.Fatal(err)
		}
	}
	cat := need.Program(t, "sh", "cat")
	for i, tt := range []struct {
		nodes, opens []string
		watched      int
		want         []string
	}{
		{[]string{one, two}, []string{one}, 2, []string{one}},
		{[]string{one, two}, []string{two, one, two}, 2, []string{one, two}},
		{[]string{one, two}, []string{third}, 2, nil},
		{[]string{one, filepath.Join(dir, "none")}, []string{one}, -1, nil},
		{nil, []string{third}, 0, nil},
	} {
		record := filepath.Join(dir, "record"+string(rune('a'+i)))
		if out, err := exec.Command(l.probe.Watch, append([]string{record, strings.Join(tt.nodes, "\n"), cat}, tt.opens...)...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		w, _, err := readWatch(l.host, record)
		if err != nil || !w.Complete || w.Watched != tt.watched || !slices.Equal(w.Nodes, tt.want) {
			t.Errorf("%q, and %q are opened: %+v, %v", tt.nodes, tt.opens, w, err)
		}
	}
}
