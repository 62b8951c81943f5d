package saved_test

import (
	"strings"
	"testing"

	"gpubuild/buildenv"
	"gpubuild/buildenv/hosttest"
	"gpubuild/buildenv/saved"
)

const machine = `os: linux
home: /home/grace.hopper
cwd: /home/grace.hopper/engine
-- @env --
PATH=/home/grace.hopper/cuda/bin:/usr/bin
TOKEN=hunter2
-- @links --
/opt/cuda -> /home/grace.hopper/cuda
-- @empty --
/home/grace.hopper/cuda/bin/nvcc +x
-- /home/grace.hopper/cuda/version.json +chomp --
{"cuda":{"version":"13.4"}}
-- /home/grace.hopper/cuda/version.txt +crlf --
one
two
-- /home/grace.hopper/cuda/version +hex --
00 ff 2d 2d
-- /home/grace.hopper/engine/notes --
the plan
-- /home/grace.hopper/cuda/refused +unreadable --
x
`

// TestEncode holds that what was asked comes back as it was, what was private does not, and that the user's name is nowhere.
func TestEncode(t *testing.T) {
	h, err := hosttest.Parse([]byte(machine))
	if err != nil {
		t.Fatal(err)
	}
	rec := saved.NewRecorder(h, func(p string) bool { return h.Below(p, h.Cwd) })
	look := func(h buildenv.Host, root string) string {
		var b strings.Builder
		for _, p := range []string{root + "/bin/nvcc", root + "/version.json", root + "/version.txt", root + "/version", root + "/refused", "/opt/cuda/version.json", "/nowhere"} {
			data, err := h.ReadFile(p, 1<<20)
			b.WriteString(string(data))
			if err != nil {
				b.WriteString(" (no)")
			}
			b.WriteString("\n")
		}
		return b.String()
	}
	want := look(rec.Host(), h.Home+"/cuda")
	if _, err := rec.Host().ReadFile(h.Cwd+"/notes", 100); err != nil {
		t.Fatal(err)
	}
	rec.Ran(buildenv.Cmd{Path: "/usr/bin/nvidia-smi", Args: []string{"-L"}}, buildenv.Result{Code: 9, Stdout: []byte("GPU 0: X (UUID: GPU-12345678-9abc-def0-1234-56789abcdef0)")})
	data := rec.Encode("first line\nsecond line")
	for _, never := range []string{"grace", "hopper", "hunter2", "TOKEN", "the plan", "notes", "engine", "12345678-9abc"} {
		if strings.Contains(string(data), never) {
			t.Errorf("%q was kept:\n%s", never, data)
		}
	}
	copied, err := hosttest.Parse(data)
	if err != nil {
		t.Fatalf("%v\n%s", err, data)
	}
	if got := look(copied, "/home/u/cuda"); got != want {
		t.Errorf("got %q, want %q from\n%s", got, want, data)
	}
	if got := copied.Env.Get("PATH"); got != "/home/u/cuda/bin" { // nothing was found in the other
		t.Errorf("PATH is %s", got)
	}
	steps, err := hosttest.Commands(data)
	if err != nil || len(steps) != 1 || steps[0].Result.Code != 9 || !strings.Contains(string(steps[0].Result.Stdout), "GPU-00000000-0000-0000-0000-000000000001") {
		t.Errorf("commands: %v, %v", steps, err)
	}
}

