package manifest

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
)

// LockPackage is one [[package]] of Cargo.lock.
type LockPackage struct {
	Name, Version, Source string
	Dependencies          []string // "name", "name version" or "name version (source)"
}

// Key is a locked package's name and version.
func (p *LockPackage) Key() string { return p.Name + " " + p.Version }

// Refresh reads what cargo may write while it answers: Cargo.lock of the workspace root, and where it unpacks packages. A lock file that
// cannot be understood is a doubt, not an error: cargo has its own words for it.
func (p *Project) Refresh() {
	p.registry, p.unpacked = map[string]*Package{}, nil
	p.LockPath = p.host.Join(p.Root, "Cargo.lock")
	data, err := p.host.ReadFile(p.LockPath, manifestLimit)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			p.doubt(p.LockPath + ": " + plain(err))
		}
		return
	}
	p.HasLock = true
	if v := lockVersion(string(data)); v > newestLock {
		p.doubt(fmt.Sprintf("%s has version %d, of which nothing is known here", p.LockPath, v))
	}
	p.Lock = parseLock(string(data))
}

// doubt adds what Refresh has not said before.
func (p *Project) doubt(text string) {
	if !slices.Contains(p.Doubts, text) {
		p.Doubts = append(p.Doubts, text)
	}
}

// newestLock is the newest form of the lock file that is read here: that of
// cargo 1.78 to 1.95 (src/cargo/core/resolver/resolve.rs, ResolveVersion).
const newestLock = 4

// lockVersion is the number at the head of a lock file; the older forms have none.
func lockVersion(text string) int {
	head, _, _ := strings.Cut(text, "[")
	for _, line := range strings.Split(head, "\n") {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), "version = "); ok {
			if n, err := strconv.Atoi(v); err == nil {
				return n
			}
			return newestLock + 1
		}
	}
	return 0
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
