package local

import "golang.org/x/sys/unix"

const getTermios = unix.TIOCGETA

func memory() uint64 { return 0 }
