package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"gpubuild/buildenv/finding"
	"gpubuild/cmd/internal/bundle"
	"gpubuild/cmd/internal/cargorun"
	"gpubuild/cmd/internal/diagnose"
	"gpubuild/cmd/internal/elsewhere"
	"gpubuild/cmd/internal/help"
	"gpubuild/cmd/internal/proof"
	"gpubuild/cmd/internal/receipt"
	"gpubuild/cmd/internal/report"
	"gpubuild/cmd/internal/session"
	"gpubuild/gpu/probe"
	"gpubuild/toolchain/cargo"
)

// proveOptions are the flags of prove.
type proveOptions struct {
	Proof   proof.Options
	Results report.Files

	TrustProject bool
}

func proveVerb() verb {
	var o proveOptions
	flags := proofFlags(&o.Proof)
	findFlag(flags, "device", "").Name = "gpu-device" // --device is what programs call their own choice
	return verb{
		Verb: help.Verb{
			Name: "prove", Args: "[PROGRAM] [-- ARGS]", Usage: "run a program and prove that its kernel ran on the GPU",
			Examples: []string{"gpubuild prove target/release/app -- --device cuda",
				"gpubuild prove --child 'python3*' -- uv run train.py"},
			Text: "PROGRAM is a file, or the directory of a bundle. Without it the words after -- are the command, " +
				"such as python train.py. " +
				"The program runs with its own input and output, under a probe that the CUDA driver loads. Exits with 0 only if " +
				"proven, with 20 if it ran on the CPU, with 21 if not proven, with 22 if only other kernels ran. If the program's own " +
				"exit code is not the expected one, exits with that.\n" +
				"With --expect cpu: exits with 0 if the program certainly ran on the CPU, with 22 if it or a child used the GPU, " +
				"otherwise with 21. Without a GPU it is 0 if no driver was opened.\n" +
				"Without --kernel a matrix product counts, by its name: `gpubuild help kernels`.",
			Common: []string{"kernel", "expect-exit", "gpu-device", "child", "expect", "timeout", "on", "receipt", "json"},
		},
		results: &o.Results,
		flags: slices.Concat(
			grouped("Proof",
				toggle("trust-project", "run the command that only this repository gives for another machine", &o.TrustProject),
				newFlag("backend", cargo.Value, "cuda|vulkan", "the API whose kernels count (cuda); vulkan: any compute "+
					"pipeline of the program (wgpu, ash), unless --kernel names one",
					func(v string) error { return proofBackend(&o.Proof, v) })),
			flags,
			grouped("Results",
				newFlag("receipt", cargo.Value, "FILE", "write a receipt of the proof; see `gpubuild receipt --help`",
					func(v string) error {
						o.Results.Receipt, o.Proof.Receipt = v, true
						return nil
					}),
				toggle("with-args", withArgsMeaning, &o.Proof.WithArgs),
			),
			resultFlags(&o.Results),
		),
		run: bind(&o, runProve),
	}
}

func runProve(ctx context.Context, a *invocation, o proveOptions, l cargo.Line) error {
	if err := checkExpected(o.Proof, "--"); err != nil {
		return err
	}
	out := a.Shell.Out
	if o.Results.JSON != nil && *o.Results.JSON == "" {
		out = a.Shell.Err // stdout belongs to the answer
	}
	r, err := proveProgram(ctx, a, o.Proof, o.TrustProject, l, out)
	if err != nil {
		return err
	}
	var findings []finding.Finding
	if r.Ending != nil {
		findings = diagnose.Program(ctx, *r.Ending, diagnose.Collected{
			Machine: a.Machine, Typed: []string{"--features", "cuda"}, Programs: []cargorun.Program{{Path: a.Host.Abs(r.Ending.Program)}},
		})
	}
	var receipts []receipt.Receipt
	if r.Proof.Receipt != nil {
		receipts = []receipt.Receipt{*r.Proof.Receipt}
	}
	result := report.ProveResult(a.Machine, r.Proof, r.Scan, r.Outcome)
	result.Findings = append(result.Findings, findings...)
	return a.end(o.Results, r.Outcome, result, r.Proof, receipts...)
}

// proveProgram proves the program here or, with --on, on another machine. A program in a bundle has its libraries and probe there.
func proveProgram(ctx context.Context, a *invocation, o proof.Options, trusted bool, l cargo.Line, out io.Writer,
) (proof.FileResult, error) {
	o.Args = l.Trailing
	words := l.Positional
	if len(words) == 0 {
		if len(l.Trailing) == 0 || strings.HasPrefix(l.Trailing[0], "-") {
			return proof.FileResult{}, usage("`gpubuild prove` needs a program", "gpubuild prove target/release/app")
		}
		words, o.Args = l.Trailing[:1], l.Trailing[1:]
	}
	program := proof.LookPath(a.Host, words[0])
	m := *a.Machine
	bundled, rt, err := bundle.Open(a.Host, program)
	if err != nil {
		return proof.FileResult{}, err
	}
	if bundled != "" {
		program, m.Host.Env = bundled, rt.Env
		o.Files.Probe = cmp.Or(o.Files.Probe, rt.Probe.Library)
		if o.Files.CUPTI == "" {
			o.Files.CUPTI, o.Files.Others = rt.CUPTI, rt.Others
		}
	}
	s := session.WithoutProject(&m)
	if o.On.Name != "" {
		if s, err = session.Anywhere(ctx, &m, l); err != nil {
			return proof.FileResult{}, err
		}
	}
	place, err := elsewhere.Resolve(s, o, trusted, "--")
	if err != nil {
		return proof.FileResult{}, err
	}
	return proof.File(ctx, &m, o, place, program, out, elsewhere.Send)
}

// checkExpected rejects the flags that have no meaning with --expect cpu, or with Vulkan; prefix is how this verb's flags begin.
func checkExpected(o proof.Options, prefix string) error {
	if o.Backend == probe.Vulkan && o.Files.CUPTI != "" {
		return usage(fmt.Sprintf("only CUDA is recorded through CUPTI, so %scupti has no meaning with %sbackend vulkan", prefix, prefix),
			"leave "+prefix+"cupti out")
	}
	if o.UntilProved && o.On.Name != "" {
		return usage(prefix+"until-proved stops a program of this machine, so it has no meaning with "+prefix+"on",
			"leave "+prefix+"until-proved out")
	}
	if o.MinChildren > 0 && o.Child == "" {
		return usage(prefix+"min-children counts the processes that "+prefix+"child names", "give "+prefix+"child, too")
	}
	if !o.ExpectCPU {
		return nil
	}
	for _, f := range []struct {
		name  string
		given bool
	}{
		{"kernel", o.Kernel != nil}, {"device", o.Device != ""}, {"child", o.Child != ""}, {"min-launches", o.MinLaunches > 0},
		{"min-gpu-time", o.MinTime > 0}, {"until-proved", o.UntilProved}, {"require-proof", o.Required},
	} {
		if f.given {
			return usage(fmt.Sprintf("%sexpect cpu asks for no kernel, so %s%s has no meaning with it", prefix, prefix, f.name),
				"leave "+prefix+f.name+" out")
		}
	}
	return nil
}
