// What clients send and how long it takes to close is their choice; whom it delays is not.
#include "daemon/sockets/received_files.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>

#include "daemon/pools/pools.h"
#include "tests/daemon/support.h"

using namespace terrace;
using namespace terrace::tests;
using daemon::ReceivedFiles;
using daemon::UniqueFd;

namespace {

constexpr uid_t someone = 1000, somebody_else = 1001;

struct Pair {
  UniqueFd ours, theirs;
  Pair() {
    int ends[2];
    REQUIRE(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
    ours.reset(ends[0]);
    theirs.reset(ends[1]);
  }
  void send(const std::vector<int>& fds, std::size_t bytes = 1) const {
    char byte = 0;
    iovec part{&byte, bytes};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * 8)] = {};
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    if (!fds.empty()) {
      header.msg_control = control;
      header.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
      cmsghdr* rights = CMSG_FIRSTHDR(&header);
      rights->cmsg_level = SOL_SOCKET;
      rights->cmsg_type = SCM_RIGHTS;
      rights->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
      std::copy(fds.begin(), fds.end(), reinterpret_cast<int*>(CMSG_DATA(rights)));
    }
    REQUIRE(::sendmsg(theirs.get(), &header, 0) == static_cast<ssize_t>(bytes));
  }
  bool has_files() const {
    ::shutdown(ours.get(), SHUT_RDWR);
    return daemon::has_queued_files(ours.get());
  }
};

ReceivedFiles::Result result_of(ReceivedFiles& files) {
  std::vector<ReceivedFiles::Result> results;
  REQUIRE(eventually([&] { return !(results = files.results()).empty(); }));
  REQUIRE(results.size() == 1);
  return std::move(results.front());
}

void close_slowly(ReceivedFiles& files, uid_t uid, LingeringSocket& slow) {
  Pair pair;
  pair.send({slow.fd()});
  slow.let_go();
  files.close(uid, std::move(pair.ours));
}

}  // namespace

TEST_CASE("the one file of a packet is looked at, handed on, and closed when nobody keeps it") {
  const TemporaryDirectory directory;
  ReceivedFiles files;
  const UniqueFd pool(daemon::open_unlinked(directory.path()));
  REQUIRE(::fallocate(pool.get(), 0, 0, 1 << 20) == 0);
  Pair pair;
  pair.send({pool.get()});
  // A thread of the case before may still close its last file: the least of some counts.
  std::size_t before = open_descriptors(::getpid());
  for (int i = 0; i < 100; ++i) before = std::min(before, open_descriptors(::getpid()));
  files.inspect(7, someone, UniqueFd(::fcntl(pair.ours.get(), F_DUPFD_CLOEXEC, 0)));
  auto result = result_of(files);
  CHECK(result.ticket == 7);
  CHECK(result.uid == someone);
  REQUIRE(result.file);
  CHECK(result.file->allocated_bytes >= 1 << 20);
  CHECK(daemon::disk_bytes(result.file->descriptor->get()) == result.file->allocated_bytes);
  auto kept = result.file->descriptor;
  files.give_back(someone, result.file);
  CHECK(daemon::disk_bytes(kept->get()));
  kept.reset();
  files.give_back(someone, std::move(result.file));
  CHECK(eventually([&] { return files.pending() == 0; }));
  CHECK(eventually([&] { return open_descriptors(::getpid()) <= before; }));
}

TEST_CASE("anything else than one file is none") {
  const TemporaryDirectory directory;
  ReceivedFiles files;
  const UniqueFd pool(daemon::open_unlinked(directory.path()));
  const UniqueFd folder(::open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  Pair pair;
  SECTION("two") { pair.send({pool.get(), pool.get()}); }
  SECTION("a directory") { pair.send({folder.get()}); }
  SECTION("no descriptor") { pair.send({}); }
  SECTION("no packet") {}
  files.inspect(1, someone, std::move(pair.ours));
  CHECK_FALSE(result_of(files).file);
}

TEST_CASE("a descriptor that is slow to close delays its user only") {
  ReceivedFiles files;
  LingeringSocket slow;
  close_slowly(files, someone, slow);
  Pair theirs, others;
  files.inspect(1, someone, std::move(theirs.ours));
  files.inspect(2, somebody_else, std::move(others.ours));
  CHECK(result_of(files).ticket == 2);
  CHECK(files.closing_of(someone) == 1);
  CHECK(files.closing_of(somebody_else) == 0);
  slow.release();
  CHECK(result_of(files).ticket == 1);
  CHECK(eventually([&] { return files.pending() == 0 && files.closing_of(someone) == 0; }));
}

TEST_CASE("threads are bounded, and what waits for one is served when one is free") {
  std::vector<LingeringSocket> slow(ReceivedFiles::max_threads);
  ReceivedFiles files;
  for (std::size_t i = 0; i < slow.size(); ++i) close_slowly(files, static_cast<uid_t>(i), slow[i]);
  Pair pair;
  files.inspect(1, somebody_else, std::move(pair.ours));
  CHECK(files.pending() == ReceivedFiles::max_threads + 1);
  slow.front().release();
  CHECK(result_of(files).ticket == 1);
  for (LingeringSocket& each : slow) each.release();
  CHECK(eventually([&] { return files.pending() == 0; }));
}

TEST_CASE("descriptors are found wherever they are queued") {
  Pair pair;
  SECTION("nothing is queued") { CHECK_FALSE(pair.has_files()); }
  SECTION("packets without") {
    pair.send({});
    pair.send({}, 0);
    CHECK_FALSE(pair.has_files());
  }
  SECTION("behind others") {
    pair.send({});
    pair.send({}, 0);
    pair.send({pair.theirs.get()});
    CHECK(pair.has_files());
  }
  SECTION("with a packet of no bytes") {
    pair.send({pair.theirs.get()}, 0);
    CHECK(pair.has_files());
  }
  SECTION("after the other end is gone") {
    pair.send({pair.theirs.get()}, 0);
    pair.theirs.reset();
    CHECK(pair.has_files());
  }
}
