// Package lazyregexp compiles the regular expression of a package variable when it is first used. A variable of type *regexp.Regexp is
// compiled whenever the program starts: 170 of them took a third of the start of each process, and a build starts several. In a test
// binary each is compiled at once, so that a wrong one fails there.
package lazyregexp

import (
	"os"
	"regexp"
	"strings"
	"sync"
)

// Regexp is a regular expression that is compiled once, when it is first used.
type Regexp struct{ get func() *regexp.Regexp }

// New takes an expression that compiles.
func New(expr string) *Regexp {
	r := &Regexp{sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })}
	if strings.HasSuffix(strings.TrimSuffix(os.Args[0], ".exe"), ".test") {
		r.get()
	}
	return r
}

// The methods are those of *regexp.Regexp.

func (r *Regexp) Match(b []byte) bool                        { return r.get().Match(b) }
func (r *Regexp) MatchString(s string) bool                  { return r.get().MatchString(s) }
func (r *Regexp) FindString(s string) string                 { return r.get().FindString(s) }
func (r *Regexp) FindStringSubmatch(s string) []string       { return r.get().FindStringSubmatch(s) }
func (r *Regexp) FindStringSubmatchIndex(s string) []int     { return r.get().FindStringSubmatchIndex(s) }
func (r *Regexp) FindIndex(b []byte) []int                   { return r.get().FindIndex(b) }
func (r *Regexp) FindSubmatch(b []byte) [][]byte             { return r.get().FindSubmatch(b) }
func (r *Regexp) FindSubmatchIndex(b []byte) []int           { return r.get().FindSubmatchIndex(b) }
func (r *Regexp) FindAllString(s string, n int) []string     { return r.get().FindAllString(s, n) }
func (r *Regexp) FindAllStringIndex(s string, n int) [][]int { return r.get().FindAllStringIndex(s, n) }
func (r *Regexp) FindAllStringSubmatch(s string, n int) [][]string {
	return r.get().FindAllStringSubmatch(s, n)
}
func (r *Regexp) FindAllStringSubmatchIndex(s string, n int) [][]int {
	return r.get().FindAllStringSubmatchIndex(s, n)
}
func (r *Regexp) FindAllSubmatch(b []byte, n int) [][][]byte { return r.get().FindAllSubmatch(b, n) }
func (r *Regexp) ReplaceAll(src, repl []byte) []byte         { return r.get().ReplaceAll(src, repl) }
func (r *Regexp) ReplaceAllFunc(src []byte, repl func([]byte) []byte) []byte {
	return r.get().ReplaceAllFunc(src, repl)
}
func (r *Regexp) ReplaceAllString(src, repl string) string {
	return r.get().ReplaceAllString(src, repl)
}
func (r *Regexp) ReplaceAllStringFunc(src string, repl func(string) string) string {
	return r.get().ReplaceAllStringFunc(src, repl)
}
