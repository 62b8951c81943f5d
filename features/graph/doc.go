// Package graph reads cargo's answers: Parse its unit graph, ParseTree the output of cargo tree. View is either of them with the packages'
// manifests and catalog entries at hand; Closure follows features, Explain says why a crate is linked.
//
// Only version 1 of the unit graph is understood; everything else is a *Error, and the caller asks in another way or is unsure. Nothing
// here judges an answer.
package graph
