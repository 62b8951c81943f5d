package config

import (
	"strings"

	"gpubuild/features/manifest"
)

// CI is the [ci] table: what `gpubuild ci init` writes into a workflow.
type CI struct {
	// Shell commands that install gpubuild on a runner. `gpubuild ci init --install` takes precedence.
	Install string `toml:"install"`
	// GitLab: the image of jobs without a GPU.
	Image string `toml:"image"`
	// Shell commands that run before everything else, such as the installation of system libraries.
	Setup string `toml:"setup"`
	// The features that get a row in the workflow. Without it: each one that leads to a GPU crate.
	Features []string `toml:"features"`
}

const ciKeys = "[ci]: install, image, setup, features"

func noControl(s string) bool { return !strings.ContainsAny(s, "\x00\r\n") }

// lineIn finds the line of a key, else that of the nearest table that holds it; 0 if there is none. BurntSushi/toml keeps no positions.
func lineIn(data []byte, path ...string) int {
	keys := manifest.Locate(data)
	for n := len(path); n > 0; n-- {
		if at, ok := keys.At(path[:n]...); ok {
			return at.Line
		}
	}
	return 0
}
