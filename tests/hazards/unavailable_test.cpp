// Switched off, or on a machine that lacks what the pager needs: the program runs unchanged on plain memory,
// and one line says why. The lack is made by a system call filter, so these hold on every machine.
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/hazards/hazard.h"

namespace terrace::hazards {
namespace {

// From now on, and across exec, the call fails with EPERM.
void deny_system_call(unsigned number) {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter{static_cast<unsigned short>(std::size(program)), program};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0) {
    _exit(exit_skip);
  }
}

// The device gives a second way to a userfaultfd: /dev/null is put in its place, or the rights to it given
// up.
void deny_userfaultfd() {
  if (geteuid() == 0) {
    const bool hidden =
        unshare(CLONE_NEWNS) == 0 && mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
    if (!hidden) _exit(exit_skip);
    if (access("/dev/userfaultfd", F_OK) == 0 &&
        mount("/dev/null", "/dev/userfaultfd", nullptr, MS_BIND, nullptr) != 0) {
      _exit(exit_skip);
    }
  }
  deny_system_call(SYS_userfaultfd);
}

void fill_the_pools_disk() {
  const bool is_full = unshare(CLONE_NEWNS) == 0 &&
                       mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                       mount("tmpfs", HAZARD_SCRATCH, "tmpfs", 0, "size=1m") == 0;
  if (!is_full) _exit(exit_skip);
}

void deny_io_uring() { deny_system_call(SYS_io_uring_setup); }

terrace_status status_now() {
  terrace_status status{};
  status.size = sizeof status;
  HAZARD_CHECK(terrace_get_status(&status) == 0);
  return status;
}

void use_memory() {
  void* blocks[4];
  for (int i = 0; i < 4; ++i) {
    blocks[i] = allocate(16 * mib);
    fill_pattern(blocks[i], 16 * mib, i);
  }
  for (int i = 0; i < 4; ++i) {
    blocks[i] = std::realloc(blocks[i], 20 * mib);
    HAZARD_CHECK(blocks[i] != nullptr && count_wrong_pages(blocks[i], 16 * mib, i) == 0);
  }
  const int status =
      in_forked_child([&] { return count_wrong_pages(blocks[1], 16 * mib, 1) == 0 ? 0 : exit_wrong; });
  HAZARD_CHECK(exited_with(status, 0));
  void* zeroes = std::calloc(1, 8 * mib);
  HAZARD_CHECK(is_zero(zeroes, 8 * mib));
  std::free(zeroes);
  for (void* block : blocks) std::free(block);
}

long lines_of_ours(const std::string& output) {
  long count = 0;
  for (std::size_t at = output.find("terrace: "); at != std::string::npos;
       at = output.find("terrace: ", at + 1))
    ++count;
  return count;
}

}  // namespace

HAZARD_SCENARIO(runs_without_pager) {
  use_memory();
  const terrace_status status = status_now();
  HAZARD_CHECK(std::strcmp(status.pager, "active") != 0);
  HAZARD_CHECK(status.reason[0] != '\0');
}

TEST_CASE("hazard_disabled") {
  const Outcome outcome = run_scenario("runs_without_pager", {{"TERRACE_DISABLE", "1"}});
  INFO(outcome.output);
  CHECK(outcome.held());
  CHECK(lines_of_ours(outcome.output) <= 1);
}

TEST_CASE("hazard_unconfigured") {
  const Outcome outcome =
      run_scenario("runs_without_pager", {{"TERRACE_DRAM", ""}, {"TERRACE_POOL_DIR", ""}});
  INFO(outcome.output);
  CHECK(outcome.held());
  CHECK(lines_of_ours(outcome.output) <= 1);
}

TEST_CASE("hazard_no_userfaultfd") {
  const Outcome outcome = run_scenario("runs_without_pager", {}, &deny_userfaultfd);
  INFO(outcome.output);
  if (outcome.skipped) return report_skip("system calls cannot be denied here");
  CHECK(outcome.held());
  CHECK(lines_of_ours(outcome.output) == 1);
  CHECK(outcome.says("userfaultfd"));
}

