package cargo

import (
	"strings"
	"testing"
)

// TestEnvBlock: what is written and removed again leaves the file as it was, whatever else is in it.
func TestEnvBlock(t *testing.T) {
	t.Parallel()
	const table = "[env]\nCUDA_HOME = { value = \"/opt/cuda\", force = true }\n"
	for story, text := range map[string]string{
		"no file": "", "other tables": "[build]\njobs = 2\n", "its own [env], and more": "[env]\nX = \"1\"\n\n[build]\njobs = 2\n",
	} {
		once, err := WithEnvBlock(text, table)
		if err != nil {
			t.Fatal(err)
		}
		twice, err := WithEnvBlock(once, strings.Replace(table, "/opt/cuda", "/opt/other", 1))
		if err != nil || strings.Count(twice, "CUDA_HOME") != 1 || !strings.Contains(twice, "/opt/other") {
			t.Errorf("%s: written twice: %v\n%s", story, err, twice)
		}
		if rest, was := WithoutEnvBlock(twice); rest != text || !was {
			t.Errorf("%s: left behind %q", story, rest)
		}
	}
	if rest, was := WithoutEnvBlock("[build]\n"); was || rest != "[build]\n" {
		t.Errorf("taken out of a file without one: %q", rest)
	}
	if text, err := WithEnvBlock("[env]\nCUDA_HOME = \"/mine\"\n", table); err == nil {
		t.Errorf("a variable of the user's own was written twice:\n%s", text)
	}
}
