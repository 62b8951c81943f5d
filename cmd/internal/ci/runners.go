package ci

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
)

//go:embed runners.toml
var runnersText string

// Hosted is one of GitHub's standard runners.
type Hosted struct {
	Labels    []string `toml:"labels"`
	Platform  string   `toml:"platform"`
	GitLab    string   `toml:"gitlab"`    // the tag of GitLab's own runner of that kind, where a job without tags does not get it
	Compilers []string `toml:"compilers"` // "gcc 13", "msvc 14.44"; none: not known
}

// hostedLabels are the runners of each platform, unless the configuration names others.
func hostedLabels() map[string][]string {
	return map[string][]string{
		"linux-x86_64": {"ubuntu-24.04"}, "linux-aarch64": {"ubuntu-24.04-arm"}, "windows-x86_64": {"windows-2022"},
		"windows-aarch64": {"windows-11-arm"}, "macos-aarch64": {"macos-15"}, "macos-x86_64": {"macos-15-intel"},
	}
}

// hostedNames are the labels of GitHub's own runners, as JSON strings.
func hostedNames() []string {
	var out []string
	if known, err := KnownMachines(); err == nil { // it is part of this program, and a test reads it
		for _, h := range known.Runners {
			for _, label := range h.Labels {
				out = append(out, `"`+label+`"`)
			}
		}
	}
	return out
}

// Machines is what is known of runners and images that are not ours.
type Machines struct {
	Runners []Hosted `toml:"runner"`
	Images  []struct {
		Suffix    string   `toml:"suffix"`
		Compilers []string `toml:"compilers"`
	} `toml:"image"`
	// Toolset is the oldest CUDA that the standard library of an MSVC toolset takes.
	Toolset map[string]string `toml:"toolset"`
}

// KnownMachines reads the table that is part of this program.
func KnownMachines() (*Machines, error) {
	m := &Machines{}
	if err := toml.Unmarshal([]byte(runnersText), m); err != nil {
		return nil, fmt.Errorf("runners.toml: %w", err)
	}
	return m, nil
}

// Hosted answers the standard runner that labels mean; nil when they mean a machine of the user's own.
func (m *Machines) Hosted(labels []string) *Hosted {
	if len(labels) != 1 {
		return nil // a standard runner has one label; several mean a runner that has them all
	}
	for i := range m.Runners {
		if slices.Contains(m.Runners[i].Labels, strings.ToLower(labels[0])) {
			return &m.Runners[i]
		}
	}
	return nil
}

// Compilers lists the host compilers of the place where a row builds; nil when they are not known. The user's own words come first.
func (m *Machines) Compilers(r Row, said map[string][]string) []string {
	if r.Container != "" {
		if list, ok := said[r.Container]; ok {
			return list
		}
		name, _, _ := strings.Cut(r.Container, "@")
		if list, ok := said[name]; ok {
			return list
		}
		for _, image := range m.Images {
			if strings.HasPrefix(name, "nvidia/cuda:") && strings.HasSuffix(name, image.Suffix) {
				return image.Compilers
			}
		}
		return nil
	}
	for _, label := range r.Runner {
		if list, ok := said[label]; ok {
			return list
		}
	}
	if h := m.Hosted(r.Runner); h != nil {
		return h.Compilers
	}
	return nil
}
