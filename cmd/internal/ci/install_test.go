package ci

import (
	"crypto/sha256"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gpubuild/buildenv/hosttest"
	"gpubuild/buildenv/hosttest/need"
	"gpubuild/cmd/internal/config"
)

// TestInstall: the shell text of an archive in the repository puts its program where cargo's are, and stops where the archive is another
// one; what is no archive stays as it is.
func TestInstall(t *testing.T) {
	t.Parallel()
	s := project(t, map[string]string{"a": ""})
	root, home, sh := t.TempDir(), t.TempDir(), need.Tool(t, "sh")
	s.Project.Root = root
	run := func(text string) (string, error) {
		c := exec.Command(sh, "-ec", text)
		c.Dir, c.Env = root, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "TMPDIR=" + home}
		out, err := c.CombinedOutput()
		return string(out), err
	}
	hosttest.OK(t, os.MkdirAll(filepath.Join(root, "gpubuild-x"), 0o755))
	hosttest.OK(t, os.WriteFile(filepath.Join(root, "gpubuild-x", "gpubuild"), []byte("#!/bin/sh\necho installed\n"), 0o755))
	if out, err := run("tar -czf gpubuild.tgz gpubuild-x"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	text, err := Install(t.Context(), s, "github", "gpubuild.tgz", "")
	hosttest.OK(t, err)
	if out, err := run(text + "\n\"$HOME/.cargo/bin/gpubuild\""); err != nil || !strings.HasSuffix(out, "installed\n") {
		t.Errorf("%v: %s\n%s", err, out, text)
	}
	hosttest.OK(t, os.WriteFile(filepath.Join(root, "gpubuild.tgz"), []byte("another"), 0o600))
	if out, err := run(text); err == nil {
		t.Errorf("another archive is taken: %s", out)
	}
	hosttest.OK(t, os.Mkdir(filepath.Join(root, "to ols"), 0o755))
	hosttest.OK(t, os.WriteFile(filepath.Join(root, "to ols", "it's $HOME.tgz"), tarOf(t, "#!/bin/sh\necho quoted\n"), 0o600))
	text, err = Install(t.Context(), s, "github", "to ols/it's $HOME.tgz", "")
	hosttest.OK(t, err)
	if out, err := run(text + "\n\"$HOME/.cargo/bin/gpubuild\""); err != nil || !strings.HasSuffix(out, "quoted\n") {
		t.Errorf("%v: %s\n%s", err, out, text)
	}
	archive := tarOf(t, "#!/bin/sh")
	elf := func(machine byte) string {
		return "\x7fELF\x02\x01\x01" + strings.Repeat("\x00", 9) + "\x02\x00" + string([]byte{machine}) + "\x00"
	}
	damaged := zipOf(t, "gpubuild", "text")
	damaged[30+len("gpubuild")] ^= 0xff // the first byte of its data
	for name, data := range map[string][]byte{
		"gpubuild.tgz": archive, "empty.whl": nil, "bytes.zip": []byte("another"), "empty.tgz": nil, "cut.tar.gz": archive[:len(archive)/2],
		"windows.whl": zipOf(t, "gpubuild-9.data/scripts/gpubuild.exe", "MZ"), "damaged.whl": damaged,
		"x.deb": nil, "x.rpm": nil, "Cargo.toml": nil, "x86.whl": zipOf(t, "gpubuild", elf(62)), "arm.tgz": tarOf(t, elf(183)),
		"mac.whl": zipOf(t, "gpubuild", "\xcf\xfa\xed\xfe"+elf(0)), "short.whl": zipOf(t, "gpubuild", "\x7fELF"),
	} {
		hosttest.OK(t, os.WriteFile(filepath.Join(root, name), data, 0o600))
	}
	sum := strings.Repeat("0a", 32)
	s.Config.CI.Value = &config.CI{Install: "own way"}
	x86 := sha256.Sum256(zipOf(t, "gpubuild", elf(62)))
	for _, tt := range []struct{ value, sum, want string }{
		{"x.deb", "", "x.deb is neither an archive nor a wheel"},
		{"x.rpm", "", "x.rpm is neither an archive nor a wheel"},
		{"none.deb", "", "none.deb is neither an archive nor a wheel"},
		{"to ols", "", "to ols is neither an archive nor a wheel"},
		{"Cargo.toml", sum, "Cargo.toml is neither an archive nor a wheel"},
		{filepath.Join(root, "Cargo.toml"), "", "Cargo.toml is neither an archive nor a wheel"},
		{"sh Cargo.toml", "", "sh Cargo.toml"},
		{"x86.whl", strings.ToUpper(fmt.Sprintf("%x", x86)), `python3 -m zipfile -e "$d/gpubuild.whl"`},
		{"short.whl", "", `python3 -m zipfile`},
		{"arm.tgz", "", "arm.tgz cannot be installed: its gpubuild is for Linux aarch64, and the runner is Linux x86_64"},
		{"mac.whl", "", "mac.whl cannot be installed: its gpubuild is for macOS, and the runner is Linux x86_64"},
		{"http://h.invalid/gpubuild.whl", sum, "gpubuild is fetched by https only"},
		{"HTTPS://h.invalid/gpubuild.whl", sum, "3 https://h.invalid/gpubuild.whl -o"},
		{"https://h.invalid/a.whl?token=x&y", sum, "'https://h.invalid/a.whl?token=x&y' -o \"$d/gpubuild.whl\""},
		{"https://h.invalid/it's.tgz", sum, `'https://h.invalid/it'\''s.tgz' -o`},
		{"https://h.invalid/a b.whl", sum, "is no address"},
		{"https://h.invalid/download/42", "", "https://h.invalid/download/42 is neither an archive nor a wheel"},
		{"https://h.invalid/a.deb", "", "https://h.invalid/a.deb is neither an archive nor a wheel"},
		{"", "", "own way"},
		{"get it", "", "get it"},
		{"get it", sum, "--install names none"},
		{"none.whl", "", "none.whl is no file below"},
		{"../gpubuild.tgz", "", "is no file below"},
		{"gpubuild.tgz", sum, "not that of --sha256"},
		{"empty.whl", "", "empty.whl cannot be installed: zip: not a valid zip file"},
		{"bytes.zip", "", "bytes.zip cannot be installed: zip: not a valid zip file"},
		{"empty.tgz", "", "empty.tgz cannot be installed: it has no program gpubuild"},
		{"cut.tar.gz", "", "cut.tar.gz cannot be installed: unexpected EOF"},
		{"windows.whl", "", "windows.whl cannot be installed: it has no program gpubuild"},
		{"damaged.whl", "", "damaged.whl cannot be installed: flate: corrupt"},
		{"https://h.invalid/v1/gpubuild.whl", sum, "echo \"" + sum + "  $d/gpubuild.whl\" | sha256sum -c -"},
		{"https://h.invalid/v1/gpubuild.whl", "x", "is no SHA-256"},
		{"https://127.0.0.1:1/v1/gpubuild.tgz", "", "the SHA-256 of https://127.0.0.1:1/v1/gpubuild.tgz is not known"},
	} {
		text, err := Install(t.Context(), s, "github", tt.value, tt.sum)
		if err != nil {
			text = err.Error()
		}
		if !strings.Contains(text, tt.want) {
			t.Errorf("%q %q: no %q in %s", tt.value, tt.sum, tt.want, text)
		}
	}
	if text, err := Install(t.Context(), s, "gitlab", "arm.tgz", ""); err != nil { // the runner may be one of these
		t.Errorf("%s: %v", text, err)
	}
}