// secretive is a machine whose owner keeps a secret in every place where people do: each is called CANARY.
const secretive = `os: linux
home: /home/al
cwd: /home/al/engine
-- @env --
HOME=/home/al
PATH=/home/al/bin:/srv/CANARY/bin:/usr/bin
LD_LIBRARY_PATH=/srv/CANARY/lib:/opt/cuda
AWS_SECRET_ACCESS_KEY=CANARY/in+a+variable
CARGO_REGISTRIES_OURS_TOKEN=CANARY-of-a-registry
CUDA_API_KEY=CANARY
CUDA_HOME=https://al:CANARY@example.com/cuda?sig=CANARY
CUDA_PATH_V12_6=/opt/cuda
CUDA_PATH_VAULT=CANARY
VSS_NUGET_EXTERNAL_FEED_ENDPOINTS={"password":"CANARY"}
VCPKG_BINARY_SOURCES=x-azblob,https://example.com/c?sas=CANARY
VCAP_SERVICES=CANARY
VSCE_PAT=CANARY
VSPHERE_PASSWORD=CANARY
ROCM_TOKEN=CANARY
NVCC_PREPEND_FLAGS=-DKEY=CANARY -ccbin /usr/bin/g++-11 -allow-unsupported-compiler
NVCC_APPEND_FLAGS=-DKEY=CANARY
RUSTFLAGS=--cfg key="CANARY" -L/opt/CANARY
CC=ccache gcc-12 -DKEY=CANARY
CXX=g++ -DKEY=CANARY
PIP_INDEX_URL=https://al:CANARY@example.com/simple
HTTPS_PROXY=http://al:CANARY@proxy:3128
-- @empty --
/home/al/bin/CANARY-tool +x
/home/al/bin/gcc +x
/usr/bin/g++-11 +x
-- /home/al/.cargo/config.toml --
token = "CANARY"
-- /srv/src/.cargo/config.toml --
token = "CANARY"
-- /srv/src/Cargo.toml --
x = { git = "https://al:CANARY@example.com/x.git" }
-- /srv/src/notes.txt --
CANARY
-- /home/al/.netrc --
password CANARY
-- /opt/cuda/version.json --
{"cuda":{"version":"12.6"}}
`

// TestNoSecretIsSaved looks at everything on such a machine and holds that no secret and no name is in what is written, and that what the detectors read is.
func TestNoSecretIsSaved(t *testing.T) {
	h, err := hosttest.Parse([]byte(secretive))
	if err != nil {
		t.Fatal(err)
	}
	rec := saved.NewRecorder(h, func(p string) bool { return h.Below(p, h.Cwd) })
	seen := rec.Host()
	for _, p := range []string{"/home/al/.cargo/config.toml", "/srv/src/.cargo/config.toml", "/srv/src/Cargo.toml", "/srv/src/notes.txt", "/home/al/.netrc", "/opt/cuda/version.json"} {
		if _, err := seen.ReadFile(p, 1<<20); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{"/home/al/bin", "/usr/bin"} {
		if _, err := seen.Files.ReadDir(dir); err != nil {
			t.Fatal(err)
		}
	}
	rec.Ran(buildenv.Cmd{Path: "/home/al/bin/gcc", Args: []string{"--version"}}, buildenv.Result{Stdout: []byte("gcc (Debian 12.2.0-14) 12.2.0\nwrapped for CANARY\n")})
	data := string(rec.Encode("project: unable to update https://al:CANARY@git.example.com/x.git, and token CANARY-of-a-registry is refused; al/CANARY/in+a+variable\n" +
		"in /mnt/c/Users/Grace Hopper/bin, /home/hopper/bin, /home/u2/bin, /home/hopper/sbin"))
	for _, never := range []string{"CANARY", "/home/al/", "hopper", "Hopper", "Grace", ".cargo", "Cargo.toml", ".netrc"} {
		if strings.Contains(data, never) {
			t.Errorf("%q was kept:\n%s", never, data)
		}
	}
	for _, want := range []string{
		"HOME=/home/u\n", "PATH=/home/u/bin:/usr/bin\n", "# left out: parts of PATH\n", "LD_LIBRARY_PATH=/opt/cuda\n", "in /mnt/c/Users/u3/bin, /home/u4/bin, /home/u2/bin, /home/u4/sbin\n", "CUDA_PATH_V12_6=/opt/cuda\n", "NVCC_PREPEND_FLAGS=-ccbin /usr/bin/g++-11 -allow-unsupported-compiler\n", "CC=ccache gcc-12\n", "CXX=g++\n", "RUSTFLAGS=-L\n",
		"https://…@git.example.com/x.git", "/home/u/bin/gcc +x", `{"cuda":{"version":"12.6"}}`, "$ /home/u/bin/gcc --version --\ngcc (Debian 12.2.0-14) 12.2.0\n", "# left out: parts of CC\n",
	} {
		if !strings.Contains(data, want) {
			t.Errorf("%q is not kept:\n%s", want, data)
		}
	}
	if _, err := hosttest.Parse([]byte(data)); err != nil {
		t.Error(err)
	}
}
