#include "liballoc/agent/waiting/waker.h"

#include <poll.h>

#include <catch2/catch.hpp>

#include "liballoc/paging/pager.h"

namespace terrace::liballoc {
namespace {

constinit Pager pager_at_rest;

bool is_readable(int fd) {
  pollfd waiting{.fd = fd, .events = POLLIN, .revents = 0};
  return ::poll(&waiting, 1, 0) == 1;
}

struct OpenWaker {
  Waker waker{pager_at_rest};
  OpenWaker() { REQUIRE(waker.open()); }
  ~OpenWaker() { waker.close(); }
};

}  // namespace

TEST_CASE("AKickBeforeTheRestKeepsTheAgentAwakeWithoutASystemCall") {
  OpenWaker open;
  open.waker.kick();
  CHECK_FALSE(is_readable(open.waker.fd()));
  CHECK(open.waker.begin_rest());
  open.waker.end_rest();
}

TEST_CASE("AKickDuringTheRestWakesOnce") {
  OpenWaker open;
  REQUIRE_FALSE(open.waker.begin_rest());
  open.waker.kick();
  CHECK(is_readable(open.waker.fd()));
  open.waker.drain();
  open.waker.kick();
  CHECK_FALSE(is_readable(open.waker.fd()));
  open.waker.end_rest();
  CHECK(open.waker.begin_rest());
}

TEST_CASE("AKickWithoutAPipeDoesNothing") {
  OpenWaker open;
  open.waker.begin_rest();
  open.waker.reset_in_child();
  CHECK(open.waker.fd() == -1);
  open.waker.begin_rest();
  open.waker.kick();
  open.waker.drain();
}

}  // namespace terrace::liballoc