// TestInstallFromARelease: the SHA-256 of an archive or wheel is read from SHA256SUMS next to it, and the shell text installs what is served, by
// curl, tar and Python's zipfile; it stops where something else is served.
func TestInstallFromARelease(t *testing.T) {
	for _, what := range []string{"linux", "python"} { // SSL_CERT_FILE is Linux's
		need.Tool(t, what)
	}
	for _, program := range []string{"curl", "sha256sum"} {
		need.Program(t, "sh", program)
	}
	const program = "#!/bin/sh\necho installed\n"
	served := map[string][]byte{
		"/v9/gpubuild-9.tgz": tarOf(t, program),
		"/v9/gpubuild-9.zip": zipOf(t, "gpubuild-9/gpubuild", program),
		"/v9/gpubuild-9.whl": zipOf(t, "gpubuild-9.data/scripts/gpubuild", program),
	}
	sums := "a line that is none\n"
	for path, data := range served {
		sums += fmt.Sprintf("%x  %s\n", sha256.Sum256(data), strings.TrimPrefix(path, "/v9/"))
	}
	served["/v9/SHA256SUMS"] = []byte(sums)
	served["/v9/unnamed.tgz"] = served["/v9/gpubuild-9.tgz"]
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if data, ok := served[r.URL.Path]; ok {
			_, _ = w.Write(data)
		} else {
			http.NotFound(w, r)
		}
	}))
	defer server.Close()
	authority := filepath.Join(t.TempDir(), "ca.pem")
	hosttest.OK(t, os.WriteFile(authority, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600))
	t.Setenv("SSL_CERT_FILE", authority)
	s := project(t, map[string]string{"a": ""})
	install := func(text string) (string, error) {
		home := t.TempDir()
		c := exec.Command(need.Tool(t, "sh"), "-ec", text+"\n\"$HOME/.cargo/bin/gpubuild\"")
		c.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "TMPDIR=" + home, "CURL_CA_BUNDLE=" + authority}
		out, err := c.CombinedOutput()
		return string(out), err
	}
	for _, file := range []string{"gpubuild-9.tgz", "gpubuild-9.zip", "gpubuild-9.whl"} {
		text, err := Install(t.Context(), s, "github", server.URL+"/v9/"+file, "")
		hosttest.OK(t, err)
		if out, err := install(text); err != nil || !strings.HasSuffix(out, "installed\n") {
			t.Errorf("%s: %v: %s\n%s", file, err, out, text)
		}
	}
	text, err := Install(t.Context(), s, "github", server.URL+"/v9/gpubuild-9.zip", "")
	hosttest.OK(t, err)
	served["/v9/gpubuild-9.zip"] = zipOf(t, "gpubuild", "#!/bin/sh\necho another\n")
	if out, err := install(text); err == nil || strings.Contains(out, "another\n") {
		t.Errorf("another archive is taken: %s", out)
	}
	for file, want := range map[string]string{"v9/unnamed.tgz": "SHA256SUMS does not name it", "v8/gpubuild-8.tgz": "404"} {
		if text, err := Install(t.Context(), s, "github", server.URL+"/"+file, ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, without %q\n%s", file, err, want, text)
		}
	}
}
