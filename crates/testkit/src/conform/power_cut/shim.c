/* Records, in the order in which it happens, what a process does to the files below POWER_CUT_DIR and what it says on stdout.
 * Loaded before libc (LD_PRELOAD). A record: kind, two numbers, a length, that many bytes. What it can't record it names ('X'). */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int record_fd = -1;
static char root[PATH_MAX];
#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define BEGIN pthread_mutex_lock(&lock)
#define END(result) do { int kept = errno; pthread_mutex_unlock(&lock); errno = kept; return result; } while (0)

__attribute__((constructor(65534))) static void start(void) {
  const char *path = getenv("POWER_CUT_LOG"), *dir = getenv("POWER_CUT_DIR");
  if (!path || !dir || !realpath(dir, root)) return;
  record_fd = syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (record_fd < 0) abort();
}

static void record(char kind, uint64_t a, uint64_t b, const void *data, size_t len) {
  char head[21];
  uint32_t n = len;
  int kept = errno;
  head[0] = kind; memcpy(head + 1, &a, 8); memcpy(head + 9, &b, 8); memcpy(head + 17, &n, 4);
  struct iovec parts[2] = {{head, 21}, {(void *)data, len}};
  long written = syscall(SYS_writev, record_fd, parts, 2);
  /* A trial that limits the size of files limits this one too; it cuts no power. */
  if (written != (long)(21 + len) && errno != EFBIG) abort();
  errno = kept;
}

__attribute__((constructor(65535))) static void begin(void) { if (record_fd >= 0) record('B', 0, 0, "", 0); }

static int below(const char *path) {
  size_t n = strlen(root);
  return record_fd >= 0 && strncmp(path, root, n) == 0 && (path[n] == '/' || path[n] == 0);
}

/* Whether a descriptor is a file or directory of ours, and which. */
static int ours(int fd, struct stat *st) {
  char link[64], path[PATH_MAX + 16];
  if (record_fd < 0) return 0;
  int kept = errno;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t n = readlink(link, path, sizeof path - 1);
  int yes = 0;
  if (n > 0) { path[n] = 0; yes = below(path) && fstat(fd, st) == 0 && (S_ISREG(st->st_mode) || S_ISDIR(st->st_mode)); }
  errno = kept;
  return yes;
}

/* The whole path of a name, its directory's number and its last part. */
static int named(int at, const char *name, char *path, struct stat *dir, char **last) {
  if (record_fd < 0) return 0;
  int kept = errno;
  char copy[PATH_MAX], real[PATH_MAX];
  if (name[0] == '/') snprintf(path, PATH_MAX, "%s", name);
  else if (at == AT_FDCWD) { if (!getcwd(copy, sizeof copy)) return 0; snprintf(path, PATH_MAX, "%s/%s", copy, name); }
  else {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", at);
    ssize_t n = readlink(link, copy, sizeof copy - 1);
    if (n <= 0) { errno = kept; return 0; }
    copy[n] = 0;
    snprintf(path, PATH_MAX, "%s/%s", copy, name);
  }
  snprintf(copy, sizeof copy, "%s", path);
  *last = strrchr(path, '/') + 1;
  int yes = realpath(dirname(copy), real) && below(real) && stat(real, dir) == 0;
  errno = kept;
  return yes;
}

static int opened(const char *symbol, int at, const char *name, int flags, mode_t mode) {
  int (*real)(int, const char *, int, ...) = dlsym(RTLD_NEXT, symbol);
  if (!(flags & (O_CREAT | O_TRUNC))) return real(at, name, flags, mode);
  char path[PATH_MAX], *last;
  struct stat dir, st;
  BEGIN;
  int mine = named(at, name, path, &dir, &last), fresh = mine && stat(path, &st) != 0;
  int fd = real(at, name, flags, mode);
  if (fd >= 0 && mine && fstat(fd, &st) == 0) {
    if (fresh) record('L', dir.st_ino, st.st_ino, last, strlen(last));
    else if (flags & O_TRUNC) record('T', st.st_ino, 0, "", 0);
  }
  END(fd);
}

static mode_t mode_of(int flags, va_list list) { return flags & (O_CREAT | O_TMPFILE) ? va_arg(list, mode_t) : 0; }
#define OPEN(symbol) int symbol(const char *name, int flags, ...) { \
  va_list list; va_start(list, flags); mode_t mode = mode_of(flags, list); va_end(list); \
  return opened("openat64", AT_FDCWD, name, flags, mode); }
OPEN(open) OPEN(open64)
#define OPENAT(symbol) int symbol(int at, const char *name, int flags, ...) { \
  va_list list; va_start(list, flags); mode_t mode = mode_of(flags, list); va_end(list); \
  return opened("openat64", at, name, flags, mode); }
OPENAT(openat) OPENAT(openat64)

