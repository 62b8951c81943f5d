package config

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"gpubuild/gpu"
)

// Watch is the [watch] table: from when on something is an alert.
type Watch struct {
	// Alert at this many degrees Celsius, from 0 to 100, below the temperature at which the GPU slows down. Default: 3.
	Temperature *int `toml:"temperature"`
	// Alert when this percentage of the memory is in use. Default: 95.
	Memory *int `toml:"memory"`
	// How long heat, throttling, full memory or a narrow PCIe link must last before there is an alert. Default: 3s.
	Hold string `toml:"hold"`
	// How long the GPUs that a program may use may be idle while it runs. Default: 30s.
	Idle string `toml:"idle"`
	// Alerts after which `gpubuild watch`, or a command with --gpu-watch, exits with 23: temperature, throttle, memory, ecc, xid, pcie,
	// idle, lost.
	FailOn []string `toml:"fail-on"`
}

// Thresholds are those of the table, else the defaults; the table may be nil.
func (w *Watch) Thresholds() gpu.Thresholds {
	t := gpu.DefaultThresholds()
	if w == nil {
		return t
	}
	if w.Temperature != nil {
		t.TemperatureMargin = *w.Temperature
	}
	if w.Memory != nil {
		t.MemoryPercent = *w.Memory
	}
	if d, err := time.ParseDuration(w.Hold); err == nil {
		t.Hold = d
	}
	if d, err := time.ParseDuration(w.Idle); err == nil {
		t.Idle = d
	}
	return t
}

// checkWatch refuses values that mean nothing.
func (s Source) checkWatch(w *Watch) error {
	if w == nil {
		return nil
	}
	wrong := func(key, problem, fix string) error { return s.wrong("watch."+key+": "+problem, fix, "watch", key) }
	for key, text := range map[string]string{"hold": w.Hold, "idle": w.Idle} {
		if d, err := time.ParseDuration(text); text != "" && (err != nil || d <= 0 || d > 24*time.Hour) {
			return wrong(key, fmt.Sprintf("%.200q is not a duration of at most 24h", text), "write one such as \"3s\" or \"2m\"")
		}
	}
	if w.Memory != nil && (*w.Memory < 1 || *w.Memory > 100) {
		return wrong("memory", fmt.Sprintf("%d is not a percentage from 1 to 100", *w.Memory), "write one such as 95")
	}
	if w.Temperature != nil && (*w.Temperature < 0 || *w.Temperature > 100) {
		return wrong("temperature", fmt.Sprintf("%d is not a number of degrees from 0 to 100", *w.Temperature), "write one such as 3")
	}
	for _, k := range w.FailOn {
		if !slices.Contains(gpu.AlertKinds, k) {
			return wrong("fail-on", fmt.Sprintf("there is no alert %.200q", k), "the alerts are "+strings.Join(gpu.AlertKinds, ", "))
		}
	}
	return nil
}
