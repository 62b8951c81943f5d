package app

import (
	"fmt"
	"strings"
)

// Exit codes. Cargo's or the program's own non-zero code stands where they failed; 20 to 22 replace only a 0.
const (
	codeDone        = 0
	codeOther       = 1
	codeUsage       = 2
	codeUnreached   = 10
	codeMissing     = 11
	codeMisfit      = 12
	codeStale       = 13
	codeNotUsed     = 20
	codeUnproved    = 21
	codeOtherKernel = 22
	codeConfig      = 30
	codeFault       = 70
	codeInterrupted = 130
)

// exitCodes is the one table behind `gpubuild help exit-codes`, the README and their test.
var exitCodes = []struct {
	Code    int
	Meaning string
}{
	{codeDone, "done"},
	{codeOther, "something else went wrong; the message says what"},
	{codeUsage, "the command line is wrong, or a file that it names cannot be used"},
	{codeUnreached, "a feature does not reach a GPU crate that ends up in the binary"},
	{codeMissing, "a component is missing: toolkit, host compiler, cuDNN, cargo"},
	{codeMisfit, "components do not fit together"},
	{codeStale, "stale: cleaning was not allowed, or did not help; `gpubuild stale` found something"},
	{codeNotUsed, "the program ran on the CPU"},
	{codeUnproved, "not proven, or no device here"},
	{codeOtherKernel, "the GPU was used, but by no kernel that was looked for"},
	{codeConfig, "a manifest, gpubuild.toml or a metadata table is missing or wrong"},
	{codeFault, "a fault of gpubuild itself"},
	{codeInterrupted, "interrupted"},
}

// exitCodeTable words the table for help and README.
func exitCodeTable() string {
	var b strings.Builder
	for _, e := range exitCodes {
		fmt.Fprintf(&b, "%5d  %s\n", e.Code, e.Meaning)
	}
	b.WriteString("other  cargo's or the program's own code, when they failed\n")
	return b.String()
}
