// Package gpu is the vocabulary of devices and device code, and the pure rules between them: what a device can do (Capability), what
// code is built for (Arch), whether code for one runs on the other (Runs). It looks at no machine.
package gpu
