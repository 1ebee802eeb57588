// Extents and the children that may still read them, with real forks: what a child could see is held until
// that child has exited or called exec.
#include "liballoc/paging/transfers/fork_ledger.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <vector>

#include "tests/liballoc/support.h"

namespace terrace::liballoc {
namespace {

using tiers::Extent;

constexpr Extent first{0, run_bytes};
constexpr Extent second{run_bytes, run_bytes};

// A forked child of a process with a ledger. It lives until told what to do.
class Child {
 public:
  explicit Child(ForkLedger& ledger) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) std::abort();
    began_ = ledger.begin();
    pid_ = test::start_child([&] { return live(ledger, ends); });
    ledger.end_in_parent(true);
    ::close(ends[0]);
    command_ = ends[1];
  }
  ~Child() { end('x'); }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  int began() const { return began_; }
  void exit() { end('x'); }
  // The child becomes another program, which lives until release().
  void call_exec() { tell('e'); }
  void release() { end('\0'); }

 private:
  static int live(ForkLedger& ledger, const int (&ends)[2]) {
    ledger.end_in_child();
    ::close(ends[1]);
    char order = 'x';
    if (::read(ends[0], &order, 1) == 1 && order == 'e') {
      ::dup2(ends[0], STDIN_FILENO);
      ::execlp("cat", "cat", static_cast<char*>(nullptr));
      return 1;
    }
    return 0;
  }
  void tell(char order) const {
    if (::write(command_, &order, 1) != 1) std::abort();
  }
  void end(char order) {
    if (pid_ < 0) return;
    if (order != '\0') tell(order);
    ::close(command_);
    if (test::result_of(pid_) != 0) std::abort();
    pid_ = -1;
  }

  int began_ = 0;
  pid_t pid_ = -1;
  int command_ = -1;
};

