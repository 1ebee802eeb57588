#include "simt_emulator.h"

#include <setjmp.h>  // NOLINT(modernize-deprecated-headers): _setjmp is POSIX
#include <ucontext.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

namespace terrace::compression::cuda::simt {
namespace {

constexpr std::size_t stack_bytes = std::size_t{64} << 10;
constexpr std::uint32_t warp_lanes = 32;

struct Fiber;

// Threads that wait for each other: the CTA's, or a warp's.
struct Meeting {
  std::uint32_t expected = 0, arrived = 0;
  std::vector<Fiber*> waiting;
};

struct Warp {
  Meeting meeting;
  // A lane may be one operation ahead of one that has not read yet, never two.
  std::uint64_t values[2][warp_lanes] = {};
};

struct Free {
  void operator()(unsigned char* memory) const { std::free(memory); }
};

struct Cta {
  std::unique_ptr<unsigned char, Free> memory;
  std::vector<Warp> warps;
  Meeting meeting;
  bool all_hold[3] = {true, true, true};  // of this operation, the one before, and the next
  std::uint32_t alive = 0;
};

struct PendingCopy {
  void* to;
  const void* from;
};

struct Fiber {
  Position position{};
  Cta* cta = nullptr;
  std::unique_ptr<char[]> stack;
  ucontext_t start{};
  jmp_buf resume{};
  bool started = false;
  std::uint32_t warp_operations = 0, cta_operations = 0;
  std::vector<PendingCopy> copies;
  void* sanitizer_stack = nullptr;
};

struct Machine {
  Launch launch;
  const std::function<void()>* kernel = nullptr;
  std::mt19937_64 random;
  std::vector<Fiber*> ready;
  std::size_t next = 0;  // of `ready`, which is taken in order without a seed
  std::vector<std::unique_ptr<Fiber>> fibers;
  std::vector<Cta> ctas;
  std::vector<Fiber*> idle;  // of CTAs that ended
  std::uint32_t begun = 0;
  Fiber* current = nullptr;
  Fiber host;  // who called run()
};

Machine* machine = nullptr;

[[noreturn]] void deadlock() {
  std::fprintf(stderr, "simt: threads wait for each other forever (a barrier that not all of them reach)\n");
  std::abort();
}

void before_switch(Fiber& from, const Fiber& to) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(&from.sanitizer_stack, to.stack.get(), to.stack ? stack_bytes : 0);
#else
  static_cast<void>(from), static_cast<void>(to);
#endif
}

void after_switch(const Fiber& to) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(to.sanitizer_stack, nullptr, nullptr);
#else
  static_cast<void>(to);
#endif
}

// ucontext makes a fiber's stack; after that _setjmp and _longjmp switch without a system call.
void switch_to(Fiber& to) {
  Fiber& from = *machine->current;
  if (&from == &to) return;
  before_switch(from, to);
  if (_setjmp(from.resume) == 0) {
    machine->current = &to;
    if (to.started) _longjmp(to.resume, 1);
    to.started = true;
    setcontext(&to.start);
  }
  after_switch(*machine->current);
}

Fiber* take_ready() {
  auto& ready = machine->ready;
  if (machine->next == ready.size()) deadlock();
  if (machine->launch.seed != 0) {
    const std::size_t drawn = machine->next + machine->random() % (ready.size() - machine->next);
    std::swap(ready[machine->next], ready[drawn]);
  }
  Fiber* fiber = ready[machine->next++];
  if (machine->next > 4096 && machine->next * 2 > ready.size()) {
    ready.erase(ready.begin(), ready.begin() + static_cast<std::ptrdiff_t>(machine->next));
    machine->next = 0;
  }
  return fiber;
}

// The last one to come wakes the others and goes on.
void meet(Meeting& meeting) {
  if (++meeting.arrived < meeting.expected) {
    meeting.waiting.push_back(machine->current);
    switch_to(*take_ready());
    return;
  }
  meeting.arrived = 0;
  machine->ready.insert(machine->ready.end(), meeting.waiting.begin(), meeting.waiting.end());
  meeting.waiting.clear();
}

void begin_cta(Cta& cta);

void end_thread() {
  Fiber& self = *machine->current;
  machine->idle.push_back(&self);
  if (--self.cta->alive == 0) {
    if (machine->begun < machine->launch.ctas)
      begin_cta(*self.cta);
    else if (machine->idle.size() == machine->fibers.size())
      switch_to(machine->host);
  }
  switch_to(*take_ready());
}

