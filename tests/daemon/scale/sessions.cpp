// See sessions.h.
#include "tests/daemon/scale/sessions.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "tests/units.h"

namespace terrace::tests::scale {
namespace {

constexpr std::uint64_t wanted_resident_bytes = 32 * mib;
constexpr std::uint64_t sites = 700;     // more than a daemon keeps apart
constexpr std::uint64_t long_lived = 3;  // of four allocations, those that are never freed

void report(wire::JobStats& stats, std::uint64_t budget_bytes) {
  stats.set(wire::Stat::budget_bytes, budget_bytes);
  stats.set(wire::Stat::resident_bytes, std::min(budget_bytes, wanted_resident_bytes));
  stats.set(wire::Stat::heap_live_bytes, 2 * wanted_resident_bytes);
  stats.set(wire::Stat::heartbeat_ns, clock_ns());
  stats.set_state(wire::Stat::phase, wire::Phase::running);
}

}  // namespace

std::string Sessions::join_all(const std::string& socket, std::size_t count, std::size_t of_user) {
  for (std::size_t i = 0; i < count; ++i) {
    const uid_t uid = first_user + static_cast<uid_t>(i / of_user);
    auto joined = join(socket, uid, job_name(i), /*map=*/true);
    if (!joined) return "session " + std::to_string(i) + " was not let in";
    report(joined->segment.stats(), joined->welcome.budget_bytes);
    sessions_.push_back(std::move(*joined));
    for (std::size_t k = 0; k < sessions_.size() && i % 64 == 0; ++k) read_from(k);
  }
  last_address_.assign(sessions_.size(), 0);
  return {};
}

void Sessions::follow() {
  reader_ = std::thread([this] { read_messages(); });
}

void Sessions::read_messages() {
  const Fd epoll(::epoll_create1(EPOLL_CLOEXEC));
  for (std::size_t i = 0; i < sessions_.size(); ++i) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = i;
    ::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, sessions_[i].socket.get(), &event);
  }
  std::array<epoll_event, 256> events;
  while (!stopping_) {
    const int count = ::epoll_wait(epoll.get(), events.data(), static_cast<int>(events.size()), 50);
    for (int k = 0; k < count; ++k) {
      const std::size_t i = events[static_cast<std::size_t>(k)].data.u64;
      read_from(i);
      if ((events[static_cast<std::size_t>(k)].events & EPOLLHUP) == 0) continue;
      ::epoll_ctl(epoll.get(), EPOLL_CTL_DEL, sessions_[i].socket.get(), nullptr);
      ++closed_;
    }
  }
}

void Sessions::read_from(std::size_t i) {
  std::array<char, 1024> packet;
  ssize_t got = 0;
  while ((got = ::recv(sessions_[i].socket.get(), packet.data(), packet.size(), MSG_DONTWAIT)) > 0) {
    ++messages_;
    if (got != sizeof(wire::Budget)) continue;
    report(sessions_[i].segment.stats(), wire::read_as<wire::Budget>(packet.data()).budget_bytes);
  }
}

// An allocation of one of many call sites; of four in turn the last is freed at once.
void Sessions::write_event(std::size_t i) {
  wire::Event event;
  const std::uint64_t number = written_++;
  const bool is_free = last_address_[i] != 0 && random_() % (long_lived + 2) == 0;
  event.time_ns = clock_ns();
  event.kind = is_free ? wire::EventKind::free : wire::EventKind::alloc;
  event.address = is_free ? last_address_[i] : 0x7000'0000'0000 + number * 4096;
  event.call_site = 0x40'0000 + random_() % sites * 16;
  event.bytes = 2 * mib;
  last_address_[i] = is_free ? 0 : event.address;
  sessions_[i].segment.events().push(event);
}

void Sessions::age(int rounds, std::uint64_t events) {
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < sessions_.size(); ++i) {
      for (std::uint64_t k = 0; k < events; ++k) write_event(i);
    }
    ::usleep(300'000);
  }
}

void Sessions::write_events(std::uint64_t per_second) {
  writer_ = std::thread([this, per_second] {
    const std::uint64_t began = clock_ns();
    std::uint64_t done = 0;
    while (!stopping_) {
      const std::uint64_t due = (clock_ns() - began) / 1'000 * per_second / 1'000'000;
      for (; done < due; ++done) {
        const std::size_t i = done % sessions_.size();
        write_event(i);
        sessions_[i].segment.stats().set(wire::Stat::heartbeat_ns, clock_ns());
      }
      ::usleep(10'000);
    }
  });
}

void Sessions::stop() {
  stopping_ = true;
  if (reader_.joinable()) reader_.join();
  if (writer_.joinable()) writer_.join();
}

}  // namespace terrace::tests::scale