TEST_CASE("hazard_bad_setting") {
  const Outcome outcome = run_scenario("runs_without_pager", {{"TERRACE_DRAM", "lots"}});
  INFO(outcome.output);
  CHECK(outcome.held());
  CHECK(lines_of_ours(outcome.output) == 1);
  CHECK(outcome.says("TERRACE_DRAM"));
}

TEST_CASE("hazard_bad_fault") {
  const Outcome outcome = run_scenario("runs_without_pager", {{"TERRACE_FAULT", "foo"}});
  INFO(outcome.output);
  if (!outcome.says("TERRACE_FAULT") && outcome.says("userfaultfd")) return report_skip("no pager here");
  CHECK(outcome.held());
  CHECK(lines_of_ours(outcome.output) == 1);
  CHECK(outcome.says("TERRACE_FAULT=foo is not understood (read:N:ERROR"));
}

HAZARD_SCENARIO(runs) {
  require_pager();
  use_memory();
}

TEST_CASE("hazard_codec_without_room") {
  for (const char* codec : {"zvc", "off", "auto"}) {
    const Outcome outcome = run_scenario("runs", {{"TERRACE_DRAM", "48M"}, {"TERRACE_COMPRESS", codec}});
    INFO(codec << "\n" << outcome.output);
    if (outcome.skipped) return report_skip(outcome.skip_reason());
    CHECK(outcome.held());
    CHECK(lines_of_ours(outcome.output) == (std::strcmp(codec, "zvc") == 0 ? 1 : 0));
    CHECK(outcome.says("nothing is compressed") == (std::strcmp(codec, "zvc") == 0));
  }
}

TEST_CASE("hazard_no_pool_directory") {
  for (const char* list : {"/nonexistent/pool", HAZARD_SCRATCH ",/nonexistent/pool"}) {
    const Outcome outcome = run_scenario("runs_without_pager", {{"TERRACE_POOL_DIR", list}});
    INFO(outcome.output);
    CHECK(outcome.held());
    CHECK(lines_of_ours(outcome.output) == 1);
    CHECK(outcome.says("TERRACE_POOL_DIR=/nonexistent/pool: no pool file"));
  }
}

TEST_CASE("hazard_pool_disk_full_at_the_start") {
  const Outcome outcome =
      run_scenario("runs_without_pager", {{"TERRACE_POOL_SIZE", ""}}, &fill_the_pools_disk);
  INFO(outcome.output);
  if (outcome.skipped) return report_skip("a full disk cannot be mounted here (needs root)");
  CHECK(outcome.held());
  CHECK(lines_of_ours(outcome.output) == 1);
  CHECK(outcome.says("the pool file cannot be used, errno 28 (ENOSPC)"));
}

// Without io_uring the pager works on pread and pwrite.
HAZARD_SCENARIO(pages_without_io_uring) {
  require_pager();
  HAZARD_CHECK(std::strcmp(status_now().io, "pread") == 0);
  void* block = allocate(32 * mib);
  fill_pattern(block, 32 * mib, 1);
  evict(block, 32 * mib);
  HAZARD_CHECK(count_wrong_pages(block, 32 * mib, 1) == 0);
  evict(block, 32 * mib);
  const int status =
      in_forked_child([&] { return count_wrong_pages(block, 32 * mib, 1) == 0 ? 0 : exit_wrong; });
  HAZARD_CHECK(exited_with(status, 0));
}

TEST_CASE("hazard_no_io_uring") {
  for (const std::string& mover : movers()) {
    const Outcome outcome =
        run_scenario("pages_without_io_uring", {{"TERRACE_MOVER", mover}}, &deny_io_uring);
    INFO("mover " << mover << ", wait status " << outcome.status << "\n" << outcome.output);
    if (outcome.skipped) return report_skip(outcome.skip_reason());
    CHECK(outcome.held());
    CHECK(lines_of_ours(outcome.output) == 1);
    CHECK(outcome.says("io_uring"));
  }
}

}  // namespace terrace::hazards
