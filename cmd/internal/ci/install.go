package ci

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path"
	"strings"
	"unicode"

	"gpubuild/buildenv"
	"gpubuild/buildenv/cache"
	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/lazyregexp"
	"gpubuild/buildenv/regular"
	"gpubuild/cmd/internal/session"
	"gpubuild/cmd/internal/version"
	"gpubuild/toolchain/install/redist"
)

var (
	packed   = lazyregexp.New(`\.(tgz|tar\.gz|zip|whl)$`)
	packaged = lazyregexp.New(`^[^\s;|&]+\.(tgz|tar\.\w+|zip|whl|deb|rpm)$`)
	scheme   = lazyregexp.New(`^[A-Za-z][A-Za-z0-9+.-]*://`)
	digest   = lazyregexp.New(`^[0-9a-f]{64}$`)
)

const takes = "name a .tgz, .tar.gz, .zip or .whl of a release; anything else is a shell command, such as `sh tools/install.sh`"

// Install is the shell text with which a runner of a service gets gpubuild. value, else [ci] install, is such text itself, or an archive or
// wheel: its https address, or its path in the repository. Without either it is the archive of this gpubuild's own release. An archive's
// SHA-256 is sum, else that of the file, or what SHA256SUMS says at the address. What exists as a file and what is written as an address
// is never text: a shell could only fail to run it.
func Install(ctx context.Context, s *session.Session, service, value, sum string) (string, error) {
	h := s.Machine.Host
	if c := s.Config.CI.Value; c != nil {
		value = cmp.Or(value, strings.TrimSpace(c.Install))
	}
	if value == "" && version.Address() != "" {
		value = fmt.Sprintf("%s/releases/download/v%s/gpubuild-x86_64-unknown-linux-musl-v%[2]s.tgz", version.Address(), version.Number())
	}
	file, from := h.From(s.Project.Root, value), scheme.FindString(value)
	_, missing := os.Stat(file)
	switch {
	case from == "" && (value == "" || missing != nil && !packaged.MatchString(value)):
		if sum != "" {
			return "", exit.Usagef("--install URL|FILE --sha256 "+sum, "--sha256 is that of an archive or wheel, and --install names none")
		}
		return value, nil
	case from != "" && !strings.EqualFold(from, "https://"):
		return "", exit.Usagef("an address begins with https://; a file in the repository is named by its path",
			"%s: gpubuild is fetched by https only", value)
	}
	sum = strings.ToLower(sum) // PowerShell's Get-FileHash prints capitals
	if sum != "" && !digest.MatchString(sum) {
		return "", exit.Usagef("64 hexadecimal digits, as sha256sum prints them", "--sha256 %.200q is no SHA-256", sum)
	}
	name, get := value, "cp -- "+buildenv.PosixWords(value)
	address, err := url.Parse("https://" + value[len(from):])
	if from != "" {
		if err != nil || strings.ContainsFunc(value, unicode.IsSpace) {
			return "", exit.Usagef("write what is no letter as in %20, a blank", "%s is no address", value)
		}
		name, get = address.Path, "curl -fsSL --proto '=https' --retry 3 "+buildenv.PosixWords(address.String())+" -o"
	}
	ending := packed.FindString(name)
	switch {
	case ending == "":
		return "", exit.Usagef(takes, "%s is neither an archive nor a wheel", value)
	case from == "":
		real, err := cache.Hash(file)
		if err != nil || !h.Below(file, s.Project.Root) {
			return "", exit.Usagef("commit the archive or wheel there, and name its path below the project",
				"%s is no file below %s", value, s.Machine.Shown(s.Project.Root))
		}
		if sum = cmp.Or(sum, real); sum != real {
			return "", exit.Usagef("leave --sha256 out", "%s has the SHA-256 %s, not that of --sha256", value, real)
		}
		head, err := program(file)
		if is := system(head); err == nil && is != "" && is != "Linux x86_64" && (service == "github" || !strings.HasPrefix(is, "Linux")) {
			err = fmt.Errorf("its gpubuild is for %s, and the runner is Linux x86_64", is) // who runs a GitLab job is not in its file
		}
		if err != nil {
			return "", exit.Usagef("commit the archive or wheel of a release for Linux there", "%s cannot be installed: %v", value, err)
		}
	case sum == "":
		if sum, err = published(ctx, s, address); err != nil {
			return "", exit.Usagef("give it: --sha256 HEX", "the SHA-256 of %s is not known: %v", value, err)
		}
	}
	file = `"$d/gpubuild` + ending + `"`
	unpack := `tar -xzf ` + file + ` -C "$d"`
	if ending == ".zip" || ending == ".whl" {
		unpack = `python3 -m zipfile -e ` + file + ` "$d"`
	}
	return strings.Join([]string{
		`d=$(mktemp -d)`, get + " " + file, `echo "` + sum + `  $d/gpubuild` + ending + `" | sha256sum -c -`, unpack,
		`bin="${CARGO_HOME:-$HOME/.cargo}/bin"; mkdir -p "$bin"`,
		`cp "$(find "$d" -name gpubuild -type f | head -n 1)" "$bin/gpubuild"; chmod 755 "$bin/gpubuild"`,
		`if [ -n "${GITHUB_PATH:-}" ]; then echo "$bin" >> "$GITHUB_PATH"; fi`}, "\n"), nil
}

