// Package graph reads cargo's unit graph. View is that, or what the packages' features alone show, with the packages'
// manifests and catalog entries at hand; Closure follows features, Explain says why a crate is linked.
//
// Only version 1 of the unit graph is understood; everything else is an error. Nothing
// here judges an answer.
package graph
