package cli

import (
	"gpubuild/cmd/internal/bundle"
	"gpubuild/cmd/internal/diagnose"
	"gpubuild/cmd/internal/fresh"
	"gpubuild/cmd/internal/proof"
	"gpubuild/cmd/internal/receipt"
	"gpubuild/cmd/internal/report"
	"gpubuild/cmd/internal/scan"
	"gpubuild/cmd/internal/toolkits"
	"gpubuild/gpu"
	"gpubuild/toolchain/cargo"
)

// Answers are the types of the verbs' own answers, by the name in their schema; those of a second list have a result, too.
func Answers() (plain, results map[string]any) {
	plain = map[string]any{
		"bundle": bundle.Bundle{}, "cache": toolkits.Cache{},
		"env": envAnswer{}, "explain": diagnose.Log{}, "explain-code": diagnose.Meaning{}, "features-why": whyAnswer{},
		"receipt-verify": receipt.Checked{}, "report": report.Joined{}, "scan": scan.Listing{}, "toolchain-install": toolkits.Installed{},
		"toolchain-list": toolkits.Listed{}, "toolchain-use": toolkits.Chosen{}, "toolchain-remove": toolkits.Removed{},
		"version": versionAnswer{}, "watch": gpu.Summary{},
	}
	results = map[string]any{
		"audit": proof.AuditResult{}, "doctor": doctorAnswer{}, "features": featuresAnswer{}, "features-lint": lintAnswer{},
		"prove": proof.Proof{},
		"stale": fresh.Report{},
	}
	for _, verb := range cargo.VerbNames() {
		if cargo.PurposeOf(verb) != cargo.Other {
			results[verb] = struct{}{}
		}
	}
	return plain, results
}
