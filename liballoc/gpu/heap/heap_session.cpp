#include "liballoc/gpu/heap/heap_session.h"

#include <cstring>

#include "liballoc/base/os.h"

namespace terrace::liballoc::gpu {
namespace {

constexpr unsigned most_messages_in_a_round = 64;  // a daemon that sends without an end keeps nobody

}  // namespace

std::string name_on_machine(const tiers::gpu::Device& device, int index) {
  if (device.kind() == tiers::gpu::Kind::cuda) return std::string(device.identity());
  std::string name = "emulated:";
  name.append(std::to_string(device.memory().total_bytes >> 20)).append("M");
  if (index != 0) name.append(" ").append(std::to_string(index));
  return name;
}

HeapSession::~HeapSession() {
  rounds_.stop();
  client_.shutdown();
}

// An older daemon would take the heap for a process that uses DRAM.
bool HeapSession::is_understood() {
  if (client_.has_feature(wire::feature_gpu_heaps)) return true;
  client_.shutdown();
  return false;
}

int HeapSession::open(const SessionOptions& options, const std::string& name, std::string* reason) {
  if (options.socket.empty()) return 0;
  if (const int error = join(options, name, reason); error != 0) return error;
  if (client_.connected()) heap_.set_grant(client_.grant().budget_bytes, true);
  rounds_.start([this] { device_.relax_stream_capture(); },
                [this] {
                  follow();
                  heap_.obey();
                  publish();
                });
  return 0;
}

int HeapSession::join(const SessionOptions& options, const std::string& name, std::string* reason) {
  const int error = client_.start({.socket_path = options.socket.c_str(),
                                   .job = options.job.c_str(),
                                   .program = name.c_str(),
                                   .weight = options.weight,
                                   .daemon_path = options.daemon.c_str(),
                                   .respawn = !options.daemon.empty(),
                                   .gpu_bytes = device_.memory().total_bytes});
  if (error != 0 && client_.refused_text()[0] != '\0') {
    reason->assign("the daemon at ").append(options.socket).append(" refused it: ");
    reason->append(client_.refused_text());
    return error;
  }
  if (error != 0)
    warning_.append("no daemon at ")
        .append(options.socket)
        .append(" (")
        .append(std::strerror(error))
        .append(
            "): the GPU heap takes memory without a daemon until one is there; `terrace status` shows which "
            "daemons are there");
  else if (!is_understood())
    warning_.append("the daemon at ")
        .append(options.socket)
        .append(
            " is older than GPU heaps that join it: their memory is not counted; install the same version of "
            "both");
  return 0;
}

void HeapSession::follow() {
  for (unsigned i = 0; i < most_messages_in_a_round; ++i) {
    switch (client_.step(os::now_ns())) {
      case Notice::nothing:
        return;
      case Notice::reconnected:
        if (!is_understood()) return heap_.lose_daemon();
        [[fallthrough]];
      case Notice::budget_changed:
        heap_.set_grant(client_.grant().budget_bytes, true);
        continue;
      case Notice::disconnected:
        heap_.lose_daemon();
        continue;
      case Notice::trim:
        heap_.give_back();
        continue;
      case Notice::schedule:
        continue;
    }
  }
}

// Under the names of the pager's words, as far as they mean the same, but of the device's memory: frames are
// resident, blocks that left are stored.
void HeapSession::publish() {
  const Heap::Report report = heap_.report();
  wire::JobStats& out = *client_.stats();
  out.set(wire::Stat::heap_live_bytes, report.wanted_bytes);
  out.set(wire::Stat::resident_bytes, report.held_bytes);
  out.set(wire::Stat::stored_bytes, report.evicted_bytes);
  out.set(wire::Stat::budget_bytes, report.limit_bytes);
  out.set(wire::Stat::heap_peak_bytes, report.allocated_bytes);
  out.set_state(wire::Stat::phase, wire::Phase::running);
  out.set(wire::Stat::heartbeat_ns, os::now_ns());
}

}  // namespace terrace::liballoc::gpu
