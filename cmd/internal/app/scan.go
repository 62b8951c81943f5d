package app

import (
	"context"
	"fmt"
	"gpubuild/cmd/internal/report"
	"gpubuild/gpu/fatbin"
	"gpubuild/toolchain/cargo"
	"strings"
)

func runScan(a *app, _ context.Context, o Options, l cargo.Line) error {
	if len(l.Positional) == 0 {
		return &usageError{"scan needs a file", "gpubuild scan target/release/app"}
	}
	type scanned struct {
		File string `json:"file"`
		*fatbin.Report
	}
	var all []scanned
	for _, path := range l.Positional {
		r, err := fatbin.ScanFile(a.host, a.host.Abs(path), fatbin.WithHash())
		if err != nil {
			return err
		}
		all = append(all, scanned{path, r})
	}
	if o.JSON != nil {
		return a.answer(o, "scan", true, nil, struct {
			Files []scanned `json:"files"`
		}{all})
	}
	var b strings.Builder
	for i, s := range all {
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "%s: %s %s, %s\n", s.File, s.Format, s.Machine, report.Bytes(s.Size))
		for _, im := range s.Images {
			made := ""
			if im.Toolkit != "" {
				made = ", nvcc " + im.Toolkit
			}
			if im.PTXVersion != "" {
				made = ", PTX " + im.PTXVersion
			}
			fmt.Fprintf(&b, "  %#010x  %-8s  %-12s  %s %s%s", im.Offset, im.Kind, im.Arch, im.Compression, report.Bytes(im.Size), made)
			if im.Where != "" {
				fmt.Fprintf(&b, "  in %s", im.Where)
			}
			b.WriteByte('\n')
			for n, k := range im.Kernels {
				if n == 20 && !l.AllTargets {
					fmt.Fprintf(&b, "                … and %d more kernels\n", len(im.Kernels)-n)
					break
				}
				fmt.Fprintf(&b, "                %s\n", k)
			}
		}
		if len(s.Images) == 0 {
			b.WriteString("  no device code (code that is made at run time is not seen)\n")
		}
		for _, im := range s.Imports {
			if strings.HasPrefix(im, "libcu") || strings.HasPrefix(im, "libnv") || strings.HasPrefix(strings.ToLower(im), "nvcuda") {
				fmt.Fprintf(&b, "  loads %s\n", im)
			}
		}
		for _, n := range s.Notes {
			fmt.Fprintf(&b, "  note: %s\n", n)
		}
	}
	_, err := fmt.Fprint(a.shell.Out, b.String())
	return err
}
