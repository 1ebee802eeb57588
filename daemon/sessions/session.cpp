// See session.h.
#include "daemon/sessions/session.h"

#include <cstring>
#include <string_view>

#include "daemon/size.h"

namespace terrace::daemon {
namespace {

struct Character {
  std::size_t bytes = 1;
  bool is_shown = false;  // it is whole, and no control character
};

// Controls of a terminal, and what breaks or turns the line: UAX #9, section 2 (explicit directional
// characters).
bool is_control(std::uint32_t code) {
  const auto within = [code](std::uint32_t first, std::uint32_t last) {
    return first <= code && code <= last;
  };
  return code < 0x20 || within(0x7f, 0x9f) || code == 0x61c || within(0x200e, 0x200f) ||
         within(0x2028, 0x202e) || within(0x2066, 0x2069);
}

// Of UTF-8 text that is not empty; one byte of what is none.
Character first_character(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = byte(0);
  if (lead < 0x80) return {1, !is_control(lead)};
  const std::size_t bytes = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < bytes) return {};
  std::uint32_t code = lead & (0xffU >> (bytes + 1));
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0U) != 0x80) return {};
    code = code << 6U | (byte(i) & 0x3fU);
  }
  constexpr std::uint32_t least_of[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool is_surrogate = code >= 0xd800 && code <= 0xdfff;
  if (code < least_of[bytes] || code > 0x10ffff || is_surrogate) return {};
  return {bytes, !is_control(code)};
}

}  // namespace

Session::Session(SessionId id, const Peer& peer, JobKey job, std::string program, Segment segment)
    : id_(id),
      peer_(peer),
      job_(std::move(job)),
      job_name_(std::make_shared<const std::string>(job_.name)),
      program_(std::move(program)),
      segment_(std::move(segment)),
      reader_(segment_.ring(), Segment::ring_capacity) {}

void Session::snapshot() {
  const wire::JobStats& stats = segment_.stats();
  for (std::size_t i = 0; i < wire::stat_count; ++i) counters_[i] = stats.get(static_cast<wire::Stat>(i));
}

// The head may be anything; it decides no more than when it is looked at again.
bool Session::has_events_due(std::uint64_t now_ns) const {
  const std::uint64_t fresh = segment_.ring()->head.load(std::memory_order_relaxed) - read_head_;
  return fresh >= many_events || (fresh != 0 && now_ns >= read_at_ns_ + read_ns);
}

std::size_t Session::read_events(wire::Event* out, std::uint64_t now_ns) {
  const std::uint64_t head = segment_.ring()->head.load(std::memory_order_relaxed);
  if (head == read_head_) return 0;
  read_head_ = head;
  read_at_ns_ = now_ns;
  const std::size_t count = reader_.read(out, events_per_round);
  segment_.let_go_of_events();
  return count;
}

void Session::check_resident(bool is_waited_for, std::uint64_t others_bytes, std::uint64_t now_ns) {
  checked_ns_ = now_ns;
  kernel_resident_bytes_ = memory_.resident_bytes();
  if (!kernel_resident_bytes_) return;
  resident_check_.observe(counter(wire::Stat::resident_bytes), minus(*kernel_resident_bytes_, others_bytes),
                          is_waited_for);
}

std::uint64_t Session::resident_bytes() const {
  return resident_check_.resident_bytes(counter(wire::Stat::resident_bytes));
}

std::string clean_text(const char* text, std::size_t bytes) {
  const std::string_view given(text, ::strnlen(text, bytes));
  std::string clean;
  for (std::size_t at = 0; at < given.size();) {
    const Character c = first_character(given.substr(at));
    c.is_shown ? clean.append(given.substr(at, c.bytes)) : clean.append("?");
    at += c.bytes;
  }
  return clean;
}

std::string clean_name(const char* text, std::size_t bytes, const char* if_empty) {
  std::string name = clean_text(text, bytes);
  return name.empty() ? std::string(if_empty) : name;
}

}  // namespace terrace::daemon
