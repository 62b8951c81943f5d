package app

import (
	"context"
	"fmt"
	"gpubuild/gpu/driver"
	"gpubuild/toolchain/cargo"
	"runtime/debug"
)

// version is what this gpubuild is: the tag it was installed by, or the commit.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	v := info.Main.Version
	if v == "" || v == "(devel)" {
		v = "devel"
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" && len(s.Value) >= 12 {
				v += "-" + s.Value[:12]
			}
		}
	}
	return v
}

func runVersion(a *app, _ context.Context, o Options, _ cargo.Line) error {
	info, _ := debug.ReadBuildInfo()
	libs := map[string]string{}
	goVersion := ""
	if info != nil {
		goVersion = info.GoVersion
		for _, d := range info.Deps {
			libs[d.Path] = d.Version
		}
	}
	if o.JSON != nil {
		return a.answer(o, "version", true, nil, struct {
			Version   string            `json:"version"`
			Go        string            `json:"go"`
			NVML      string            `json:"nvml"`
			Libraries map[string]string `json:"libraries"`
		}{version(), goVersion, driver.Means(), libs})
	}
	_, err := fmt.Fprintf(a.shell.Out, "gpubuild %s (%s, GPU inventory by %s)\n", version(), goVersion, driver.Means())
	return err
}
