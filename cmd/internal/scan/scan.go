// Package scan lists the device code in files, and the libraries that the loader takes for them.
package scan

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"gpubuild/buildenv/cache"
	"gpubuild/buildenv/exit"
	"gpubuild/cmd/internal/proof"
	"gpubuild/cmd/internal/receipt"
	"gpubuild/cmd/internal/report"
	"gpubuild/cmd/internal/session"
	"gpubuild/gpu"
	"gpubuild/gpu/fatbin"
	"gpubuild/gpu/runs"
	"gpubuild/toolchain/cargo"
	"gpubuild/toolchain/install/tree"
	"gpubuild/toolchain/loader"
)

// Options are the flags of scan.
type Options struct {
	Libraries bool
	RunsOn    string           // this, a GPU and a driver, or a name for Receipt
	Receipt   *receipt.Receipt // whose GPU and driver are meant
	JSON      *string
}

// Run lists the device code of the files that the command line names.
func Run(ctx context.Context, m *session.Machine, o Options, l cargo.Line) error {
	var all []File
	code, answer := exit.Done, gpu.Yes
	gpus, err := targets(ctx, m, o)
	if err != nil {
		return err
	}
	for _, path := range l.Positional {
		r, err := fatbin.ScanFile(m.Host, m.Host.Abs(path))
		if err == nil {
			err = proof.Unmarked(m, m.Host.Abs(path))
		}
		if err != nil {
			return err
		}
		f := File{File: path, Report: r, Glibc: loader.NeedsGlibc(m.Host.Abs(path))}
		if len(gpus) > 0 {
			if f.Runs, err = proof.RunsOn(m, m.Host.Abs(path), r, gpus, o.RunsOn == this); err != nil {
				return err
			}
		}
		for _, v := range f.Runs {
			answer = answer.Worse(v.Answer)
		}
		if o.JSON != nil { // it takes ten times as long as the rest, and only a machine reads it
			if f.SHA256, err = cache.Hash(m.Host.Abs(path)); err != nil {
				return err
			}
		}
		if o.Libraries {
			// In the directories of this machine's toolkits and cuDNNs, too, as a proof does.
			f.Libraries, err = loader.Resolve(ctx, m.Host, m.Runner, m.Host.Abs(path), proof.LibraryDirs(m, proof.Toolkits(m, nil)))
			if err != nil {
				return err
			}
			code = max(code, librariesCode(f.Libraries))
		}
		all = append(all, f)
	}
	if runs := map[gpu.Answer]int{gpu.No: exit.Misfit, gpu.Unknown: exit.Unproved}; code == exit.Done {
		code = runs[answer]
	}
	if o.JSON != nil {
		if err := report.Answer(m, o.JSON, "scan", code == exit.Done, nil, Listing{all}); err != nil {
			return err
		}
		return endWith(code)
	}
	var texts []string
	for _, f := range all {
		texts = append(texts, f.text(l.Has("--all-targets")))
	}
	if err := m.Shell.Print(strings.Join(texts, "\n")); err != nil {
		return err
	}
	return endWith(code)
}

// text is a file's part for people; every: with all kernels.
func (f File) text(every bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s, %s\n", f.File, strings.TrimSpace(f.Format+" "+f.Machine), tree.Size(f.Size))
	for _, im := range f.Images {
		made := ""
		if im.Toolkit != "" {
			made = ", nvcc " + im.Toolkit
		}
		if im.PTXVersion != "" {
			made = ", PTX " + im.PTXVersion
		}
		fmt.Fprintf(&b, "  %#010x  %-8s  %-12s  %s %s%s", im.Offset, im.Kind, im.Arch, im.Compression, tree.Size(im.Size), made)
		if im.Where != "" {
			fmt.Fprintf(&b, "  in %s", im.Where)
		}
		b.WriteByte('\n')
		for n, k := range im.Kernels {
			if n == 20 && !every {
				fmt.Fprintf(&b, "                … and %d more kernels\n", len(im.Kernels)-n)
				break
			}
			if n < len(im.Resources) {
				k += "  " + im.Resources[n].String()
			}
			fmt.Fprintf(&b, "                %s\n", k)
		}
	}
	if len(f.Images) == 0 {
		b.WriteString("  no device code (code that is made at run time is not seen)\n")
	}
	for _, im := range slices.DeleteFunc(slices.Clone(f.Imports), notCUDA) {
		fmt.Fprintf(&b, "  loads %s\n", im)
	}
	for _, im := range slices.DeleteFunc(slices.Clone(f.Delayed), notCUDA) {
		fmt.Fprintf(&b, "  loads %s at its first call\n", im)
	}
	if f.Glibc != "" {
		fmt.Fprintf(&b, "  needs glibc %s or newer\n", f.Glibc)
	}
	for _, n := range f.Notes {
		fmt.Fprintf(&b, "  note: %s\n", n)
	}
	b.WriteString(libraryLines(f.Libraries))
	for _, v := range f.Runs {
		b.WriteString(verdictLines(v, every))
	}
	return b.String()
}

func notCUDA(library string) bool { return !proof.IsCUDALibrary(library) }

// endWith is the error that ends gpubuild with a code after all was said.
func endWith(code int) error {
	if code == exit.Done {
		return nil
	}
	return exit.Code(code)
}

func librariesCode(libs []loader.Library) int {
	code := exit.Done
	for _, l := range libs {
		switch l.Kind {
		case loader.Missing:
			code = max(code, exit.Missing)
		case loader.Broken, loader.Stub:
			code = exit.Misfit
		}
	}
	return code
}

// libraryLines is what the loader takes, one library a line, and what is the matter with it.
func libraryLines(libs []loader.Library) string {
	var b strings.Builder
	for _, l := range libs {
		where := cmp.Or(l.Path, "nowhere")
		if l.Origin != "" {
			where += " (" + l.Origin + ")"
		}
		fmt.Fprintf(&b, "  %s => %s", l.Name, where)
		if l.Delayed {
			b.WriteString(", at its first call")
		}
		switch l.Kind {
		case loader.OK:
		case loader.Added:
			b.WriteString("\n      a bare start lacks it: put that directory on the loader's path, " +
				"or start the program with `gpubuild run` or `gpubuild exec`")
		default:
			fmt.Fprintf(&b, "\n      %s: %s%s", l.Kind, l.Problem, proof.Remedy(l.Name))
		}
		b.WriteByte('\n')
	}
	if why := loader.Mixed(libs); why != "" {
		b.WriteString("  warning: " + why + "\n")
	}
	return b.String()
}

// Listing is what `scan --json` writes.
type Listing struct {
	Files []File `json:"files"`
}

// File is one file of it.
type File struct {
	File   string `json:"file"`
	SHA256 string `json:"sha256,omitempty"`
	*fatbin.Report
	Glibc     string           `json:"glibc,omitempty"` // the oldest one that it takes
	Libraries []loader.Library `json:"libraries,omitempty"`
	Runs      []runs.Verdict   `json:"runs,omitempty"` // of --runs-on, for each GPU
}