// Waits for `count` hang-ups, as the agent does, and tells the ledger.
void reap(ForkLedger& ledger, std::size_t count) {
  for (std::size_t gone = 0; gone < count;) {
    int fds[ForkLedger::most_children];
    pollfd polled[ForkLedger::most_children];
    const std::size_t n = ledger.watched(fds, ForkLedger::most_children);
    REQUIRE(n > 0);
    for (std::size_t i = 0; i < n; ++i) polled[i] = {fds[i], 0, 0};
    REQUIRE(::poll(polled, n, 30'000) > 0);
    for (std::size_t i = 0; i < n; ++i) {
      if ((polled[i].revents & POLLHUP) == 0) continue;
      ledger.child_gone(polled[i].fd);
      ++gone;
    }
  }
}

// No child has hung up yet.
bool all_alive(const ForkLedger& ledger) {
  int fds[ForkLedger::most_children];
  const std::size_t n = ledger.watched(fds, ForkLedger::most_children);
  for (std::size_t i = 0; i < n; ++i) {
    pollfd polled{fds[i], 0, 0};
    if (::poll(&polled, 1, 0) != 0) return false;
  }
  return n > 0;
}

std::vector<Extent> released(ForkLedger& ledger) {
  std::vector<Extent> all;
  for (Extent extent; ledger.next_released(&extent);) all.push_back(extent);
  return all;
}

int open_descriptors() {
  int count = 0;
  for (int fd = 0; fd < 1024; ++fd) count += ::fcntl(fd, F_GETFD) >= 0 ? 1 : 0;
  return count;
}

}  // namespace

TEST_CASE("Without children every extent is free at once") {
  ForkLedger ledger;
  REQUIRE(ledger.initialise() == 0);
  CHECK(ledger.may_release(first, ledger.epoch()));
  CHECK_FALSE(ledger.has_children());
  CHECK(released(ledger).empty());
}

TEST_CASE("An extent is held while a child that could see it lives") {
  ForkLedger ledger;
  REQUIRE(ledger.initialise() == 0);
  const std::uint32_t taken = ledger.epoch();
  Child child(ledger);
  CHECK(ledger.has_children());
  CHECK_FALSE(ledger.may_release(first, taken));
  CHECK(released(ledger).empty());
  CHECK(all_alive(ledger));
  child.exit();
  reap(ledger, 1);
  CHECK_FALSE(ledger.has_children());
  CHECK(released(ledger) == std::vector{first});
  CHECK(released(ledger).empty());
}

TEST_CASE("A child that calls exec sees nothing any more") {
  ForkLedger ledger;
  REQUIRE(ledger.initialise() == 0);
  const std::uint32_t taken = ledger.epoch();
  Child child(ledger);
  CHECK_FALSE(ledger.may_release(first, taken));
  child.call_exec();
  reap(ledger, 1);
  CHECK(released(ledger) == std::vector{first});
  child.release();
}

TEST_CASE("A grandchild holds what its parent could see") {
  ForkLedger ledger;
  REQUIRE(ledger.initialise() == 0);
  const std::uint32_t taken = ledger.epoch();
  int ends[2];
  REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
  REQUIRE(ledger.begin() == 0);
  const pid_t child = test::start_child([&] {
    ledger.end_in_child();
    ::close(ends[1]);
    char order = 0;
    if (::fork() == 0) return ::read(ends[0], &order, 1) == 0 ? 0 : 1;  // until the parent closes its end
    return 0;
  });
  ledger.end_in_parent(true);
  ::close(ends[0]);
  CHECK(test::result_of(child) == 0);
  CHECK_FALSE(ledger.may_release(first, taken));
  CHECK(all_alive(ledger));
  ::close(ends[1]);
  reap(ledger, 1);
  CHECK(released(ledger) == std::vector{first});
}

TEST_CASE("An extent taken after the fork is none of the child's") {
  ForkLedger ledger;
  REQUIRE(ledger.initialise() == 0);
  Child child(ledger);
  CHECK(ledger.may_release(first, ledger.epoch()));
}

TEST_CASE("Two children of different epochs hold what each could see") {
  ForkLedger ledger;
  REQUIRE(ledger.initialise() == 0);
  const std::uint32_t early = ledger.epoch();
  Child one(ledger);
  const std::uint32_t late = ledger.epoch();
  Child two(ledger);
  CHECK_FALSE(ledger.may_release(first, early));  // seen by both
  CHECK_FALSE(ledger.may_release(second, late));  // seen by the second only
  SECTION("the first goes first") {
    one.exit();
    reap(ledger, 1);
    CHECK(released(ledger).empty());
    two.exit();
    reap(ledger, 1);
    CHECK(released(ledger).size() == 2);
  }
  SECTION("the second goes first") {
    two.exit();
    reap(ledger, 1);
    CHECK(released(ledger) == std::vector{second});
    one.exit();
    reap(ledger, 1);
    CHECK(released(ledger) == std::vector{first});
  }
}

TEST_CASE("What was released before a fork is none of that child's") {
  ForkLedger ledger;
  REQUIRE(ledger.initialise() == 0);
  const std::uint32_t taken = ledger.epoch();
  Child one(ledger);
  CHECK_FALSE(ledger.may_release(first, taken));
  Child two(ledger);
  one.exit();
  reap(ledger, 1);
  CHECK(released(ledger) == std::vector{first});
}

TEST_CASE("A fork that failed holds nothing and leaks nothing") {
  ForkLedger ledger;
  REQUIRE(ledger.initialise() == 0);
  const int before = open_descriptors();
  const std::uint32_t taken = ledger.epoch();
  REQUIRE(ledger.begin() == 0);
  ledger.end_in_parent(false);
  CHECK(open_descriptors() == before);
  CHECK(ledger.may_release(first, taken));
}

TEST_CASE("Every child's descriptor is closed when it has gone") {
  ForkLedger ledger;
  REQUIRE(ledger.initialise() == 0);
  const int before = open_descriptors();
  for (int i = 0; i < 3; ++i) {
    Child child(ledger);
    child.exit();
    reap(ledger, 1);
  }
  CHECK(open_descriptors() == before);
}

TEST_CASE("Without a descriptor to watch with, what exists now is held for good") {
  ForkLedger ledger;
  REQUIRE(ledger.initialise() == 0);
  const std::uint32_t taken = ledger.epoch();
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  const int next = ::dup(STDIN_FILENO);
  ::close(next);
  const rlimit none_left{static_cast<rlim_t>(next), before.rlim_max};
  ::setrlimit(RLIMIT_NOFILE, &none_left);
  const int error = ledger.begin();
  ::setrlimit(RLIMIT_NOFILE, &before);
  CHECK(error == EMFILE);
  CHECK(test::in_child([&] {
          ledger.end_in_child();
          return 0;
        }) == 0);
  ledger.end_in_parent(true);
  CHECK_FALSE(ledger.may_release(first, taken));
  CHECK(released(ledger).empty());
  CHECK(ledger.may_release(second, ledger.epoch()));  // taken later: nobody saw it
}

}  // namespace terrace::liballoc
