//go:build linux && cgo

package ibv

import "C"

import (
	"cmp"
	"errors"
	"fmt"
	"syscall"

	"github.com/gobw/gobw/verbs"
)

var (
	errNoReason = errors.New("libibverbs gave no reason")
	errLie      = errors.New("libibverbs or the device's driver cannot be right")
)

// explain adds to a refused call the errno's meaning here and what to try, behind what the caller knows to try. pinned
// is how many bytes the call would have locked; 0: it locks none.
func explain(e *verbs.Error, pinned int) error {
	e.Err = cmp.Or(e.Err, errNoReason)
	if errors.Is(e.Err, errLie) {
		e.Fix = "update rdma-core and the driver; look at 'ldconfig -p | grep libibverbs' and LD_LIBRARY_PATH for " +
			"another libibverbs"
	}
	if errno, ok := errors.AsType[syscall.Errno](e.Err); ok {
		meaning, fix := errnoMeaning(errno, pinned)
		if e.Fix != "" {
			fix = e.Fix + "; or " + fix
		}
		e.Err, e.Fix = fmt.Errorf("%w (%s)", e.Err, meaning), fix
	}
	return e
}

// errnoMeaning says what an errno of a set-up verb means, and its likely causes in order with what to do.
func errnoMeaning(errno syscall.Errno, pinned int) (meaning, fix string) {
	switch errno {
	case syscall.EPERM, syscall.EACCES:
		return "no permission", "look at 'ls -l /dev/infiniband/': /dev/infiniband/uverbs* and rdma_cm must be readable " +
			"and writable by this user; " +
			"chmod 666 them or install rdma-core's udev rules; in Docker add --device=/dev/infiniband --cap-add=IPC_LOCK " +
			"--ulimit memlock=-1"
	case syscall.ENOMEM:
		if pinned > 0 {
			return memlockMeaning(pinned)
		}
		return "out of memory or of the device's queue entries", "ask for fewer queue pairs, " +
			"a smaller depth or fewer scatter/gather entries; " +
			"look at the locked-memory limit with 'ulimit -l' and at the device's limits"
	case syscall.ENODEV, syscall.ENXIO:
		return "the device is gone, or its kernel module is not loaded", "look at 'rdma link' and dmesg; load the module: " +
			"modprobe ib_uverbs, " +
			"then the device's own (mlx5_ib, irdma, bnxt_re, efa, rdma_rxe)"
	case syscall.EIO:
		return "the device or its driver failed", "look at dmesg; the device may have been reset or unplugged"
	case syscall.ENOENT:
		return "no device file or no such entry", "load ib_uverbs (modprobe ib_uverbs) and look for /dev/infiniband/uverbs*"
	case syscall.EINVAL:
		return "an argument the device does not accept", "compare what was asked with the device's limits"
	case syscall.ETIMEDOUT:
		return "no answer from the network", "no ARP or neighbour answer, or no route to the peer's GID: " +
			"ping the peer from this port's address; " +
			"choose GIDs of the same RoCE version and family at both ends"
	case syscall.ENETUNREACH, syscall.EHOSTUNREACH:
		return "no route to the peer", "ip route get PEER must name the device's own interface; choose another GID"
	case syscall.EAGAIN:
		return "no resource free just now", "close what is not needed; raise the locked-memory limit ('ulimit -l'); try again"
	case syscall.EBUSY:
		return "still in use", "close what depends on it first"
	case syscall.EOPNOTSUPP, syscall.ENOSYS:
		return "the device or its driver does not have this", "look at what the device offers"
	case syscall.EMFILE, syscall.ENFILE:
		return "too many open files", "raise 'ulimit -n'"
	case syscall.EFAULT:
		return "the memory is not there", "the buffer must be mapped, and stay mapped while it is registered"
	default:
		return "unexpected here", "look at dmesg"
	}
}

// memlockMeaning compares the bytes wanted with the limit on locked memory.
func memlockMeaning(wanted int) (meaning, fix string) {
	const rlimitMemlock = 8
	var lim syscall.Rlimit
	if err := syscall.Getrlimit(rlimitMemlock, &lim); err != nil || lim.Cur == ^uint64(0) {
		return fmt.Sprintf("cannot pin %d bytes; the locked-memory limit is not the reason", wanted),
			"use smaller buffers or fewer queue pairs; free memory ('free -m'); with huge pages look at 'sysctl vm.nr_hugepages'"
	}
	return fmt.Sprintf("cannot pin %d bytes; the locked-memory limit (RLIMIT_MEMLOCK) is %d bytes", wanted, lim.Cur),
		"raise the limit: 'ulimit -l unlimited' in this shell; for logins '* - memlock unlimited' in " +
			"/etc/security/limits.conf; " +
			"for a service 'LimitMEMLOCK=infinity'; for Docker '--ulimit memlock=-1 --cap-add=IPC_LOCK'"
}

// errnoError turns the return value of a wrapper into an error, nil for 0.
func errnoError(rc C.int) error {
	if rc == 0 {
		return nil
	}
	return syscall.Errno(rc)
}
