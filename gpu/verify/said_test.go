package verify

import (
	"strings"
	"testing"

	"gpubuild/buildenv/hosttest"
)

func TestLineAboutCPU(t *testing.T) {
	for output, want := range map[string]string{
		"one\nWARN falling back to CPU\nthree\n":                   "WARN falling back to CPU",
		"no usable GPU found, --gpu-layers option will be ignored": "no usable GPU found, --gpu-layers option will be ignored",
		"offloaded 0/33 layers to GPU\n":                           "offloaded 0/33 layers to GPU",
		"offloaded 33/33 layers to GPU\n":                          "",
		"device: cuda 0\n":                                         "",
		"     Running `app 'falling back to CPU'`\n":               "",
		"CUDA is not available\n":                                  "CUDA is not available",
		"CUDA is not available" + strings.Repeat("ä", 100):         "CUDA is not available" + strings.Repeat("ä", 69), // in whole letters
		"": "",
	} {
		hosttest.Equal(t, LineAboutCPU([]byte(output)), want, output)
	}
}
