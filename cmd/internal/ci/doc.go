// Package ci makes a matrix of builds and proofs out of a specification: rows with stable names
// and cache keys, the steps of each row, and the text of workflows that run them. It decides
// nothing about toolchains: whether a row can work is asked of its caller, and it starts nothing.
//
// It owns the form of row names, cache keys and of the workflows for GitHub Actions and GitLab CI. What a user wrote reaches a workflow
// only as a quoted scalar or as data that no shell and no expression reads again; the one exception is [ci] install and setup, which are
// shell text by meaning.
package ci
