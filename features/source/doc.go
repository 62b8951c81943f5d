// Package source reads what build scripts show: what one runs and links, which files it names, which libtorch it would find. Text is
// searched, not parsed; comments do not count. Nothing here decides what a build needs, nor what a feature enables.
package source
