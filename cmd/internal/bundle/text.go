package bundle

import (
	"fmt"
	"path"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/cmd/internal/session"
	"gpubuild/toolchain/install/tree"
	"gpubuild/toolchain/loader"
)

// Text lists what is in a bundle, what is not, and how its programs are started; dir is its directory as the user named it.
func (b Bundle) Text(m *session.Machine, dir string) string {
	var out strings.Builder
	size, proving := int64(0), int64(0)
	for _, f := range b.Files {
		size += f.Size
		if strings.HasPrefix(f.Name, "prove/") {
			proving += f.Size
			continue
		}
		fmt.Fprintf(&out, "%10s  %s", tree.Size(f.Size), f.Name)
		if f.By != "" {
			how := ""
			if f.ByName {
				how = ", loaded by name"
			}
			fmt.Fprintf(&out, "  (%s, for %s%s)", m.Shown(f.From), f.By, how)
		}
		out.WriteByte('\n')
	}
	for _, n := range b.Needs {
		fmt.Fprintf(&out, "not in it: %s (%s)\n", n.Name, n.Why)
	}
	if b.Glibc != "" {
		fmt.Fprintf(&out, "needs glibc %s or newer\n", b.Glibc)
	}
	if p := b.Prove; p != nil {
		fmt.Fprintf(&out, "%10s  prove  (gpubuild, and what it records with; to prove there: %s)\n", tree.Size(proving),
			buildenv.Words(m.Host.OS, m.Host.Join(dir, "prove", "gpubuild"), "prove", m.Host.Join(dir, path.Base(b.Programs[0]))))
		if loader.Older(b.Glibc, p.Glibc.Version) {
			fmt.Fprintf(&out, "to prove there: needs glibc %s or newer (%s)\n", p.Glibc.Version, p.Glibc.By)
		}
	}
	var start []string
	for _, program := range b.Programs {
		start = append(start, buildenv.Words(m.Host.OS, m.Host.Join(dir, path.Base(program))))
	}
	files := "1 file"
	if n := len(b.Files); n != 1 {
		files = fmt.Sprintf("%d files", n)
	}
	fmt.Fprintf(&out, "bundled in %s: %s, %s; run %s\n", dir, files, tree.Size(size), strings.Join(start, ", "))
	return out.String()
}
