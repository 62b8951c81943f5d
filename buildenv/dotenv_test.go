package buildenv_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gpubuild/buildenv"
	"gpubuild/buildenv/hosttest/need"
)

// dotenvReaders are programs that read a .env file and print what became of it as JSON.
var dotenvReaders = []struct {
	name, program string
	args          []string // %s: the file
	has           []string // says whether it is there
}{
	{"Node", "node", []string{"--env-file=%s", "-e", "process.stdout.write(JSON.stringify(process.env))"}, []string{"--env-file=/dev/null", "-e", ""}},
	{"python-dotenv", "dotenv", []string{"-c", "import sys,json,dotenv; print(json.dumps(dotenv.dotenv_values(sys.argv[1])))", "%s"}, []string{"-c", "from dotenv import dotenv_values"}},
}

// awkward values, those of Windows among them, which every form must say as they are or refuse.
var awkward = []string{
	`C:\Program Files\NVIDIA GPU Computing Toolkit\CUDA\v13.2\`, `C:\new\tools\x64;C:\Program Files (x86)\a`, `\\server\share\n`, `a\\b`, `a\`, `a\nb`, `\`,
	`it's`, `say "x"`, `'`, `"`, `'"`, `a'b\c`, "a`b", `'quoted'`, `"quoted"`,
	`$HOME`, `${HOME}`, `$(id)`, `a$`, `a$$b`, `'$HOME'`, `%PATH%`, `100%`, `a#b`, `a #b`, `#`, `!x`, `a!b'c`, `a=b`, ` a `, `	a`, ``, `~`, `~/x`, `a~`, `*`, `a;b&c|d<e>f`,
	"one\ntwo", "one\r\ntwo", "a\rb", "a\vb", "a\x01b", `Grüße 世界 😀`, "a\u00a0b", "\ufeffa", "a\u2028b", strings.Repeat(`C:\d;`, 9000),
}

// TestDotenvIsReadAlike gives what we write to real readers. One value that a reader takes for something else would be a wrong build.
func TestDotenvIsReadAlike(t *testing.T) {
	t.Run("linux", func(t *testing.T) { readAlike(t, buildenv.Host{OS: buildenv.Linux}, 1, 7, 8, 26) })
	t.Run("windows", func(t *testing.T) { readAlike(t, buildenv.Host{OS: buildenv.Windows}, 0, 1, 2, 3, 4, 7, 26) })
}

// readAlike tries all values; those at musts must be sayable, because a form that refuses everything would be read alike.
func readAlike(t *testing.T, h buildenv.Host, musts ...int) {
	values := append([]string{}, awkward...)
	random := rand.New(rand.NewSource(4))
	pieces := []string{`\`, `'`, `"`, "$", "{", "}", "`", "#", " ", "%", "!", "a", "n", "=", "ü", "/", ";", "\t", "~", "(", "HOME"}
	for range 600 {
		var b strings.Builder
		for range 1 + random.Intn(7) {
			b.WriteString(pieces[random.Intn(len(pieces))])
		}
		values = append(values, b.String())
	}
	want := map[string]string{}
	var text strings.Builder
	for i, v := range values {
		name := fmt.Sprintf("V%d", i)
		out, err := buildenv.Export("dotenv", h, base(h.OS), delta(change(buildenv.Set, name, v)))
		var cannot *buildenv.ExportError
		if errors.As(err, &cannot) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		want[name] = v
		text.WriteString(out)
	}
	for _, must := range musts {
		if _, ok := want[fmt.Sprintf("V%d", must)]; !ok {
			t.Errorf("%q is refused", values[must])
		}
	}
	file := filepath.Join(t.TempDir(), ".env")
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, r := range dotenvReaders {
		t.Run(r.name, func(t *testing.T) {
			path := need.Tool(t, r.program)
			if exec.Command(path, r.has...).Run() != nil {
				need.Missing(t, r.program, "%s here does not know .env files", path)
			}
			args := make([]string, len(r.args))
			for i, a := range r.args {
				args[i] = strings.ReplaceAll(a, "%s", file)
			}
			out, err := exec.Command(path, args...).Output()
			if err != nil {
				t.Fatal(err)
			}
			var got map[string]string
			if err := json.Unmarshal(out, &got); err != nil {
				t.Fatal(err)
			}
			wrong := 0
			for name, v := range want {
				if is, ok := got[name]; (!ok || is != v) && wrong < 10 {
					wrong++
					t.Errorf("%.80q is read as %.80q", v, is)
				}
			}
		})
	}
}
