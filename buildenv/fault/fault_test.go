package fault

import (
	"strings"
	"testing"
)

func TestAPanicReachesWhoReceives(t *testing.T) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		Guarded(func() { panic("broken") })()
	}()
	f := <-Raised()
	if f.Value != "broken" || !strings.Contains(f.Error(), "fault_test.go") {
		t.Errorf("got %v", f)
	}
	select {
	case <-ended:
		t.Error("the goroutine went on")
	default:
	}
}

func TestAPanicThatNobodyReceivesStaysOne(t *testing.T) {
	defer func() {
		if v, _ := recover().(string); !strings.Contains(v, "broken") || !strings.Contains(v, "fault_test.go") {
			t.Errorf("got %q", v)
		}
	}()
	Guarded(func() { panic("broken") })()
	t.Error("it returned")
}