// A fiber runs one thread after the other: that of each CTA that takes the place of one that ended.
void fiber_main() {
  after_switch(*machine->current);
  for (;;) {
    (*machine->kernel)();
    end_thread();
  }
}

std::unique_ptr<Fiber> make_fiber() {
  auto fiber = std::make_unique<Fiber>();
  fiber->stack = std::make_unique<char[]>(stack_bytes);
  getcontext(&fiber->start);
  fiber->start.uc_stack.ss_sp = fiber->stack.get();
  fiber->start.uc_stack.ss_size = stack_bytes;
  makecontext(&fiber->start, fiber_main, 0);
  return fiber;
}

unsigned char* fresh_memory(Cta& cta, std::size_t bytes) {
  void* memory = nullptr;
  if (posix_memalign(&memory, 128, bytes) != 0) std::abort();
  std::memset(memory, 0xa5, bytes);
  cta.memory.reset(static_cast<unsigned char*>(memory));
  return cta.memory.get();
}

void begin_cta(Cta& cta) {
  const Launch& launch = machine->launch;
  const std::uint32_t number = machine->begun++;
  unsigned char* shared = fresh_memory(cta, launch.shared_bytes);
  cta.warps.assign(launch.threads / warp_lanes, Warp{});
  for (Warp& warp : cta.warps) warp.meeting.expected = warp_lanes;
  cta.meeting.expected = cta.alive = launch.threads;
  std::fill(std::begin(cta.all_hold), std::end(cta.all_hold), true);
  for (std::uint32_t i = 0; i < launch.threads; ++i) {
    Fiber* fiber = machine->idle.back();
    machine->idle.pop_back();
    fiber->position = {i, launch.threads, number, launch.ctas, shared};
    fiber->cta = &cta;
    fiber->warp_operations = fiber->cta_operations = 0;
    machine->ready.push_back(fiber);
  }
}

}  // namespace

const Position& position() { return machine->current->position; }

void run(const Launch& launch, const std::function<void()>& kernel) {
  Machine here;
  here.launch = launch;
  here.kernel = &kernel;
  here.random.seed(launch.seed);
  here.ctas.resize(std::min(launch.resident_ctas, launch.ctas));
  here.host.started = true;
  here.current = &here.host;
  machine = &here;
  for (std::size_t i = 0; i < here.ctas.size() * launch.threads; ++i) {
    here.fibers.push_back(make_fiber());
    here.idle.push_back(here.fibers.back().get());
  }
  for (Cta& cta : here.ctas) begin_cta(cta);
  if (!here.ctas.empty()) switch_to(*take_ready());
  machine = nullptr;
}

void sync_cta() { meet(machine->current->cta->meeting); }

bool all_in_cta(bool holds) {
  Fiber& self = *machine->current;
  const std::uint32_t operation = self.cta_operations++;
  bool& all = self.cta->all_hold[operation % 3];
  all = all && holds;
  sync_cta();
  self.cta->all_hold[(operation + 2) % 3] = true;  // all have read the one before
  return all;
}

void pause() {
  machine->ready.push_back(machine->current);
  switch_to(*take_ready());
}

const std::uint64_t* exchange(std::uint64_t value) {
  Fiber& self = *machine->current;
  Warp& warp = self.cta->warps[self.position.thread / warp_lanes];
  auto& values = warp.values[self.warp_operations++ % 2];
  values[self.position.thread % warp_lanes] = value;
  meet(warp.meeting);
  return values;
}

std::uint32_t ballot(bool holds) {
  const std::uint64_t* values = exchange(holds ? 1 : 0);
  std::uint32_t bits = 0;
  for (std::uint32_t i = 0; i < warp_lanes; ++i) bits |= static_cast<std::uint32_t>(values[i]) << i;
  return bits;
}

std::uint64_t multiply_high(std::uint64_t a, std::uint64_t b) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::uint64_t>(static_cast<Wide>(a) * b >> 64);
}

void copy_async16(void* shared, const void* global) { machine->current->copies.push_back({shared, global}); }

void wait_copies() {
  for (const PendingCopy& copy : machine->current->copies) std::memcpy(copy.to, copy.from, 16);
  machine->current->copies.clear();
}

}  // namespace terrace::compression::cuda::simt
