package cuda_test

import (
	"testing"

	"gpubuild/buildenv/hosttest"
	"gpubuild/toolchain/cuda"
)

// TestNVCCBehindAScript: a site's own shell script on PATH leads to the toolkit whose nvcc it starts.
func TestNVCCBehindAScript(t *testing.T) {
	h, err := hosttest.Parse([]byte("os: linux\narch: amd64\nhome: /home/u\ncwd: /home/u\n-- @env --\nPATH=/site/bin\n" +
		"-- /site/bin/nvcc +x --\n#!/bin/sh\nexec \"/apps/cuda/bin/nvcc\" \"$@\"\n-- /apps/cuda/bin/nvcc +x --\n-- /apps/cuda/include/cuda.h --\n" +
		"#define CUDA_VERSION 13000\n"))
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range cuda.Find(h, nil) {
		if k.Root == "/apps/cuda" {
			return
		}
	}
	t.Errorf("not found: %+v", cuda.Find(h, nil))
}
