package hostcc

import (
	"strings"

	"gpubuild/buildenv/lazyregexp"
)

// FlagVariables lists the variables in which nvcc itself looks for options, the stronger first: what stands in NVCC_APPEND_FLAGS comes
// behind the command line, and the last -ccbin counts; NVCC_CCBIN counts only where there is none at all (seen with nvcc.exe 13.4.92).
func FlagVariables() []string { return []string{"NVCC_APPEND_FLAGS", "NVCC_PREPEND_FLAGS"} }

var ccbin = lazyregexp.New(`(?:^|\s)--?(?:ccbin|compiler-bindir)(?:=|\s+)("[^"]*"|'[^']*'|\S+)`)

// FromFlags returns the host compiler that nvcc's options name, as it is written there, and the options without it; compiler is empty
// where they name none.
func FromFlags(options string) (compiler, rest string) {
	for _, m := range ccbin.FindAllStringSubmatch(options, -1) {
		compiler = m[1]
	}
	return compiler, strings.TrimSpace(ccbin.ReplaceAllString(options, ""))
}
