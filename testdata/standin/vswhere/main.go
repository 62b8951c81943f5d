// Command vswhere stands in for Microsoft's vswhere.exe under Wine. VSWHERE_STANDIN names a file that says what it does: its first line is one of
//
//	answer    the rest are the installation paths that it knows, one a line
//	ancient   the same, as vswhere 1.0 of Visual Studio 15.2: it knows fewer words and tells less
//	say N     it prints the rest as it stands and ends with N
//	hang      it does not end
//
// The words that it knows, what it says of an unknown one and its exit status follow CommandArgs.cpp and Program.cpp of microsoft/vswhere, the order of the
// fields Formatter.cpp, the layout JsonFormatter.cpp and JsonScope.cpp: two blanks a level, lines that end in CR LF, and of a text nothing but its
// backslashes escaped. VSWHERE_LOG names a file that gets one line a call.
package main

import (
	"fmt"
	"os"
	"strings"
	"time"
)

func main() { os.Exit(run(os.Args[1:])) }

func run(args []string) int {
	script, err := os.ReadFile(os.Getenv("VSWHERE_STANDIN"))
	if err != nil {
		fmt.Fprintln(os.Stderr, "stand-in vswhere:", err)
		return 2
	}
	if path := os.Getenv("VSWHERE_LOG"); path != "" {
		f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			fmt.Fprintln(os.Stderr, "stand-in vswhere:", err)
			return 2
		}
		fmt.Fprintln(f, strings.Join(args, " "))
		f.Close()
	}
	mode, rest, _ := strings.Cut(string(script), "\n")
	known := map[string]int{"-all": 0, "-products": 1, "-requires": 1, "-version": 1, "-latest": 0, "-format": 1, "-nologo": 0, "-prerelease": 0, "-utf8": 0}
	if mode == "ancient" {
		delete(known, "-prerelease")
		delete(known, "-utf8")
	}
	for i := 0; i < len(args); i++ {
		more, ok := known[strings.ToLower(args[i])]
		if !ok {
			fmt.Printf("Visual Studio Locator version 1.0.50 [query version 1.11.2290]\r\nCopyright (C) Microsoft Corporation. All rights reserved.\r\n\r\nError 0x57: Unknown parameter: %s\r\n", strings.TrimPrefix(args[i], "-"))
			return 87
		}
		i += more
	}
	switch {
	case mode == "hang":
		time.Sleep(time.Hour)
	case strings.HasPrefix(mode, "say "):
		code := 0
		if _, err := fmt.Sscanf(mode, "say %d", &code); err != nil {
			fmt.Fprintln(os.Stderr, "stand-in vswhere:", err)
			return 2
		}
		fmt.Print(rest)
		return code
	case mode == "answer", mode == "ancient":
		fmt.Print(strings.ReplaceAll(answer(lines(rest), mode == "ancient"), "\n", "\r\n"))
	}
	return 0
}

func answer(paths []string, ancient bool) string {
	var b strings.Builder
	b.WriteString("[")
	for n, path := range paths {
		if n > 0 {
			b.WriteString(",")
		}
		b.WriteString("\n  {")
		fields := [][2]string{
			{"instanceId", fmt.Sprintf(`"1a2b3c%02x"`, n)}, {"installDate", `"2026-03-04T05:06:07Z"`}, {"installationName", `"VisualStudio/17.14.9+36310.24"`},
			{"installationPath", `"` + strings.ReplaceAll(path, `\`, `\\`) + `"`}, {"installationVersion", `"17.14.36310.24"`},
			{"productId", `"Microsoft.VisualStudio.Product.BuildTools"`}, {"state", "4294967295"}, {"isComplete", "true"}, {"isLaunchable", "true"},
			{"isPrerelease", "false"}, {"isRebootRequired", "false"}, {"displayName", `"Visual Studio Build Tools 2022"`},
			{"description", `"The Visual Studio Build Tools allows you to build native and managed MSBuild-based applications."`},
			{"channelId", `"VisualStudio.17.Release"`}, {"updateDate", `"2026-03-04T05:06:07.8901234Z"`},
			{"catalog", "{\n      \"productLineVersion\": \"2022\",\n      \"productMilestoneIsPreRelease\": \"False\"\n    }"}, {"properties", "{}"},
		}
		first := true
		for _, f := range fields {
			if ancient && !strings.HasPrefix(f[0], "inst") && f[0] != "displayName" && f[0] != "description" {
				continue
			}
			if !first {
				b.WriteString(",")
			}
			first = false
			fmt.Fprintf(&b, "\n    %q: %s", f[0], f[1])
		}
		b.WriteString("\n  }")
	}
	if len(paths) > 0 {
		b.WriteString("\n")
	}
	return b.String() + "]\n"
}

func lines(text string) (out []string) {
	for _, l := range strings.Split(text, "\n") {
		if l = strings.TrimSpace(l); l != "" {
			out = append(out, l)
		}
	}
	return out
}
