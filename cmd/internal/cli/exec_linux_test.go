package cli_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/hosttest/need"
)

// smallToolkit has what gpubuild looks at of CUDA 13.0, and programs that only say their version.
func smallToolkit(t *testing.T) string {
	root := t.TempDir()
	files := map[string]string{"version.json": `{"cuda":{"name":"CUDA SDK","version":"13.0.88"}}`, "include/cuda.h": "#define CUDA_VERSION 13000\n",
		"include/cuda_runtime_api.h": "#define CUDART_VERSION 13000\n", "include/cuda_runtime.h": "", "nvvm/libdevice/libdevice.10.bc": "",
		"include/crt/host_config.h": "#if __GNUC__ > 99\n#error -- unsupported GNU version! gcc versions later than 99 are not supported!\n#endif\n",
		"lib64/libcudart.so":        "", "lib64/libcudart_static.a": "", "lib64/stubs/libcuda.so": ""}
	programs := []string{"bin/nvcc", "bin/ptxas", "bin/fatbinary", "bin/nvlink", "bin/cudafe++", "nvvm/bin/cicc"}
	for _, name := range programs {
		files[name] = "#!/bin/sh\necho 'Cuda compilation tools, release 13.0, V13.0.88'\n"
	}
	writeFiles(t, root, files)
	for _, name := range programs {
		if err := os.Chmod(filepath.Join(root, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// TestExecEndsWithItsCommand: a signal that ends gpubuild ends the command that exec started, and what that started.
func TestExecEndsWithItsCommand(t *testing.T) {
	t.Parallel()
	need.Asked(t, "cargo")
	toolkit := smallToolkit(t)
	for name, signal := range map[string]syscall.Signal{"SIGINT": syscall.SIGINT, "SIGTERM": syscall.SIGTERM, "SIGHUP": syscall.SIGHUP} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			mark := "GPUBUILD_TEST_MARK=" + dir
			var out lines
			c := exec.Command(binary(t), "exec", "--", "sh", "-c", "sleep 1000 & echo started; wait; sleep 1000")
			c.Dir, c.Stdout, c.Stderr = dir, &out, &out
			c.Env = append(os.Environ(), mark, "CUDA_HOME="+toolkit, "GPUBUILD_CACHE="+filepath.Join(dir, "cache"))
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			out.await(t, "started\n")
			if err := c.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
			defer time.AfterFunc(time.Minute, func() { _ = c.Process.Kill() }).Stop()
			err := c.Wait()
			if ended, is := errors.AsType[*exec.ExitError](err); !is || ended.ExitCode() != exit.Interrupted {
				t.Errorf("ended with %v, want exit status 130\n%s", err, &out)
			}
			if l := left(t, mark); len(l) > 0 {
				t.Errorf("left behind: %q", l)
			}
		})
	}
}
