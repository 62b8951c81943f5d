package cargo

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"gpubuild/buildenv"
	"gpubuild/buildenv/hosttest"
)

// sample is shortened from cargo 1.95's output of `cargo run --message-format=json`, with a program's own lines between.
const sample = `{"reason":"compiler-artifact","package_id":"path+file:///w/core#candle-core@0.9.0","manifest_path":"/w/core/Cargo.toml","target":{"kind":["lib"],"crate_types":["lib"],"name":"candle_core","src_path":"/w/core/src/lib.rs","edition":"2021","doc":true,"doctest":true,"test":true},"profile":{"opt_level":"3","debuginfo":0,"debug_assertions":false,"overflow_checks":false,"test":false},"features":["cuda","default"],"filenames":["/w/target/release/libcandle_core.rlib"],"executable":null,"fresh":true}
{"reason":"build-script-executed","package_id":"path+file:///w/k#0.9.0","linked_libs":["static=x","cudart"],"linked_paths":["native=/opt/cuda/lib64"],"cfgs":["feature=\"cuda-13040\""],"env":[["CUDA_MAJOR_VERSION","13"]],"out_dir":"/w/target/release/build/k-1/out"}
{"reason":"compiler-message","package_id":"x","message":{"rendered":"warning"}}
{"reason":"compiler-artifact","package_id":"path+file:///w/app#0.1.0","manifest_path":"/w/app/Cargo.toml","target":{"kind":["bin"],"crate_types":["bin"],"name":"app","src_path":"/w/app/src/main.rs"},"profile":{"opt_level":"3","debug_assertions":false,"overflow_checks":false,"test":false},"features":[],"filenames":["/w/target/release/app"],"executable":"/w/target/release/app","fresh":false}
{"reason":"build-finished","success":true}
hello from the program
{"reason":"build-started-over","mine":true}
{"size": 4096, "reason": 3}
{broken
 {"reason":"build-finished","success":false}

no end of line`

func TestMessagesAreToldFromOtherOutput(t *testing.T) {
	for _, chunk := range []string{"whole", "bytes", "halves"} {
		var got []string
		var other strings.Builder
		var r io.Reader = strings.NewReader(sample)
		switch chunk {
		case "bytes":
			r = iotest.OneByteReader(r)
		case "halves":
			r = iotest.HalfReader(r)
		}
		err := readMessages(r, func(m Message) {
			switch m.Reason {
			case Artifact:
				got = append(got, fmt.Sprintln(m.PackageID, m.Target, m.Profile, m.Features, m.Executable, m.Fresh))
			case ScriptExecuted:
				got = append(got, fmt.Sprintln(m.LinkedLibs, m.LinkedPaths, m.OutDir))
			default:
				got = append(got, m.Reason)
			}
		}, func(line []byte) { other.Write(line) })
		want := []string{
			"path+file:///w/core#candle-core@0.9.0 {[lib] candle_core /w/core/src/lib.rs} {false} [cuda default]  true\n",
			`[static=x cudart] [native=/opt/cuda/lib64] /w/target/release/build/k-1/out` + "\n",
			"compiler-message",
			"path+file:///w/app#0.1.0 {[bin] app /w/app/src/main.rs} {false} [] /w/target/release/app false\n",
			"build-finished",
		}
		if err != nil || strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("%s: %v\n%s", chunk, err, strings.Join(got, "\n"))
		}
		hosttest.Equal(t, other.String(), sample[strings.Index(sample, "hello"):], chunk, "other output")
	}
}

func TestEndlessLineIsBounded(t *testing.T) {
	var n, longest int
	w := &buildenv.Lines{Each: func(line []byte) { n, longest = n+len(line), max(longest, len(line)) }}
	piece := bytes.Repeat([]byte("{"), 1<<20)
	for range 40 {
		hosttest.Must(w.Write(piece))(t)
	}
	if w.End(); n != 40<<20 || longest > buildenv.LongestLine+len(piece) {
		t.Errorf("%d bytes passed on, at most %d at once", n, longest)
	}
}

func FuzzReadMessages(f *testing.F) {
	for _, line := range strings.Split(sample, "\n") { // Go's fuzzer takes minutes to make a long one shorter
		f.Add([]byte(line+"\nx\n"), 7)
	}
	f.Add([]byte(`{"reason":"compiler-artifact","target":3}`), 1)
	f.Add([]byte("{\"reason\":\"build-script-executed\",\"env\":[[\"a\"],[\"b\",\"c\",\"d\"],null]}\r\n\n{"), 2)
	f.Fuzz(func(t *testing.T, data []byte, cut int) {
		read := func(r io.Reader) (string, string) {
			var each, other strings.Builder
			hosttest.OK(t, readMessages(r, func(m Message) { each.Write(m.Raw); each.WriteByte('\n') }, func(b []byte) { other.Write(b) }))
			return each.String(), other.String()
		}
		a, b := read(bytes.NewReader(data))
		cut = max(0, min(len(data), cut))
		c, d := read(io.MultiReader(bytes.NewReader(data[:cut]), bytes.NewReader(data[cut:])))
		if a != c || b != d {
			t.Fatal("how the stream is cut changes what is read")
		}
		if len(a)+len(b) > len(data)+1 {
			t.Fatal("more came out than went in")
		}
	})
}

// readMessages passes a whole stream through Lines and ParseMessage, as cargorun does.
func readMessages(r io.Reader, each func(Message), other func(line []byte)) error {
	w := &buildenv.Lines{Each: func(line []byte) {
		if m, is := ParseMessage(line); is {
			each(m)
		} else if other != nil {
			other(line)
		}
	}}
	_, err := io.Copy(w, r)
	w.End()
	return err
}
