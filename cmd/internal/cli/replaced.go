package cli

import (
	"fmt"
	"strings"

	"gpubuild/cmd/internal/config"
)

// checkReplaced is the error for a subcommand or a flag that an earlier version had.
func checkReplaced(words []string) error {
	for i, w := range words {
		if w == "--" {
			break
		}
		name, _, _ := strings.Cut(w, "=")
		old := words[0] + " " + name
		if strings.HasPrefix(name, "--gpu-") {
			old = name
		}
		if now := config.Replacement(old); now != "" && (i == 1 || strings.HasPrefix(name, "-")) {
			return usage(fmt.Sprintf("`gpubuild %s` no longer exists", old), now)
		}
	}
	return nil
}

// replacedShells are forms of `env --shell` that earlier versions had, each with the one that says the same.
var replacedShells = map[string]string{"direnv": "bash", "dotenv": "json", "gitlab": "json", "nu": "json"}
