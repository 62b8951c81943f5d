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
}

// Refresh reads what cargo may write while it answers: Cargo.lock of the workspace root, and where it unpacks packages. A lock file that
// cannot be understood is a doubt, not an error: cargo has its own words for it.
func (p *Project) Refresh() {
	p.unpacked = nil
	clear(p.locked)
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
	for len(text) > 0 {
		line, rest, _ := strings.Cut(text, "\n")
		text = rest
		line = strings.TrimSpace(line)
		switch {
		case line == "[[package]]":
			out = append(out, LockPackage{})
			cur = &out[len(out)-1]
		case strings.HasPrefix(line, "["):
			cur = nil
		case cur == nil:
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
