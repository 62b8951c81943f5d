//go:build unix

package session

import (
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/hosttest"
	"gpubuild/buildenv/local"
)

// TestResultFilesReplaceNothingSpecial: a FIFO stays one and gets the data, a link leads to the file that is written.
func TestResultFilesReplaceNothingSpecial(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	m := &Machine{Host: hosttest.Must(local.Host())(t)}
	m.Host.Cwd = dir
	at := func(name string) string { return filepath.Join(dir, name) }
	hosttest.OK(t, syscall.Mkfifo(at("fifo"), 0o600))
	for link, to := range map[string]string{"tofifo": "fifo", "tofile": "deep/file", "tonew": "deep/new", "again": "tofile"} {
		hosttest.OK(t, os.Symlink(to, at(link)))
	}
	hosttest.OK(t, os.Mkdir(at("deep"), 0o755))
	hosttest.OK(t, os.WriteFile(at("deep/file"), []byte("\n"), 0o600))
	// Open for reading and writing, so that nobody waits for the other end.
	reader, err := os.OpenFile(at("fifo"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	for _, name := range []string{"fifo", "tofifo"} {
		if err := m.WriteFile(name, []byte("data"), 0o644); err != nil {
			t.Fatal(err)
		}
		fi, err := os.Lstat(at("fifo"))
		if err != nil || fi.Mode()&os.ModeNamedPipe == 0 {
			t.Fatalf("%s: the FIFO is now %v, %v", name, fi.Mode(), err)
		}
		got := make([]byte, 4)
		if _, err := io.ReadFull(reader, got); err != nil || string(got) != "data" {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	for name, to := range map[string]string{"tofile": "deep/file", "again": "deep/file", "tonew": "deep/new", "plain": "plain"} {
		if err := m.WriteFile(name, []byte(name), 0o644); err != nil {
			t.Fatal(err)
		}
		fi, err := os.Lstat(at(name))
		if err != nil || name != to && fi.Mode()&os.ModeSymlink == 0 {
			t.Errorf("the link %s is now %v, %v", name, fi.Mode(), err)
		}
		if got, err := os.ReadFile(at(to)); err != nil || string(got) != name {
			t.Errorf("%s: %q, %v", to, got, err)
		}
		if err := m.WriteFile(name, []byte("again"), 0o644); exit.Of(err) != exit.Usage {
			t.Errorf("%s, which is not a result: %v", to, err)
		}
		hosttest.OK(t, os.Truncate(at(to), 0))
	}
	// What another program holds open gets the data, too.
	if _, err := os.Stat("/proc/self/fd"); err == nil {
		open, err := os.Create(at("open"))
		if err != nil {
			t.Fatal(err)
		}
		defer open.Close()
		if err := m.WriteFile(filepath.Join("/proc/self/fd", strconv.Itoa(int(open.Fd()))), []byte("data"), 0o644); err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(open); err != nil || string(got) != "data" {
			t.Errorf("the open file got %q, %v", got, err)
		}
	}
	err = m.WriteFile("nosuch/r.json", nil, 0o644)
	if err == nil || !strings.Contains(err.Error(), "no directory "+at("nosuch")) || exit.Hint(err) != "make the directory "+at("nosuch") {
		t.Errorf("a missing directory: %v; %s", err, exit.Hint(err))
	}
	if _, err := os.Stat(at("nosuch")); err == nil {
		t.Error("the missing directory was made")
	}
}

// TestResultsReplaceOnlyResults: what gpubuild wrote is replaced by the next run, in each of its forms, and nothing else is.
func TestResultsReplaceOnlyResults(t *testing.T) {
	t.Parallel()
	m := &Machine{Host: hosttest.Must(local.Host())(t)}
	m.Host.Cwd = t.TempDir()
	ours := []string{"", "\n", "TN:gpubuild\nSF:k.cu\n", "-----BEGIN SSH SIGNATURE-----\nU1NI", `{"schema":"gpubuild/history/1","results":[]}`,
		"{\n    \"schema\": \"gpubuild/receipt/1\",", `{"_type":"https://in-toto.io/Statement/v1","subject":[]`}
	files := 0
	for _, form := range strings.Fields("*.json *.sarif *.xml page.html") {
		for _, name := range hosttest.Must(filepath.Glob("../../../testdata/golden/render/" + form))(t) {
			files++
			ours = append(ours, string(hosttest.Must(os.ReadFile(name))(t)))
		}
	}
	if files < 10 {
		t.Errorf("%d golden files", files)
	}
	for _, text := range ours {
		hosttest.OK(t, os.WriteFile(filepath.Join(m.Host.Cwd, "r"), []byte(text), 0o600))
		hosttest.OK(t, m.CheckFile("r"))
	}
	for _, text := range []string{"fn main() {}\n", `{"name":"x","scripts":{"b":"gpubuild build"}}`, "TN:\nSF:src/main.rs\n",
		"<?xml version=\"1.0\"?>\n<testsuites name=\"nextest-run\">", "<!doctype html>\n<html lang=\"en\">\n",
		`{"$schema":"s","runs":[{"automationDetails":{"id":"CodeQL/x/"}}]}`, "-----BEGIN OPENSSH PRIVATE KEY-----\n",
		`{"a":{"schema":"gpubuild/build/1"}}`, "# \"schema\": \"gpubuild/build/1\"",
	} {
		hosttest.OK(t, os.WriteFile(filepath.Join(m.Host.Cwd, "r"), []byte(text), 0o600))
		hosttest.Equal(t, exit.Of(m.CheckFile("r")), exit.Usage, text)
	}
	hosttest.Equal(t, exit.Of(m.CheckFile(".")), exit.Usage, "a directory")
	hosttest.OK(t, m.CheckFile("/dev/stdout"))
}
