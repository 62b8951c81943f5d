//go:build release && ((linux && (amd64 || arm64)) || (windows && amd64))

package probe

import "embed"

// released are the programs that .ci/release compiled for this machine; nothing of them is in the repository.
//
//go:embed released
var released embed.FS
