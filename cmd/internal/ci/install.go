package ci

import (
	"archive/tar"
	"archive/zip"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"gpubuild/buildenv/cache"
	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/lazyregexp"
	"gpubuild/buildenv/regular"
	"gpubuild/cmd/internal/session"
	"gpubuild/cmd/internal/version"
	"gpubuild/toolchain/install/redist"
)

var (
	packed = lazyregexp.New(`^(https://)?[A-Za-z0-9_.,:=/@+%-]+\.(tgz|tar\.gz|zip|whl)$`)
	digest = lazyregexp.New(`^[0-9a-f]{64}$`)
)

// Install is the shell text with which a runner gets gpubuild. value, else [ci] install, is such text itself, or an archive or wheel: its
// https address, or its path in the repository. Without either it is the archive of this gpubuild's own release. An archive's SHA-256 is
// sum, else that of the file, or what SHA256SUMS says at the address.
func Install(ctx context.Context, s *session.Session, value, sum string) (string, error) {
	h := s.Machine.Host
	if c := s.Config.CI.Value; c != nil {
		value = cmp.Or(value, strings.TrimSpace(c.Install))
	}
	if value == "" && version.Address() != "" {
		value = fmt.Sprintf("%s/releases/download/v%s/gpubuild-x86_64-unknown-linux-musl-v%[2]s.tgz", version.Address(), version.Number())
	}
	switch {
	case !packed.MatchString(value) && sum != "":
		return "", exit.Usagef("--install URL|FILE --sha256 "+sum, "--sha256 is that of an archive or wheel, and --install names none")
	case !packed.MatchString(value):
		return value, nil
	case sum != "" && !digest.MatchString(sum):
		return "", exit.Usagef("64 hexadecimal digits, as sha256sum prints them", "--sha256 %.200q is no SHA-256", sum)
	}
	name := path.Base(value)
	get := "curl -fsSL --proto '=https' --retry 3 -o \"$d/" + name + "\" '" + value + "'"
	if !strings.HasPrefix(value, "https://") {
		file := h.Join(s.Project.Root, value)
		real, err := cache.Hash(file)
		if err != nil || !h.Below(file, s.Project.Root) {
			return "", exit.Usagef("commit the archive or wheel there, and name its path below the project",
				"%s is no file below %s", value, s.Machine.Shown(s.Project.Root))
		}
		if sum = cmp.Or(sum, real); sum != real {
			return "", exit.Usagef("leave --sha256 out", "%s has the SHA-256 %s, not that of --sha256", value, real)
		}
		if err := holds(file); err != nil {
			return "", exit.Usagef("commit the archive or wheel of a release for Linux there", "%s cannot be installed: %v", value, err)
		}
		get = "cp '" + value + "' \"$d/" + name + "\""
	} else if sum == "" {
		var err error
		if sum, err = published(ctx, s, value); err != nil {
			return "", exit.Usagef("give it: --sha256 HEX", "the SHA-256 of %s is not known: %v", value, err)
		}
	}
	unpack := `tar -xzf "$d/` + name + `" -C "$d"`
	if strings.HasSuffix(name, ".zip") || strings.HasSuffix(name, ".whl") {
		unpack = `python3 -m zipfile -e "$d/` + name + `" "$d"`
	}
	return strings.Join([]string{
		`d=$(mktemp -d)`, get, `echo "` + sum + `  $d/` + name + `" | sha256sum -c -`, unpack,
		`bin="${CARGO_HOME:-$HOME/.cargo}/bin"; mkdir -p "$bin"`,
		`cp "$(find "$d" -name gpubuild -type f | head -n 1)" "$bin/gpubuild"; chmod 755 "$bin/gpubuild"`,
		`if [ -n "${GITHUB_PATH:-}" ]; then echo "$bin" >> "$GITHUB_PATH"; fi`}, "\n"), nil
}

// holds is an error unless an archive or wheel has a whole program gpubuild, wherever in it: so the shell text looks for it.
func holds(file string) error {
	f, err := regular.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	program := func(name string, is fs.FileInfo) bool { return path.Base(name) == "gpubuild" && is.Mode().IsRegular() }
	none := errors.New("it has no program gpubuild")
	if strings.HasSuffix(file, "gz") {
		z, err := gzip.NewReader(f)
		for r, h := tar.NewReader(z), (*tar.Header)(nil); err == nil; {
			if h, err = r.Next(); err == nil && program(h.Name, h.FileInfo()) {
				_, err = io.Copy(io.Discard, r)
				return err
			}
		}
		if err == io.EOF {
			err = none
		}
		return err
	}
	is, err := f.Stat()
	if err != nil {
		return err
	}
	z, err := zip.NewReader(f, is.Size())
	if err != nil {
		return err
	}
	i := slices.IndexFunc(z.File, func(e *zip.File) bool { return program(e.Name, e.FileInfo()) })
	if i < 0 {
		return none
	}
	r, err := z.File[i].Open()
	if err == nil {
		_, err = io.Copy(io.Discard, r)
	}
	return err
}

// published is the SHA-256 that the SHA256SUMS of a release says of one of its files.
func published(ctx context.Context, s *session.Session, address string) (string, error) {
	dir, name := path.Split(strings.TrimPrefix(address, "https://"))
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
