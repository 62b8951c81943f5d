package cache

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/gofrs/flock"
)

const lockPoll = 50 * time.Millisecond

// Lock takes the lock of the file at path, between processes and within one. While another holds it, it tries again until ctx
// ends; waiting, if not nil, is called once then, with what the holder wrote of itself: "pid 123 since 2026-01-02T15:04:05Z". The file
// stays when the lock is released; the system releases it when its holder ends in any way. Its directory must exist.
func Lock(ctx context.Context, path string, waiting func(holder string)) (release func() error, err error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	l := flock.New(path)
	for announced := false; ; announced = true {
		ok, err := l.TryLock()
		if err != nil {
			return nil, &WriteError{Path: path, Err: reason(err)}
		}
		if ok {
			break
		}
		if !announced && waiting != nil {
			waiting(holder(path))
		}
		select {
		case <-ctx.Done():
			_ = l.Close() // it holds the file open, not the lock
			return nil, fmt.Errorf("lock %s, held by %s: %w", path, holder(path), ctx.Err())
		case <-time.After(lockPoll):
		}
	}
	// Only for the other's message: a lock that cannot say whose it is still holds.
	text := fmt.Sprintf("pid %d since %s\n", os.Getpid(), time.Now().UTC().Format(time.RFC3339))
	_ = os.WriteFile(holderFile(path), []byte(text), 0o644)
	return sync.OnceValue(func() error {
		err := os.Remove(holderFile(path)) // before the lock goes, or the next holder's would be removed
		if errors.Is(err, os.ErrNotExist) {
			err = nil
		}
		return errors.Join(err, l.Unlock())
	}), nil
}

// Held reports whether another process holds the lock of the file at path, and what it wrote of itself.
func Held(path string) (holding string, held bool) {
	if _, err := os.Stat(path); err != nil {
		return "", false
	}
	l := flock.New(path)
	ok, err := l.TryRLock()
	_ = l.Close() // and gives it back
	return holder(path), err == nil && !ok
}

func holderFile(path string) string { return path + ".holder" }

// holder says who holds the lock, as far as that is known.
func holder(path string) string {
	data, err := os.ReadFile(holderFile(path))
	if text := strings.TrimSpace(string(data)); err == nil && text != "" {
		return text
	}
	return "another process"
}
