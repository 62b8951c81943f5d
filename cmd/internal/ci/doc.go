// Package ci writes a CI workflow of plain gpubuild commands, once. The file is the user's to change from then on: nothing reads it back.
//
// It owns the form of the workflows for GitHub Actions and GitLab CI. What a user wrote reaches a workflow only as a quoted scalar or as
// text that no expression reads again; exceptions are the commands of [ci] install and setup, which are shell text by meaning.
package ci
