package explain

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"gpubuild/buildenv/hosttest/need"
)

// TestStatusesOfTheToolkit: the table knows every status of the installed headers, with its number.
func TestStatusesOfTheToolkit(t *testing.T) {
	for _, root := range need.Toolkits(t, 1) {
		for header, name := range map[string]string{"cuda.h": `CUDA_ERROR_\w+`, "driver_types.h": `cudaError[A-Z]\w+`} {
			text, err := os.ReadFile(filepath.Join(root, "include", header))
			if err != nil {
				t.Fatal(err)
			}
			found := regexp.MustCompile(`(?m)^\s*(`+name+`)\s*=\s*(\d+)`).FindAllSubmatch(text, -1)
			if len(found) < 100 {
				t.Errorf("%s: only %d were found", header, len(found))
			}
			for _, m := range found {
				code, err := strconv.Atoi(string(m[2]))
				if err != nil {
					t.Fatal(err)
				}
				if s := LookupStatus(string(m[1])); s == nil || s.Code != code {
					t.Errorf("%s %s = %d: got %+v", header, m[1], code, s)
				}
			}
		}
	}
	if s := LookupStatus("700"); s == nil || s.Name != "CUDA_ERROR_ILLEGAL_ADDRESS" || s.Meaning == "" {
		t.Errorf("700: %+v", s)
	}
}
