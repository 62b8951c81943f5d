package redist

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"syscall"
	"testing"
)

// TestLasting: a download is tried again where a second attempt within seconds may succeed, and nowhere else.
func TestLasting(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want bool
	}{
		{&statusError{code: http.StatusNotFound}, true},
		{fmt.Errorf("a: %w", &statusError{code: http.StatusForbidden}), true},
		{&statusError{code: http.StatusRequestTimeout}, false},
		{&statusError{code: http.StatusTooManyRequests}, false},
		{&statusError{code: http.StatusBadGateway}, false},
		{&statusError{code: http.StatusInternalServerError}, false},
		{&net.DNSError{IsNotFound: true}, true},
		{&net.DNSError{IsTimeout: true}, false},
		{syscall.ECONNREFUSED, true},
		{syscall.ECONNRESET, false},
		{errors.New("cut"), false},
	} {
		if got := lasting(tt.err); got != tt.want {
			t.Errorf("%v: %v", tt.err, got)
		}
	}
}
