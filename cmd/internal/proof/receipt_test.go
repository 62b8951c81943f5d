package proof

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gpubuild/buildenv/hosttest"
	"gpubuild/buildenv/local"
	"gpubuild/cmd/internal/console"
	"gpubuild/cmd/internal/receipt"
	"gpubuild/cmd/internal/session"
	"gpubuild/gpu/probe"
	"gpubuild/gpu/verify"
)

// TestReceiptOfWhatRan: a file that was replaced by the same content is the one that ran; one that holds something else has no receipt, and
// neither has a child's that changed during the run.
func TestReceiptOfWhatRan(t *testing.T) {
	t.Parallel()
	h := hosttest.Must(local.Host())(t)
	for story, tt := range map[string]struct {
		now, child string // what is put into the files while they run
		want       string
	}{
		"nothing changes":       {"", "", ""},
		"the same is put there": {"program", "", ""},
		"another program":       {"another", "", "app changed while it was proven"},
		"a child's file":        {"", "child", "child changed while it was proven"},
	} {
		dir := t.TempDir()
		app, child := filepath.Join(dir, "app"), filepath.Join(dir, "child")
		put := func(file, text string) error { // as a build does, in a new file
			return errors.Join(os.WriteFile(file+".new", []byte(text), 0o700), os.Rename(file+".new", file))
		}
		sealed, err := receipt.Sealed{}, errors.Join(put(app, "program"), put(child, "child"))
		if err == nil {
			sealed, err = receipt.Seal(app)
		}
		began := time.Now().Add(time.Minute) // all before is old
		if tt.child != "" {
			began = time.Unix(0, 0)
		}
		if tt.now != "" {
			err = errors.Join(err, put(app, tt.now))
		}
		if err != nil {
			t.Fatal(err)
		}
		m := &session.Machine{Host: h, CacheDir: filepath.Join(dir, "cache"), Shell: &console.Shell{Out: io.Discard, Err: io.Discard}}
		p := Proof{Evidence: verify.Evidence{Binary: app, Processes: []verify.Process{{Process: probe.Process{
			Identity: probe.Identity{Exe: child}, Kernels: []probe.Kernel{{Count: 1}},
		}}}}}
		r, err := Task{}.receipt(m, sealed, began, p, verify.Options{Binary: app, Rules: verify.Rules{Child: "child"}})
		switch {
		case tt.want == "" && (err != nil || r.Binary.SHA256 != sealed.SHA256 || len(r.UsedFiles) != 1):
			t.Errorf("%s: %+v, %v", story, r.UsedFiles, err)
		case tt.want != "" && (err == nil || !strings.HasSuffix(err.Error(), tt.want)):
			t.Errorf("%s: %v", story, err)
		}
	}
}
