package cli

import (
	"context"
	"fmt"

	"gpubuild/cmd/internal/help"
	"gpubuild/cmd/internal/scan"
	"gpubuild/toolchain/cargo"
)

func scanVerb() verb {
	var o scan.Options
	return verb{
		Verb: help.Verb{
			Name: "scan", Args: "FILE...", Usage: "list the device code in files, and the libraries that they load",
			Examples: []string{"gpubuild scan target/release/app", "gpubuild scan --libraries target/release/app",
				"gpubuild scan --runs-on sm_120,driver=570 target/release/app"},
			Text: "Finds cubins, fatbins and PTX anywhere in any file, and runs nothing. --json also has the SHA-256 of the file.\n" +
				"--libraries asks the system's own loader (glibc's or musl's), and follows Windows' rules with delay-loaded DLLs. Exits " +
				"with 11 if a library is missing, with 12 if the loader would load a link stub or a library for another platform.\n" +
				"--runs-on judges the kernels in the files for a GPU and a driver, such as sm_120,driver=570.26 or sm_120,driver=570," +
				"os=windows, for `this` machine, or for those of a receipt. Exits with 12 if one does not run there, with 21 if that is " +
				"not certain.",
		},
		flags: []*flag{
			toggle("libraries", "list the shared libraries that the loader takes, and from where, recursively", &o.Libraries),
			newFlag("runs-on", cargo.Value, "GPU", "whether every kernel runs there: sm_120,driver=570, this, or a receipt",
				func(v string) error {
					if o.RunsOn != "" {
						return fmt.Errorf("it is given twice, and takes one GPU: %.200q and %.200q", o.RunsOn, v)
					}
					o.RunsOn = v
					return nil
				}),
			jsonFlag(&o.JSON),
		},
		run: func(ctx context.Context, a *invocation, l cargo.Line) error {
			if o.RunsOn != "" && scan.IsReceipt(o.RunsOn) {
				r, err := readReceipt(a, o.RunsOn)
				if err != nil {
					return err
				}
				o.Receipt = &r
			}
			return scan.Run(ctx, a.Machine, o, l)
		},
	}
}
