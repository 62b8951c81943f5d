package doctor

import (
	"strings"
	"testing"
)

func TestLauncher(t *testing.T) {
	if c := checkLauncher(Facts{Launcher: "NVCC=ccache nvcc"}); len(c) != 1 || !strings.Contains(c[0].Says, "old kernels") {
		t.Errorf("ccache: %+v", c)
	}
	if c := checkLauncher(Facts{Launcher: "NVCC=/opt/nvcc"}); c != nil {
		t.Errorf("no cache: %+v", c)
	}
}
