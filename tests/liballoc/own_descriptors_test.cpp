// Which numbers are ours, and when they no longer are.
#include "liballoc/base/own_descriptors.h"

#include <fcntl.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>

#include "tests/liballoc/support.h"

namespace terrace::liballoc {
namespace {

// What other tests of this program left.
struct EmptyTable {
  EmptyTable() { forget_all_descriptors(); }
};

struct Pipe : EmptyTable {
  Pipe() { REQUIRE(::pipe2(ends, O_CLOEXEC) == 0); }
  int ends[2] = {-1, -1};
};

}  // namespace

TEST_CASE("A kept descriptor moves up, out of the program's numbers, and is known there") {
  Pipe pipe;
  const int kept = keep_descriptor(pipe.ends[0]);
  CHECK(kept > pipe.ends[1]);
  CHECK(::fcntl(pipe.ends[0], F_GETFD) == -1);
  CHECK((::fcntl(kept, F_GETFD) & FD_CLOEXEC) != 0);
  CHECK(is_kept(kept));
  CHECK_FALSE(is_kept(pipe.ends[1]));
  CHECK_FALSE(is_kept(-1));
  CHECK(next_kept(0) == kept);
  CHECK(next_kept(kept + 1) == INT_MAX);
  close_kept(kept);
  CHECK_FALSE(is_kept(kept));
  CHECK(::fcntl(kept, F_GETFD) == -1);
  CHECK(keep_descriptor(-1) == -1);
  ::close(pipe.ends[1]);
}

TEST_CASE("A number that means another file by now is the program's, and is not closed") {
  Pipe pipe;
  const Pipe other;
  const int kept = keep_descriptor(pipe.ends[0]);
  const int noted = other.ends[1];
  note_descriptor(noted, Descriptor::replaceable);
  CHECK(first_lost_descriptor() == -1);
  REQUIRE(::dup2(other.ends[0], kept) == kept);
  REQUIRE(::dup2(pipe.ends[1], noted) == noted);
  CHECK(first_lost_descriptor() == kept);  // the other one is opened anew by its owner
  CHECK_FALSE(is_intact(kept));
  CHECK_FALSE(is_kept(kept));
  CHECK(next_kept(0) == INT_MAX);
  close_kept(kept);
  CHECK(::fcntl(kept, F_GETFD) >= 0);
  CHECK(first_lost_descriptor() == -1);
  forget_descriptor(noted);
  for (const int fd : {kept, noted, pipe.ends[1], other.ends[0]}) ::close(fd);
}

// A sandbox that is put up while the program runs, or that was there before.
TEST_CASE("A descriptor that may not be looked at is not taken for one that was closed") {
  const bool noted_before = GENERATE(true, false);
  CHECK(test::in_child([=] {
          forget_all_descriptors();
          int ends[2];
          if (::pipe2(ends, O_CLOEXEC) != 0) return 2;
          const auto note = [&] {
            for (const int fd : ends) note_descriptor(fd);
          };
          if (noted_before) note();
          for (const int fd : ends) {
            if (!test::deny_call(SYS_newfstatat, 0, static_cast<unsigned>(fd), EPERM)) return 3;
            if (!test::deny_call(SYS_fstat, 0, static_cast<unsigned>(fd), EPERM)) return 3;
          }
          if (!noted_before) note();
          if (!is_kept(ends[0]) || first_lost_descriptor() != -1) return 4;
          close_kept(ends[0]);
          if (::fcntl(ends[0], F_GETFD) != -1) return 5;
          ::close(ends[1]);
          return first_lost_descriptor() == ends[1] && !is_kept(ends[1]) ? 0 : 6;
        }) == 0);
}

TEST_CASE("What does not fit into the table is not protected, and nothing else is harmed") {
  const Pipe pipe;
  for (int i = 0; i < 600; ++i) note_descriptor(pipe.ends[0]);
  note_descriptor(pipe.ends[1]);
  CHECK(is_kept(pipe.ends[0]));
  CHECK_FALSE(is_kept(pipe.ends[1]));
  forget_all_descriptors();
  CHECK_FALSE(is_kept(pipe.ends[0]));
  for (const int fd : pipe.ends) ::close(fd);
}

}  // namespace terrace::liballoc