// system is what a program of that beginning is made for; empty: a script, or nothing known.
func system(head []byte) string {
	switch {
	case len(head) == 20 && bytes.HasPrefix(head, []byte(elf.ELFMAG)):
		return "Linux " + strings.ToLower(strings.TrimPrefix(elf.Machine(binary.LittleEndian.Uint16(head[18:])).String(), "EM_"))
	case bytes.HasPrefix(head, []byte("\xcf\xfa\xed\xfe")), bytes.HasPrefix(head, []byte("\xca\xfe\xba\xbe")):
		return "macOS"
	case bytes.HasPrefix(head, []byte("MZ")):
		return "Windows"
	}
	return ""
}

// program is the beginning of the program gpubuild of an archive or wheel, which is whole, wherever in it: so the shell text looks for it.
func program(file string) (head []byte, err error) {
	f, err := regular.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	is := func(name string, i fs.FileInfo) bool { return path.Base(name) == "gpubuild" && i.Mode().IsRegular() }
	read := func(r io.Reader) ([]byte, error) {
		var b bytes.Buffer
		_, err := io.CopyN(&b, r, 20)
		if err == nil {
			_, err = io.Copy(io.Discard, r)
		}
		if err == io.EOF {
			err = nil
		}
		return b.Bytes(), err
	}
	none := errors.New("it has no program gpubuild")
	if strings.HasSuffix(file, "gz") {
		z, err := gzip.NewReader(f)
		for r, h := tar.NewReader(z), (*tar.Header)(nil); err == nil; {
			if h, err = r.Next(); err == nil && is(h.Name, h.FileInfo()) {
				return read(r)
			}
		}
		if err == io.EOF {
			err = none
		}
		return nil, err
	}
	i, err := f.Stat()
	if err != nil {
		return nil, err
	}
	z, err := zip.NewReader(f, i.Size())
	if err != nil {
		return nil, err
	}
	for _, e := range z.File {
		if is(e.Name, e.FileInfo()) {
			r, err := e.Open()
			if err != nil {
				return nil, err
			}
			return read(r)
		}
	}
	return nil, none
}

// published is the SHA-256 that the SHA256SUMS of a release says of one of its files.
func published(ctx context.Context, s *session.Session, address *url.URL) (string, error) {
	dir, name := address.Host+path.Dir(address.EscapedPath())+"/", path.Base(address.Path)
	source, err := redist.Open(s.Machine.Host, "https://"+dir)
	if err != nil {
		return "", err
	}
	text, err := source.Read(ctx, "SHA256SUMS")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(text)) {
		if words := strings.Fields(line); len(words) == 2 && strings.TrimPrefix(words[1], "*") == name && digest.MatchString(words[0]) {
			return words[0], nil
		}
	}
	return "", fmt.Errorf("%sSHA256SUMS does not name it", dir)
}
