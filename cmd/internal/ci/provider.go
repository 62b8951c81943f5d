package ci

import (
	"strings"
	"time"
)

// Provider is a service that runs workflows. A new one is a file that makes it
// and a value in Providers; flags, help and messages name those.
type Provider interface {
	Name() string   // as it stands on the command line
	File() []string // where its workflow lies in a repository
	// Keep is what a user can do who has such a file already, other than replacing it; empty: nothing.
	Keep() string
	// Variable is set to true where it runs us.
	Variable() string
	// Section is what its log shows before and after the lines of a step, to fold them.
	Section(title string, at time.Time) (begin, end string)
	// Workflow is the file that `ci init` writes.
	Workflow(w Workflow) []byte
	// Rows is what `ci matrix --format NAME` prints for the workflow.
	Rows(m Matrix, w Workflow) ([]byte, error)
}

// The providers.
var (
	GitHub Provider = github{}
	GitLab Provider = gitlab{}
)

// Providers are those that gpubuild writes workflows for.
func Providers() []Provider { return []Provider{GitHub, GitLab} }

// FindProvider is the provider of a name; nil: none is.
func FindProvider(name string) Provider {
	for _, p := range Providers() {
		if p.Name() == name {
			return p
		}
	}
	return nil
}

// ProviderNames lists the providers with something between them.
func ProviderNames(between string) string {
	var names []string
	for _, p := range Providers() {
		names = append(names, p.Name())
	}
	return strings.Join(names, between)
}

// Forms of `ci matrix` in addition to those of the providers.
const (
	FormatText = "text"
	FormatJSON = "json"
)

// Formats lists the forms of `ci matrix`.
func Formats() []string {
	return append(strings.Split(ProviderNames(" "), " "), FormatJSON, FormatText)
}
