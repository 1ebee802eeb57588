// A GPU heap's session with terraced: how much of the device's memory it may hold, and what the daemon shows
// of it.
//
//   heap ── Report, ten times a second ──▶ thread ── counters ──▶ segment ──▶ daemon
//     ◀── set_grant(), when it changes ────┘   ◀── budget ─────── socket ◀──┘
//
// It is a session beside those of the process's pager and engines, of the same job. Nothing waits for the
// daemon but open(), for 2 s at most, and an allocation that the grant has no room for (heap.h). While the
// daemon is away the last grant holds, and the thread looks for the next one. What a daemon sends can cost
// the heap memory, never bytes of a block.
//
// open() and the destructor by one thread; the heap's functions that the session calls are any thread's.
#pragma once

#include <cstdint>
#include <string>

#include "liballoc/agent/client/client.h"
#include "liballoc/gpu/heap/heap.h"
#include "liballoc/gpu/session/rounds.h"
#include "liballoc/gpu/session/session_options.h"
#include "tiers/gpu/device.h"

namespace terrace::liballoc::gpu {

class HeapSession {
 public:
  // Both outlive the session.
  HeapSession(Heap& heap, tiers::gpu::Device& device) : heap_(heap), device_(device) {}
  HeapSession(const HeapSession&) = delete;
  HeapSession& operator=(const HeapSession&) = delete;
  // Leaves the daemon: what the heap holds is nobody's by then, or the process ends.
  ~HeapSession();

  // Joins the daemon, as a heap on the device that `name` is of on this machine. 0: joined, or alone, which
  // warning() says; or the errno of a refusal with *reason. Throws std::system_error where there is no thread
  // to be had. Once.
  int open(const SessionOptions& options, const std::string& name, std::string* reason);
  // Why the heap is alone, and what helps; "" where it is not.
  const std::string& warning() const { return warning_; }

 private:
  int join(const SessionOptions& options, const std::string& name, std::string* reason);
  bool is_understood();
  void follow();
  void publish();

  Heap& heap_;
  tiers::gpu::Device& device_;
  Client client_;
  std::string warning_;
  Rounds rounds_;
};

// How the device is called on this machine, whatever the process calls it: the name and the place on the PCI
// bus; of an emulated device its size and its number in the process, so that processes which try something
// out share one.
std::string name_on_machine(const tiers::gpu::Device& device, int index);

}  // namespace terrace::liballoc::gpu
