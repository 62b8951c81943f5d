package doctor

import "testing"

func TestLauncher(t *testing.T) {
	for version, warns := range map[string]bool{
		"ccache version 4.7.5": true, "ccache version 4.13.6": true, "ccache version 4.14": false, "sccache 0.16.0": true,
		"sccache 0.17.0": false, "": false,
	} {
		c := checkLauncher(Facts{Launcher: Launcher{"NVCC=ccache nvcc", version}})
		if len(c) > 0 != warns || warns && (c[0].State != Warning || c[0].Breaks == "") {
			t.Errorf("%q: %+v", version, c)
		}
	}
}
