package manifest

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
)

// LockPackage is one [[package]] of Cargo.lock.
type LockPackage struct {
	Name, Version, Source string
	Dependencies          []string // "name", "name version" or "name version (source)"
}

// Refresh reads what cargo may write while it answers: Cargo.lock of the workspace root, and where it unpacks packages. A lock file that
// cannot be understood is a doubt, not an error: cargo has its own words for it.
func (p *Project) Refresh() {
	p.unpacked = nil
	p.LockPath = p.host.Join(p.Root, "Cargo.lock")
	data, err := p.host.ReadFile(p.LockPath, manifestLimit)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			p.doubt(p.LockPath + ": " + plain(err))
		}
		return
	}
	p.HasLock = true
	p.Lock = parseLock(string(data))
}

// doubt adds what Refresh has not said before.
func (p *Project) doubt(text string) {
	if !slices.Contains(p.Doubts, text) {
		p.Doubts = append(p.Doubts, text)
	}
}

// parseLock reads the fixed form in which cargo writes its lock files, all versions of it. It is many times faster than a TOML reader,
// which matters because every build begins with it.
func parseLock(text string) []LockPackage {
	var out []LockPackage
	var cur *LockPackage
	inDeps := false
	for len(text) > 0 {
		line, rest, _ := strings.Cut(text, "\n")
		text = rest
		line = strings.TrimSpace(line)
		switch {
		case line == "[[package]]":
			out = append(out, LockPackage{})
			cur, inDeps = &out[len(out)-1], false
		case strings.HasPrefix(line, "["):
			cur, inDeps = nil, false
		case cur == nil:
		case inDeps:
			if line == "]" {
				inDeps = false
				continue
			}
			cur.Dependencies = append(cur.Dependencies, strings.Trim(line, `", `))
		case strings.HasPrefix(line, "dependencies = ["):
			inDeps = !strings.HasSuffix(line, "]")
		default:
			key, value, _ := strings.Cut(line, " = ")
			value = strings.Trim(value, `"`)
			switch key {
			case "name":
				cur.Name = value
			case "version":
				cur.Version = value
			case "source":
				cur.Source = value
			}
		}
	}
	return out
}
