package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"

	"gpubuild/buildenv"
	"gpubuild/buildenv/lazyregexp"
)

// UserVariable names the user's own configuration file, in place of the usual one.
const UserVariable = "GPUBUILD_CONFIG"

// User is what a person set for all projects, in a file of their own. A repository has no say in it.
type User struct {
	Path string `toml:"-"`
	// The CUDA toolkit of all projects that name none: a version or a directory. `gpubuild toolchain use` writes it.
	CUDA string `toml:"cuda"`
	// Repositories that may name compilers and toolkits of their own, as --gpu-trust-project allows for one command.
	Trust []string `toml:"trust"`
	// Where NVIDIA's redistributable archives are downloaded from: a URL, a directory, or never.
	Redist string `toml:"redist"`
	// Other machines, by a name that --on and --gpu-on take.
	On map[string]On `toml:"on"`
}

// UserPath is where that file is or would be: GPUBUILD_CONFIG, else the platform's place for configuration; empty where there is no home.
func UserPath(h buildenv.Host) string {
	if path := h.Env.Get(UserVariable); path != "" {
		return h.Abs(path)
	}
	dir := ""
	switch h.OS {
	case buildenv.Windows:
		if dir = h.Env.Get("APPDATA"); !h.IsAbs(dir) && h.Home != "" {
			dir = h.Join(h.Home, "AppData", "Roaming")
		}
	case buildenv.Darwin:
		if h.Home != "" {
			dir = h.Join(h.Home, "Library", "Application Support")
		}
	default:
		// A relative path there is to be ignored: XDG Base Directory Specification, "Environment variables".
		if dir = h.Env.Get("XDG_CONFIG_HOME"); !h.IsAbs(dir) {
			if dir = ""; h.Home != "" {
				dir = h.Join(h.Home, ".config")
			}
		}
	}
	if dir == "" {
		return ""
	}
	return h.Join(dir, "gpubuild", "config.toml")
}

// ReadUser reads the user's own file.
func ReadUser(path string, data []byte) (User, error) {
	u, s := User{Path: path}, Source{Path: path, Data: data}
	meta, err := toml.Decode(string(data), &u)
	if err != nil {
		return User{}, syntax(s, err)
	}
	for _, key := range meta.Undecoded() {
		return User{}, s.wrong(fmt.Sprintf("unknown key %.200q", key.String()), "known keys: cuda, redist, trust, and the tables [on.NAME]",
			key...)
	}
	if err := s.checkOn(u.On); err != nil {
		return User{}, err
	}
	for _, dir := range u.Trust {
		if !(buildenv.Host{OS: buildenv.Windows}).IsAbs(dir) && !strings.HasPrefix(dir, "/") || strings.Contains(dir, "*") {
			return User{}, s.wrong(fmt.Sprintf("trust: %.200q is no absolute path", dir),
				"write the whole path of a directory, without ~ and *; what is below it is trusted, too", "trust")
		}
	}
	if u.CUDA == "fetch" {
		return User{}, s.wrong(`cuda = "fetch" names no toolkit`,
			"name a version or a root here, and give --gpu-toolkit=fetch on the command line", "cuda")
	}
	return u, nil
}

var cudaLine = lazyregexp.New(`(?m)^[ \t]*["']?cuda["']?[ \t]*=[ \t]*("[^"\n]*"|'[^'\n]*').*(\n|\z)`)

// WithCUDA returns the file with another toolkit in it, or with none, and all else as it was.
func WithCUDA(path string, data []byte, cuda string) ([]byte, error) {
	before, err := ReadUser(path, data)
	if err != nil {
		return nil, err
	}
	value, out := buildenv.TOMLString(cuda), data
	switch at := cudaLine.FindSubmatchIndex(data); {
	case at != nil && cuda == "":
		out = slices.Concat(data[:at[0]], data[at[1]:])
	case at != nil:
		out = slices.Concat(data[:at[2]], []byte(value), data[at[3]:])
	case cuda != "":
		out = slices.Concat([]byte("cuda = "+value+"\n"), data)
	}
	after, err := ReadUser(path, out)
	if err != nil || after.CUDA != cuda || after.Redist != before.Redist || !slices.Equal(after.Trust, before.Trust) {
		return nil, Source{Path: path, Data: data}.wrong("cuda is written in a way that cannot be changed",
			fmt.Sprintf("write cuda = %q on a line of its own", cuda), "cuda")
	}
	return out, nil
}
