// Pages that the kernel refers to after a system call has returned: in a pipe after vmsplice, in a socket's
// queue after a send with MSG_ZEROCOPY. These are no pins, so the kernel lets such a page be moved; what then
// goes wrong is seen by the other end only, which reads whatever the page is used for next.
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "tests/hazards/hazard.h"

namespace terrace::hazards {
namespace {

constexpr std::size_t block_bytes = 16 * mib;
constexpr std::size_t budget_bytes = 256 * mib;
constexpr std::size_t pipe_bytes = 1 * mib;
constexpr std::size_t spliced_pages = 128;

unsigned char* run_aligned(std::size_t bytes) {
  auto* block = static_cast<unsigned char*>(std::aligned_alloc(run_bytes, bytes));
  HAZARD_CHECK(block != nullptr);
  return block;
}

unsigned char* filled(std::uint64_t seed) {
  unsigned char* block = run_aligned(block_bytes);
  fill_pattern(block, block_bytes, seed);
  return block;
}

// Pages from all runs of a block of block_bytes.
std::size_t spliced_page(std::size_t i) { return i * (block_bytes / page_bytes / spliced_pages) + i % 7; }

struct Pipe {
  int ends[2] = {-1, -1};
  Pipe() {
    HAZARD_CHECK(pipe2(ends, O_CLOEXEC) == 0);
    if (fcntl(ends[1], F_SETPIPE_SZ, static_cast<int>(pipe_bytes)) < static_cast<int>(pipe_bytes))
      skip("a pipe of 1 MiB is more than this user may have (pipe-max-size)");
  }
  ~Pipe() {
    close(ends[0]);
    close(ends[1]);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
};

void splice_pages(const Pipe& pipe, unsigned char* block) {
  for (std::size_t i = 0; i < spliced_pages; ++i) {
    const iovec part{block + spliced_page(i) * page_bytes, page_bytes};
    HAZARD_CHECK(vmsplice(pipe.ends[1], &part, 1, SPLICE_F_NONBLOCK) == page_bytes);
  }
}

void read_exactly(int fd, unsigned char* bytes, std::size_t count) {
  for (std::size_t got = 0; got < count;) {
    const ssize_t n = read(fd, bytes + got, count - got);
    HAZARD_CHECK(n > 0);
    got += static_cast<std::size_t>(n);
  }
}

// How many of the spliced pages do not come out as they were.
std::size_t wrong_in_pipe(const Pipe& pipe, std::uint64_t seed) {
  alignas(page_bytes) static unsigned char page[page_bytes];
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < spliced_pages; ++i) {
    read_exactly(pipe.ends[0], page, page_bytes);
    wrong += page_is_right(page, seed, spliced_page(i)) ? 0 : 1;
  }
  if (wrong > 0) std::fprintf(stderr, "%zu of %zu pages in the pipe are wrong\n", wrong, spliced_pages);
  return wrong;
}

void force_out(unsigned char* block) {
  HAZARD_CHECK(terrace_advise(block, block_bytes, TERRACE_ADVISE_PAGE_OUT) == 0);
  quiesce();
  press_out(budget_bytes);
}

}  // namespace

HAZARD_TEST(pipe_shows_what_was_spliced_after_its_run_was_to_leave) {
  require_pager();
  unsigned char* block = filled(1);
  const Pipe pipe;
  splice_pages(pipe, block);
  force_out(block);
  HAZARD_CHECK(wrong_in_pipe(pipe, 1) == 0);
  HAZARD_CHECK(count_wrong_pages(block, block_bytes, 1) == 0);
  std::free(block);
}

// Spliced out of runs that are on the tier: the call brings them back.
HAZARD_TEST(evicted_pages_can_be_spliced) {
  require_pager();
  unsigned char* block = filled(1);
  evict(block, block_bytes);
  const Pipe pipe;
  splice_pages(pipe, block);
  force_out(block);
  HAZARD_CHECK(wrong_in_pipe(pipe, 1) == 0);
  HAZARD_CHECK(count_wrong_pages(block, block_bytes, 1) == 0);
  std::free(block);
}

// A large block that is freed is unmapped by the C library, and the pipe keeps its pages. Here its memory
// would be used for the next block.
HAZARD_SCENARIO(spliced_block_is_freed) {
  if (parameter("HAZARD_PAGES") == "yes") require_pager();
  const Pipe pipe;
  for (std::uint64_t round = 0; round < 3; ++round) {
    unsigned char* block = filled(10 + round);
    splice_pages(pipe, block);
    std::free(block);
    std::vector<unsigned char*> others;
    for (std::uint64_t i = 0; i < 3; ++i) others.push_back(filled(100 * round + i));
    HAZARD_CHECK(wrong_in_pipe(pipe, 10 + round) == 0);
    for (std::uint64_t i = 0; i < 3; ++i) {
      HAZARD_CHECK(count_wrong_pages(others[i], block_bytes, 100 * round + i) == 0);
      std::free(others[i]);
    }
  }
}

TEST_CASE("hazard_memory_of_a_spliced_block_is_not_used_again") {
  run_for_movers("spliced_block_is_freed", {{"HAZARD_PAGES", "yes"}});
  run_for_mover("spliced_block_is_freed", "move", {{"HAZARD_PAGES", "no"}, {"TERRACE_DRAM", ""}});
}

// When the block is gone, so is its hold: the budget is not used up by what was spliced once.
HAZARD_TEST(freed_block_is_no_longer_held_for_the_pipe) {
  require_pager();
  const Pipe pipe;
  for (std::uint64_t round = 0; round < 30; ++round) {
    unsigned char* block = filled(round);
    splice_pages(pipe, block);
    HAZARD_CHECK(wrong_in_pipe(pipe, round) == 0);
    std::free(block);
  }
  unsigned char* block = filled(99);
  evict(block, block_bytes);
  HAZARD_CHECK(count_wrong_pages(block, block_bytes, 99) == 0);
  std::free(block);
}

// From the reading end vmsplice copies into memory: nothing has to be held.
HAZARD_TEST(memory_that_a_pipe_was_read_into_is_not_held) {
  require_pager();
  unsigned char* block = run_aligned(block_bytes);
  fill_pattern(block, block_bytes, 1);
  const Pipe pipe;
  alignas(page_bytes) static unsigned char page[page_bytes];
  fill_page(page, 2, 0);
  HAZARD_CHECK(write(pipe.ends[1], page, page_bytes) == page_bytes);
  const iovec part{block, page_bytes};
  HAZARD_CHECK(vmsplice(pipe.ends[0], &part, 1, 0) == page_bytes);
  HAZARD_CHECK(page_is_right(block, 2, 0));
  evict(block, block_bytes);
  HAZARD_CHECK(page_is_right(block, 2, 0));
  std::free(block);
}

namespace {

// Two ends of a TCP connection of this host whose receiver takes little before somebody reads.
struct Connection {
  int sender = -1;
  int receiver = -1;
  Connection();
  ~Connection() {
    close(sender);
    close(receiver);
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
};

void set_option(int socket, int option, int value, const char* reason) {
  if (setsockopt(socket, SOL_SOCKET, option, &value, sizeof value) != 0) skip(reason);
}

Connection::Connection() {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  HAZARD_CHECK(listener >= 0);
  set_option(listener, SO_RCVBUF, 64 * 1024, "a socket's buffer cannot be set");
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof address;
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  if (bind(listener, any, bytes) != 0 || listen(listener, 1) != 0) skip("there is no loopback network here");
  HAZARD_CHECK(getsockname(listener, any, &bytes) == 0);
  sender = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  HAZARD_CHECK(sender >= 0);
  set_option(sender, SO_SNDBUF, 4 << 20, "a socket's buffer cannot be set");
  set_option(sender, SO_ZEROCOPY, 1, "this kernel has no MSG_ZEROCOPY");
  if (connect(sender, any, bytes) != 0) skip("there is no loopback network here");
  receiver = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
  HAZARD_CHECK(receiver >= 0);
  close(listener);
}

constexpr int lending = MSG_ZEROCOPY | MSG_DONTWAIT | MSG_NOSIGNAL;

ssize_t by_send(int fd, iovec part) { return send(fd, part.iov_base, part.iov_len, lending); }
ssize_t by_sendto(int fd, iovec part) { return sendto(fd, part.iov_base, part.iov_len, lending, nullptr, 0); }
ssize_t by_sendmsg(int fd, iovec part) {
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  return sendmsg(fd, &message, lending);
}
ssize_t by_sendmmsg(int fd, iovec part) {
  mmsghdr messages[1] = {};
  messages[0].msg_hdr.msg_iov = &part;
  messages[0].msg_hdr.msg_iovlen = 1;
  const int sent = sendmmsg(fd, messages, 1, lending);
  return sent == 1 ? static_cast<ssize_t>(messages[0].msg_len) : -1;
}
using Sending = ssize_t (*)(int, iovec);

// Until the socket takes no more. The bytes that it took.
std::size_t send_until_full(int fd, unsigned char* block, Sending sending) {
  constexpr std::size_t piece = std::size_t{64} * 1024;
  std::size_t sent = 0;
  while (sent < block_bytes) {
    const ssize_t n = sending(fd, {block + sent, std::min(piece, block_bytes - sent)});
    if (n < 0 && (errno == EAGAIN || errno == ENOBUFS)) break;
    HAZARD_CHECK(n > 0);
    sent += static_cast<std::size_t>(n);
  }
  return sent / page_bytes * page_bytes;
}

std::size_t wrong_at_receiver(int fd, std::size_t bytes, std::uint64_t seed) {
  alignas(page_bytes) static unsigned char page[page_bytes];
  std::size_t wrong = 0;
  for (std::size_t n = 0; n < bytes / page_bytes; ++n) {
    read_exactly(fd, page, page_bytes);
    wrong += page_is_right(page, seed, n) ? 0 : 1;
  }
  if (wrong > 0) std::fprintf(stderr, "%zu of %zu pages arrived wrong\n", wrong, bytes / page_bytes);
  return wrong;
}

void send_force_out_and_receive(Sending sending) {
  const Connection connection;
  unsigned char* block = filled(1);
  const std::size_t sent = send_until_full(connection.sender, block, sending);
  HAZARD_CHECK(sent > mib);  // most of it waits in the sender's queue
  force_out(block);
  HAZARD_CHECK(wrong_at_receiver(connection.receiver, sent, 1) == 0);
  HAZARD_CHECK(count_wrong_pages(block, block_bytes, 1) == 0);
  std::free(block);
}

}  // namespace

// On the loopback network a page is copied when it is delivered; until then, the queue refers to it.
HAZARD_TEST(peer_receives_what_was_sent_without_a_copy_after_its_run_was_to_leave) {
  require_pager();
  for (const Sending sending : {&by_send, &by_sendto, &by_sendmsg, &by_sendmmsg})
    send_force_out_and_receive(sending);
}

// What cannot be held is refused as the kernel refuses what it may not lock; sent with a copy it can go.
HAZARD_TEST(more_than_the_budget_is_not_lent) {
  require_pager();
  constexpr std::size_t too_much = budget_bytes + 32 * mib;
  unsigned char* block = run_aligned(too_much);
  const Pipe pipe;
  const iovec part{block, too_much};
  HAZARD_CHECK(vmsplice(pipe.ends[1], &part, 1, SPLICE_F_NONBLOCK) == -1 && errno == ENOMEM);
  const Connection connection;
  for (const Sending sending : {&by_send, &by_sendto, &by_sendmsg, &by_sendmmsg})
    HAZARD_CHECK(sending(connection.sender, part) == -1 && errno == ENOBUFS);
  HAZARD_CHECK(send(connection.sender, block, too_much, MSG_DONTWAIT | MSG_NOSIGNAL) > 0);
  std::free(block);
}

}  // namespace terrace::hazards
