//go:build linux && cgo

package ibv

/*
#cgo CFLAGS: -std=gnu11 -O3 -Wall -Wextra -fno-plt
#cgo LDFLAGS: -ldl
#include <stdlib.h>
#include "rdmacm.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"unsafe"

	"github.com/gobw/gobw/verbs"
)

// sharedLibrary is loaded when it is first needed, and never unloaded. It may be used by several goroutines.
type sharedLibrary struct {
	name    string // the file asked of the dynamic loader, which honours LD_LIBRARY_PATH
	purpose string // of loading it, for errors
	table   *C.struct_vb_table
	install string // what to do where it is not there,
	replace string // or lacks a required symbol

	once   sync.Once
	loaded C.struct_vb_loaded
	calls  unsafe.Pointer // C memory: struct vb_verbs, or vb_cm
	err    error
}

func libibverbs() sharedLibrary {
	return sharedLibrary{
		name: "libibverbs.so.1", table: &C.vb_verbs_table,
		install: "install it: apt install libibverbs1 ibverbs-providers (Debian, Ubuntu), " +
			"dnf install libibverbs (Fedora, RHEL), " +
			"zypper install libibverbs (SUSE); without RDMA hardware use the software device (roce0)",
		replace: "this is not the libibverbs of rdma-core: look at LD_LIBRARY_PATH and 'ldconfig -p | grep libibverbs'",
	}
}

func librdmacm() sharedLibrary {
	return sharedLibrary{
		name: "librdmacm.so.1", purpose: " for connections by RDMA CM", table: &C.vb_cm_table,
		install: "install it: apt install librdmacm1 (Debian, Ubuntu), dnf install librdmacm (Fedora, RHEL), " +
			"zypper install librdmacm1 (SUSE); " +
			"or connect without RDMA CM",
		replace: "librdmacm of rdma-core 22 or newer has them: upgrade it, or look at LD_LIBRARY_PATH; " +
			"or connect without RDMA CM",
	}
}

// load opens the library once and remembers the answer.
func (l *sharedLibrary) load() error {
	l.once.Do(func() {
		name := C.CString(l.name)
		defer C.free(unsafe.Pointer(name))
		l.calls = C.calloc(1, l.table.size)
		e := &verbs.Error{Verb: "load " + l.name + l.purpose}
		switch C.vb_load(&l.loaded, name, l.table, l.calls) {
		case 0:
			return
		case -1:
			e.Err, e.Fix = errors.New(C.GoString(&l.loaded.error[0])), l.install
		default:
			var required []string
			for _, s := range l.missing() {
				if s.Without == "" {
					required = append(required, s.Name+"@"+s.Version)
				}
			}
			e.Err, e.Fix = fmt.Errorf("%s lacks %s", C.GoString(&l.loaded.path[0]), strings.Join(required, ", ")), l.replace
		}
		l.err = e
	})
	return l.err
}

// symbols is the whole table, which lies in C. Nothing is off without a required one: it has no Without.
func (l *sharedLibrary) symbols() (all []MissingSymbol) {
	for _, s := range unsafe.Slice(l.table.rows, l.table.count) {
		all = append(all, MissingSymbol{C.GoString(s.name), C.GoString(s.version), C.GoString(s.without)})
	}
	return all
}

// missing are the symbols that a loaded library does not have.
func (l *sharedLibrary) missing() (lacks []MissingSymbol) {
	for i, s := range l.symbols() {
		if l.loaded.missing&(1<<i) != 0 {
			lacks = append(lacks, s)
		}
	}
	return lacks
}