static void wrote(int fd, off_t at, const void *data, ssize_t n) {
  struct stat st;
  if (n <= 0) return;
  if (fd == 1 && record_fd >= 0) record('O', 0, 0, data, n);
  else if (ours(fd, &st)) record('W', st.st_ino, at, data, n);
}

static off_t place(int fd) {
  struct stat st;
  int kept = errno, flags = fcntl(fd, F_GETFL);
  off_t at = flags >= 0 && (flags & O_APPEND) && fstat(fd, &st) == 0 ? st.st_size : lseek(fd, 0, SEEK_CUR);
  errno = kept;
  return at;
}

ssize_t write(int fd, const void *data, size_t len) {
  BEGIN;
  off_t at = place(fd);
  ssize_t n = REAL(write)(fd, data, len);
  wrote(fd, at, data, n);
  END(n);
}
ssize_t writev(int fd, const struct iovec *parts, int count) {
  BEGIN;
  off_t at = place(fd);
  ssize_t n = REAL(writev)(fd, parts, count), left = n;
  for (int i = 0; i < count && left > 0; i++) {
    ssize_t part = left < (ssize_t)parts[i].iov_len ? left : (ssize_t)parts[i].iov_len;
    wrote(fd, at, parts[i].iov_base, part);
    at += part; left -= part;
  }
  END(n);
}
#define PWRITE(symbol) ssize_t symbol(int fd, const void *data, size_t len, off_t at) { \
  BEGIN; ssize_t n = REAL(symbol)(fd, data, len, at); wrote(fd, at, data, n); END(n); }
PWRITE(pwrite) PWRITE(pwrite64)
#define TRUNCATE(symbol) int symbol(int fd, off_t size) { \
  struct stat st; BEGIN; int r = REAL(symbol)(fd, size); if (r == 0 && ours(fd, &st)) record('T', st.st_ino, size, "", 0); END(r); }
TRUNCATE(ftruncate) TRUNCATE(ftruncate64)
#define SYNC(symbol) int symbol(int fd) { \
  struct stat st; BEGIN; int r = REAL(symbol)(fd); if (r == 0 && ours(fd, &st)) record('S', st.st_ino, 0, "", 0); END(r); }
SYNC(fsync) SYNC(fdatasync)
int sync_file_range(int fd, off64_t from, off64_t count, unsigned flags) {
  struct stat st;
  BEGIN;
  int r = REAL(sync_file_range)(fd, from, count, flags);
  int64_t size = count;
  if (r == 0 && ours(fd, &st)) record('R', st.st_ino, from, &size, 8);
  END(r);
}

static int removed(int at, const char *name, int flags) {
  char path[PATH_MAX], *last;
  struct stat dir;
  BEGIN;
  int mine = named(at, name, path, &dir, &last);
  int r = REAL(unlinkat)(at, name, flags);
  if (r == 0 && mine) record('U', dir.st_ino, 0, last, strlen(last));
  END(r);
}
int unlink(const char *name) { return removed(AT_FDCWD, name, 0); }
int rmdir(const char *name) { return removed(AT_FDCWD, name, AT_REMOVEDIR); }
int unlinkat(int at, const char *name, int flags) { return removed(at, name, flags); }

int mkdir(const char *name, mode_t mode) {
  char path[PATH_MAX], *last;
  struct stat dir, st;
  BEGIN;
  int r = REAL(mkdir)(name, mode);
  if (r == 0 && named(AT_FDCWD, name, path, &dir, &last) && stat(path, &st) == 0)
    record('D', dir.st_ino, st.st_ino, last, strlen(last));
  END(r);
}
int rename(const char *from, const char *to) {
  char old[PATH_MAX], new[PATH_MAX], both[2 * PATH_MAX], *first, *last;
  struct stat here, there, st;
  BEGIN;
  int mine = named(AT_FDCWD, from, old, &here, &first), theirs = named(AT_FDCWD, to, new, &there, &last);
  int r = REAL(rename)(from, to);
  if (r == 0 && (mine || theirs)) {
    if (mine && theirs && here.st_ino == there.st_ino && stat(new, &st) == 0)
      record('M', here.st_ino, st.st_ino, both, snprintf(both, sizeof both, "%s/%s", first, last));
    else record('X', 0, 0, "a rename between directories", 28);
  }
  END(r);
}

static void unseen(const char *what, int fd) {
  struct stat st;
  if (ours(fd, &st)) record('X', st.st_ino, 0, what, strlen(what));
}
#define MMAP(symbol) void *symbol(void *at, size_t len, int protection, int flags, int fd, off_t from) { \
  if (fd >= 0 && (flags & MAP_SHARED) && (protection & PROT_WRITE)) { BEGIN; unseen("a writable mapping", fd); pthread_mutex_unlock(&lock); } \
  return (void *)syscall(SYS_mmap, at, len, protection, flags, fd, from); }
MMAP(mmap) MMAP(mmap64)
