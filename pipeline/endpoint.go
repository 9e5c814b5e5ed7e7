package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gofrs/flock"

	"anvil/pipeline/digest"
)

// endpointName is what two spellings of one endpoint have in common: scheme,
// host in lower case and port. All loopback names are one.
func endpointName(baseURL string) (string, error) {
	u, err := url.Parse(baseURL)
	if err != nil {
		return "", fmt.Errorf("endpoint %q: %w", baseURL, err)
	}
	scheme := strings.ToLower(u.Scheme)
	host := strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[scheme]
	}
	if ip := net.ParseIP(host); host == "localhost" || strings.HasSuffix(host, ".localhost") || ip != nil && (ip.IsLoopback() || ip.IsUnspecified()) {
		host = "localhost"
	} else if ip != nil {
		host = ip.String()
	}
	return scheme + "://" + net.JoinHostPort(host, port), nil
}

// lockFolder is where all anvils of one user on one host meet, whatever their
// workspace. A folder that others can write would let them name themselves as
// holders, so it must be ours and closed to them.
func lockFolder(getenv func(string) (string, bool)) (string, error) {
	if runtime, ok := getenv("XDG_RUNTIME_DIR"); ok && filepath.IsAbs(runtime) {
		if info, err := os.Stat(runtime); err == nil && info.IsDir() {
			if dir, err := ownFolder(filepath.Join(runtime, "anvil")); err == nil {
				return dir, nil
			}
		}
	}
	return ownFolder(filepath.Join(os.TempDir(), fmt.Sprintf("anvil-%d", os.Getuid())))
}

func ownFolder(dir string) (string, error) {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return "", err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return "", err
	}
	if !info.IsDir() || info.Mode().Perm()&0o022 != 0 || !ownedByUs(info) {
		return "", fmt.Errorf("lock folder %s: not a folder of ours alone", dir)
	}
	return dir, nil
}

// locks are the endpoint locks of one run. The zero value holds none.
type locks struct{ held []*flock.Flock }

// lockEndpoints takes the locks of the named endpoints in sorted order, so that
// two runs never wait for each other in a circle. When one is busy it keeps
// none and returns a *BusyError, or waits with wait, telling so once.
func lockEndpoints(ctx context.Context, dir string, names []string, me Holder, wait bool, waiting func(*BusyError)) (*locks, error) {
	names = slices.Compact(slices.Sorted(slices.Values(names)))
	l := &locks{}
	for _, name := range names {
		file := filepath.Join(dir, digest.FromBytes([]byte(name)).String()+".lock")
		held, err := lockFile(ctx, file, "endpoint "+name, me, wait, waiting)
		if err != nil {
			l.release()
			return nil, err
		}
		l.held = append(l.held, held)
	}
	return l, nil
}

// sign says again who holds the locks: the run has its name only when it has
// them all.
func (l *locks) sign(me Holder) error {
	if l == nil {
		return nil
	}
	for _, f := range l.held {
		if err := writeHolder(f.Path(), me); err != nil {
			return fmt.Errorf("lock %s: %w", f.Path(), err)
		}
	}
	return nil
}

// release gives all locks back. It may be called more than once.
func (l *locks) release() {
	if l == nil {
		return
	}
	for _, f := range slices.Backward(l.held) {
		_ = f.Close() // the kernel lets go of a lock whatever Close says
	}
	l.held = nil
}

// waitStep is how often a waiting run asks again whether a lock is free.
const waitStep = 50 * time.Millisecond

// lockFile takes one lock and writes who holds it into its file.
func lockFile(ctx context.Context, file, what string, me Holder, wait bool, waiting func(*BusyError)) (*flock.Flock, error) {
	f := flock.New(file, flock.SetPermissions(0o600))
	got, err := f.TryLock()
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", what, err)
	}
	if !got {
		busy := &BusyError{What: what, Holder: readHolder(file)}
		if !busy.Holder.Since.IsZero() {
			busy.Age = max(me.Since.Sub(busy.Holder.Since.Time), 0)
		}
		if !wait {
			return nil, busy
		}
		if waiting != nil {
			waiting(busy)
		}
		if got, err = f.TryLockContext(ctx, waitStep); err != nil || !got {
			return nil, fmt.Errorf("wait for %s: %w", what, errors.Join(err, context.Cause(ctx)))
		}
	}
	if err := writeHolder(file, me); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", what, err), f.Close())
	}
	return f, nil
}

// writeHolder says who holds a lock. It only names the holder to who comes
// second; the lock is the kernel's and is gone with the process, so a stale name
// is harmless.
func writeHolder(file string, me Holder) error {
	raw, err := json.Marshal(me)
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(raw, '\n'), 0o600)
}

func readHolder(file string) Holder {
	var h Holder
	raw, err := os.ReadFile(file)
	if err == nil && json.Unmarshal(raw, &h) != nil {
		return Holder{}
	}
	return h
}
