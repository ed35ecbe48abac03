/* Loading the Go library, and what keeps it out of the program's way: its signals, its children, its stderr. */
#define _GNU_SOURCE
#include "device.h"

#include <dlfcn.h>
#include <limits.h>
#include <semaphore.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#define GO_LIBRARY "libgobw-roce0.so"
enum { ADDRESS_SPACE = 1 << 30 }; /* most of it is reserved by Go's runtime, which ends the program where it cannot have it */

struct device_calls device;

static int is_forked;
static pthread_mutex_t loading = PTHREAD_MUTEX_INITIALIZER;

void say(const char *format, ...) {
	char line[512] = "gobw: ";
	va_list rest;
	va_start(rest, format);
	vsnprintf(line + 6, sizeof line - 7, format, rest);
	va_end(rest);
	strcat(line, "\n");
	if (write(STDERR_FILENO, line, strlen(line)) < 0)
		return; /* there is nobody to tell */
}

void *no_object(int error) {
	errno = error;
	return NULL;
}

int unsupported(const char *what) {
	say("%s: the software device " DEVICE_NAME " does not have it (EOPNOTSUPP)", what);
	return errno = EOPNOTSUPP;
}

static void after_fork(void) {
	if (device.Open)
		is_forked = 1;
}

/* forked refuses a call in a child of fork, which has no threads of the device. */
static int forked(void) {
	if (!is_forked)
		return 0;
	if (is_forked++ == 1)
		say("process %d was forked after " DEVICE_NAME " was opened, and cannot use it: fork first and open the device in "
		    "the child, or start the child with exec",
		    (int)getpid());
	return errno = EPERM;
}

int enter(void) {
	static __thread int has_room __attribute__((tls_model("initial-exec")));
	if (is_forked)
		return forked();
	if (!has_room)
		has_room = 1, device.MakeRoom();
	return 0;
}

/* Faults: Go's runtime has a handler of its own, which hands on what did not happen in Go. */

static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE};
static struct sigaction of_program[NSIG];

static void on_fault(int number, siginfo_t *info, void *frame) {
	struct sigaction *a = &of_program[number];
	if (a->sa_flags & SA_SIGINFO) {
		a->sa_sigaction(number, info, frame);
	} else if (a->sa_handler != SIG_DFL && a->sa_handler != SIG_IGN) {
		a->sa_handler(number);
	} else {
		signal(number, SIG_DFL); /* the instruction runs again, and ends the program as it would have without us */
	}
}

/*
 * load_library loads the Go library with all signals blocked, which its threads inherit: the program's signals reach the
 * program's threads. The dispositions that Go's runtime sets are taken back, but for faults.
 */
static void *load_library(const char *path) {
	sigset_t all, before;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	for (int n = 1; n < NSIG; n++)
		sigaction(n, NULL, &of_program[n]);
	struct sigaction handler = {.sa_flags = SA_SIGINFO | SA_ONSTACK};
	handler.sa_sigaction = on_fault;
	sigfillset(&handler.sa_mask);
	for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
		sigaction(faults[i], &handler, NULL);
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	int (*ready)(void) = library ? dlsym(library, "gobwReady") : NULL;
	if (ready)
		ready(); /* waits until Go's runtime has started */
	for (int n = 1; n < NSIG; n++)
		if (n != SIGSEGV && n != SIGBUS && n != SIGFPE)
			sigaction(n, &of_program[n], NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return library;
}

/*
 * Last words: a thread of its own tells the device that the program exits, as the one that exits may be in a signal
 * handler, in the middle of a call. It is made when the device is loaded: the handler may also have interrupted malloc,
 * whose locks pthread_create needs.
 */

enum { LAST_STACK = 256 << 10 }; /* Go runs its scheduler on it */
static sem_t exiting, said;
static pid_t speaker; /* the process that has the thread, 0 for none */

static void *last_words(void *nothing) {
	sigset_t all;
	device.MakeRoom(); /* allocates what Go keeps of a thread, which must not wait for malloc's locks at the end */
	sigfillset(&all);  /* again, as that let in more than faults */
	for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
		sigdelset(&all, faults[i]); /* memory of the program may be gone */
	pthread_sigmask(SIG_SETMASK, &all, NULL);
	while (sem_wait(&exiting))
		; /* EINTR */
	device.Quit();
	sem_post(&said);
	return nothing;
}

static void start_last_words(void) {
	pthread_t thread;
	pthread_attr_t attr;
	sigset_t all, before;
	sem_init(&exiting, 0, 0);
	sem_init(&said, 0, 0);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, LAST_STACK);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	if (!pthread_create(&thread, &attr, last_words, NULL))
		speaker = getpid();
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attr);
}

/*
 * quit only calls what a signal handler may call, and waits. It leaves signals as they are: they can end the wait.
 * Where the thread could not be made, it does nothing: this thread must not call the device, which it may hold, nor make
 * a thread now. A child of fork has no such thread; one of _Fork has another process number, but not is_forked.
 */
__attribute__((destructor)) static void quit(void) {
	struct timespec limit;
	if (is_forked || speaker != getpid())
		return;
	sem_post(&exiting);
	clock_gettime(CLOCK_REALTIME, &limit);
	limit.tv_sec++; /* where this thread holds the device */
	while (sem_timedwait(&said, &limit) && errno == EINTR)
		;
}

/* What pthread_atfork calls. That itself, as atexit, is in no shared library: releases link without the static part of libc. */
int __register_atfork(void (*before)(void), void (*parent)(void), void (*child)(void), void *library);

static int load(void) {
	char path[PATH_MAX];
	Dl_info self;
	if (!dladdr((void *)load_device, &self) || !self.dli_fname)
		return ENOENT;
	const char *slash = strrchr(self.dli_fname, '/');
	int directory = slash ? (int)(slash - self.dli_fname) + 1 : 0;
	snprintf(path, sizeof path, "%.*s" GO_LIBRARY, directory, self.dli_fname);
	void *probe = mmap(NULL, ADDRESS_SPACE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (probe == MAP_FAILED) {
		say(DEVICE_NAME " needs 1 GiB of address space: raise the limit (ulimit -v)");
		return ENOMEM;
	}
	munmap(probe, ADDRESS_SPACE);
	void *library = load_library(path);
	if (!library) {
		say("%s", dlerror());
		return ENOENT;
	}
	struct device_calls found = {0};
#define DEVICE_CALL_FIND(name, arguments)                                                                              \
	if (!(*(void **)&found.name = dlsym(library, "gobw" #name))) {                                                 \
		say("%s is of another version: gobw" #name " is missing", path);                                       \
		return ENOENT;                                                                                         \
	}
	DEVICE_CALLS(DEVICE_CALL_FIND)
	device = found;
	__register_atfork(NULL, NULL, after_fork, NULL);
	start_last_words();
	return 0;
}

int load_device(void) {
	if (forked())
		return EPERM;
	pthread_mutex_lock(&loading);
	int error = device.Open ? 0 : load();
	pthread_mutex_unlock(&loading);
	return error ? error : enter();
}
