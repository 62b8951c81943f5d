//go:build !release || !((linux && (amd64 || arm64)) || (windows && amd64))

package probe

import "embed"

// released is empty: a build from source compiles the programs on the machine where they are used.
var released embed.FS
