package verify

import "testing"

func TestWordsOfFallingBack(t *testing.T) {
	for _, s := range []string{
		"falling back to CPU", "Running on CPU, to run on GPU, build this example with `--features cuda`", "no usable GPU found, --gpu-layers option will be ignored",
		"No execution providers from session options registered successfully; may fall back to CPU.", "(CPU fallback)", "offloaded 0/33 layers to GPU",
		"whisper_backend_init_gpu: no GPU found",
	} {
		if FellBack([]byte("a\n"+s+"\nb")) == "" {
			t.Errorf("not understood: %s", s)
		}
	}
	for _, s := range []string{"offloaded 10/33 layers to GPU", "CPU: 16 cores", "device: cuda"} {
		if FellBack([]byte(s)) != "" {
			t.Errorf("no fall back: %s", s)
		}
	}
}
