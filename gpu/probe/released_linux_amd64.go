//go:build release

package probe

import "embed"

// released are the programs that .ci/release compiled for this machine; nothing of them is in the repository.
//
//go:embed released/linux-amd64
var released embed.FS

const releasedDir = "released/linux-amd64"
