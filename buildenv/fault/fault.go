// Package fault carries a panic of any goroutine to the main one, which reports it as an internal error and ends the program with exit
// code 70. Every goroutine of gpubuild is started through it. It prints nothing and decides nothing.
package fault

import (
	"fmt"
	"runtime/debug"
	"time"
)

// Fault is a panic and where it came from.
type Fault struct {
	Value any
	Stack []byte
}

func (f Fault) Error() string { return fmt.Sprintf("%v\n\n%s", f.Value, f.Stack) }

// raised has no buffer: sending succeeds only while a main goroutine receives. Without one, in a unit test or a fuzz test, a panic crashes
// the process as usual.
var raised = make(chan Fault)

// Raised is received from by the main goroutine while the program runs.
func Raised() <-chan Fault { return raised }

// Go starts a goroutine.
func Go(f func()) { go Guarded(f)() }

// Guarded makes a function that a WaitGroup can start. After a panic it never returns, so that nobody continues with half a result before
// the program ends. f must not release a waiting goroutine in a deferred call, which also runs during a panic.
func Guarded(f func()) func() {
	return func() {
		defer func() {
			if v := recover(); v != nil {
				raise(v)
			}
		}()
		f()
	}
}

// GuardedErr is Guarded for an errgroup.
func GuardedErr(f func() error) func() error {
	return func() (err error) {
		Guarded(func() { err = f() })()
		return err
	}
}

// soon is how long a main goroutine may take until it receives; it does nothing else.
const soon = 2 * time.Second

func raise(v any) {
	f := Fault{v, debug.Stack()}
	select {
	case raised <- f:
		select {}
	case <-time.After(soon):
		panic(f.Error())
	}
}
