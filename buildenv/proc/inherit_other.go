//go:build !unix

package proc

import "os"

// Inheritance says whether open files can be handed through a process that knows nothing of them to one of its children.
const Inheritance = false

// FileMark names an open file; here that is not possible.
func FileMark(*os.File) string { return "" }

// Inherited answers nothing here.
func Inherited(int, string) (*os.File, bool) { return nil, false }
