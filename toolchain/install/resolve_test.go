package install

import (
	"context"
	"strings"
	"testing"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
	"gpubuild/gpu"
)

// index is a pip whose index has two releases, and a catalog that pins neither.
type index struct{ asked []string }

func (i *index) Run(_ context.Context, c buildenv.Cmd) (buildenv.Result, error) {
	line := strings.Join(c.Args, " ")
	switch {
	case strings.Contains(line, "index versions"):
		return buildenv.Result{Stdout: []byte("cuda-toolkit (13.6.1)\nAvailable versions: 13.6.1, 13.5.0, 12.9.1\n")}, nil
	case strings.Contains(line, "--dry-run"):
		i.asked = append(i.asked, c.Args[len(c.Args)-1])
		return buildenv.Result{Stdout: []byte(`{"install": [{"metadata": {"name": "nvidia-cuda-nvcc", "version": "13.6.4"},
			"download_info": {"url": "https://files.invalid/a/nvcc-13.6.4-py3-none-win_arm64.whl",
			"archive_info": {"hashes": {"sha256": "abc"}}}}]}`)}, nil
	}
	return buildenv.Result{Stdout: []byte("pip 23.2.1 from /lib/pip (python 3.11)\n")}, nil
}

// TestReleaseThatIsNotPinned: a release, or a platform, that the pins do not have comes from what the user's pip says.
func TestReleaseThatIsNotPinned(t *testing.T) {
	h := testHost(t)
	pip := &index{}
	for _, tt := range []struct {
		want    Want
		release string
		err     string
	}{
		{Want{Parts: []string{"nvcc"}}, "13.6.1", ""},
		{Want{Parts: []string{"nvcc"}, MaxVersion: gpu.Version{Major: 13, Minor: 5}}, "13.5.0", ""},
		{Want{Parts: []string{"nvcc"}, Exact: gpu.Version{Major: 13, Minor: 5}, Release: "13.5.0"}, "13.5.0", ""},
		{Want{Parts: []string{"nvcc"}, Exact: gpu.Version{Major: 13, Minor: 5}, Release: "13.5.7"}, "",
			"there is no CUDA 13.5.7; the newest is 13.6"},
		{Want{Parts: []string{"nvcc"}, Exact: gpu.Version{Major: 99}}, "", "there is no CUDA 99.0; the newest is 13.6"},
	} {
		c := &Catalog{Parts: []Part{{Name: "nvcc", Package: "nvidia-cuda-nvcc", Licence: "cuda"}}}
		err := c.Resolve(context.Background(), h, pip, tt.want)
		if tt.err != "" {
			if exit.Of(err) != exit.Usage || err.Error() != tt.err {
				t.Errorf("%v: %v", tt.want, err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		plan, err := MakePlan(c, h, t.TempDir(), tt.want)
		if err != nil || plan.Release != tt.release || len(plan.Items) != 1 || plan.Items[0].SHA256 != "abc" {
			t.Errorf("%v: %+v, %v", tt.want, plan, err)
		}
		if asked := pip.asked[len(pip.asked)-1]; asked != "cuda-toolkit[nvcc]=="+tt.release {
			t.Errorf("pip was asked for %s", asked)
		}
	}
}
