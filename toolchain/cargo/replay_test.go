package cargo

import (
	"bytes"
	"testing"
)

func TestReplay(t *testing.T) {
	const (
		warning  = "warning: unused variable: `x`\n --> src/main.rs:1:17\n\nwarning: `w1` (bin \"w1\") generated 1 warning\n"
		finished = "    Finished `dev` profile [unoptimized + debuginfo] target(s) in 0.01s\n"
		coloured = "\x1b[1m\x1b[92m    Finished\x1b[0m `dev` profile target(s) in 0.01s\n\x1b[1m\x1b[92m     Running\x1b[0m `/g b/gpubuild __r /s.json target/debug/w1`\n"
	)
	tests := []struct {
		story, in string
		runner    []string
		want      string
		marks     int
		lines     bool
	}{
		{
			story:  "a run",
			in:     warning + finished + "     Running `/bin/gpubuild __r /s.json target/debug/w1 -x`\n" + ReplayMark + "the program's own\nwarning: mine",
			runner: []string{"/bin/gpubuild", "__r", "/s.json"},
			want:   "     Running `target/debug/w1 -x`\nthe program's own\nwarning: mine",
		},
		{
			story:  "a user's runner stays",
			in:     finished + "     Running `/bin/gpubuild __r /s.json qemu target/debug/w1`\n",
			runner: []string{"/bin/gpubuild", "__r", "/s.json"},
			want:   "     Running `qemu target/debug/w1`\n",
		},
		{
			story:  "colours, and a path that cargo quotes",
			in:     "\x1b[1mwarning\x1b[0m: a\n" + "\x1b[92m    Finished\x1b[0m `dev`\n\x1b[92m     Running\x1b[0m `'/g b/gpubuild' __r /s.json a`\n",
			runner: []string{"/g b/gpubuild", "__r", "/s.json"},
			want:   "\x1b[92m     Running\x1b[0m `a`\n",
		},
		{
			story:  "words that are not ours stay",
			in:     coloured,
			runner: []string{"/other"},
			want:   "\x1b[1m\x1b[92m     Running\x1b[0m `/g b/gpubuild __r /s.json target/debug/w1`\n",
		},
		{
			story: "tests",
			in:    warning + finished + "     Running unittests src/main.rs (target/debug/deps/w1)\n" + "error: test failed, to rerun pass `--bin w1`\n",
			want:  "     Running unittests src/main.rs (target/debug/deps/w1)\nerror: test failed, to rerun pass `--bin w1`\n",
		},
		{story: "quiet: the mark alone ends it", in: warning + ReplayMark + "abc", want: "abc", marks: 1},
		{
			story: "quiet, and no runner was started: doc tests, of which nobody knows that they are no replay",
			in:    warning + "running 1 test\n",
			want:  warning + "running 1 test\n",
		},
		{
			story: "cargo builds after all",
			in:    warning + "   Compiling w1 v0.1.0\n" + warning + finished,
			want:  warning + "   Compiling w1 v0.1.0\n" + warning + finished,
		},
		{
			story: "cargo waits for another",
			in:    "    Blocking waiting for file lock on build directory\n" + warning + finished + "     Running a\n",
			want:  "    Blocking waiting for file lock on build directory\n     Running a\n",
		},
		{
			story: "cargo waits for another, which leaves something to build",
			in:    warning + "    Blocking waiting for file lock on package cache\n   Compiling w1 v0.1.0\n",
			want:  "    Blocking waiting for file lock on package cache\n" + warning + "   Compiling w1 v0.1.0\n",
		},
		{
			story: "cargo refuses",
			in:    warning + "error: no bin target named `x`\n\nhelp: y\n",
			want:  warning + "error: no bin target named `x`\n\nhelp: y\n",
		},
		{story: "cargo dies of a warning", in: warning, want: warning},
		{story: "a line without an end", in: finished + "     Running", want: "     Running"},
		{story: "a mark behind the start of a line", in: warning + "\x1b[K" + ReplayMark + "x", want: "\x1b[Kx", marks: 1},
		{
			story: "several programs, which write elsewhere",
			lines: true,
			in:    warning + finished + "     Running a\n" + ReplayMark + "     Running b\n" + ReplayMark + "error: test failed\n",
			want:  "     Running a\n     Running b\nerror: test failed\n",
			marks: 2,
		},
		{
			story: "cargo builds after all, and the mark comes",
			in:    "   Compiling w1 v0.1.0\n" + finished + ReplayMark + "x",
			want:  "   Compiling w1 v0.1.0\n" + finished + "x",
			marks: 1,
		},
		{story: "a mark after the first is the program's matter", in: ReplayMark + "x\n" + ReplayMark, want: "x\n" + ReplayMark, marks: 1},
	}
	for _, tt := range tests {
		for _, size := range []int{1, 3, 1 << 20} {
			var out bytes.Buffer
			marks := 0
			r := &Replay{To: &out, Runner: tt.runner, Lines: tt.lines, Mark: func() { marks++ }}
			for rest := []byte(tt.in); len(rest) > 0; {
				n := min(size, len(rest))
				if m, err := r.Write(rest[:n]); m != n || err != nil {
					t.Fatal(m, err)
				}
				rest = rest[n:]
			}
			if err := r.Close(); err != nil {
				t.Fatal(err)
			}
			if out.String() != tt.want {
				t.Errorf("%s, in pieces of %d: got\n%q\nwant\n%q", tt.story, size, out.String(), tt.want)
			}
			if tt.marks > 0 && marks != tt.marks {
				t.Errorf("%s: %d marks, want %d", tt.story, marks, tt.marks)
			}
		}
	}
	var out bytes.Buffer
	r := &Replay{To: &out}
	big := bytes.Repeat([]byte("warning: x\n"), maxReplay/11+1)
	_, _ = r.Write(big)
	if out.Len() != len(big) {
		t.Errorf("%d of %d bytes passed", out.Len(), len(big))
	}
}
