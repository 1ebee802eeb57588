// See session.h.
#include "daemon/session.h"

#include <cstring>

namespace terrace::daemon {

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

std::string clean_text(const char* text, std::size_t bytes) {
  std::string clean(text, ::strnlen(text, bytes));
  for (char& c : clean) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) c = '?';
  }
  return clean;
}

std::string clean_name(const char* text, std::size_t bytes, const char* if_empty) {
  std::string name = clean_text(text, bytes);
  return name.empty() ? std::string(if_empty) : name;
}

}  // namespace terrace::daemon
