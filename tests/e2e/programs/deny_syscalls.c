/* Runs a command on a kernel that refuses what Terrace would like to have, as container runtimes do (EPERM).
 *
 *   deny_syscalls userfaultfd io_uring -- command…
 *
 * "userfaultfd" refuses the system call and the ioctl through which /dev/userfaultfd gives out descriptors;
 * the device itself can still be opened, seccomp cannot look at names. "io_uring" refuses io_uring_setup. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define USERFAULTFD_IOC_NEW 0xAA00U
#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define SKIP_UNLESS(value, count) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (value), 0, (count))
#define REFUSE BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM)
#define ALLOW BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

static int install(struct sock_filter* code, size_t count) {
  const struct sock_fprog program = {(unsigned short)count, code};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) return -1;
  return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0);
}

static int deny_userfaultfd(void) {
  struct sock_filter code[] = {
      LOAD(nr),      SKIP_UNLESS(__NR_userfaultfd, 1),    REFUSE, SKIP_UNLESS(__NR_ioctl, 3),
      LOAD(args[1]), SKIP_UNLESS(USERFAULTFD_IOC_NEW, 1), REFUSE, ALLOW};
  return install(code, sizeof code / sizeof code[0]);
}

static int deny_io_uring(void) {
  struct sock_filter code[] = {LOAD(nr), SKIP_UNLESS(__NR_io_uring_setup, 1), REFUSE, ALLOW};
  return install(code, sizeof code / sizeof code[0]);
}

static int deny(const char* what) {
  if (strcmp(what, "userfaultfd") == 0) return deny_userfaultfd();
  if (strcmp(what, "io_uring") == 0) return deny_io_uring();
  errno = EINVAL;
  return -1;
}

int main(int argc, char** argv) {
  int at = 1;
  for (; at < argc && strcmp(argv[at], "--") != 0; ++at) {
    if (deny(argv[at])) {
      fprintf(stderr, "deny_syscalls: cannot refuse %s: %s\n", argv[at], strerror(errno));
      return 125;
    }
  }
  if (at + 1 >= argc) {
    fprintf(stderr, "usage: deny_syscalls [userfaultfd] [io_uring] -- command...\n");
    return 125;
  }
  execvp(argv[at + 1], argv + at + 1);
  fprintf(stderr, "deny_syscalls: %s: %s\n", argv[at + 1], strerror(errno));
  return 127;
}
