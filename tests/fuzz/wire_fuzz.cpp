// What a client can send, through everything that looks at it without a socket: the judge of packets,
// greetings into the registry, requests into the control verbs, and a session's shared memory overwritten at
// will.
//
// The first byte chooses; the rest is a packet, or a run of (offset, value) pairs stored into the segment.
#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "daemon/base/unique_fd.h"
#include "daemon/control/control.h"

using namespace terrace;
using namespace terrace::daemon;

namespace {

constexpr std::uint64_t machine_bytes = std::uint64_t{8} << 30;
constexpr std::uint64_t nvm_bytes = std::uint64_t{64} << 20;

void check_budgets(const Registry& registry) {
  if (registry.arbiter().promised_bytes() > 64 * machine_bytes) std::abort();
  if (registry.pools().used_bytes() > registry.pools().promised_bytes()) std::abort();
  if (registry.nvm() && registry.nvm()->promised_bytes() > nvm_bytes) std::abort();
  for (const auto& [name, gpu] : registry.gpu().devices())
    if (gpu.granted_bytes > gpu.budget_bytes + gpu.sessions * Arbiter::minimum_bytes) std::abort();
}

void greet(Registry& registry, const std::uint8_t* packet) {
  const Admission admission =
      registry.admit(wire::read_as<wire::Hello>(packet), Peer{1, 1000, 1000}, std::nullopt, 1);
  registry.announcements();
  check_budgets(registry);
  if (admission.session != nullptr) registry.end(admission.session->id(), "fuzz", 2);
}

void ask(Registry& registry, std::string_view text) {
  const Config config;
  const auto outcome = answer(text, Peer{1, 1000, 1000}, {registry, config, true, 2, 1});
  if (outcome.reply.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).empty()) std::abort();
}

void take_packet(Registry& registry, const std::uint8_t* data, std::size_t size) {
  wire::Header header;
  if (wire::check_packet(data, size, &header) != 0) return;
  if (header.type == wire::Type::hello) greet(registry, data);
  if (header.type == wire::Type::control)
    ask(registry, {reinterpret_cast<const char*>(data) + sizeof header, size - sizeof header});
}

// A greeting that passes, with whatever fields; most random packets fall at the first check.
void take_fields(Registry& registry, const std::uint8_t* data, std::size_t size) {
  wire::Hello hello = wire::make<wire::Hello>();
  const std::size_t body = sizeof hello - sizeof hello.header;
  std::memcpy(reinterpret_cast<char*>(&hello) + sizeof hello.header, data, std::min(size, body));
  greet(registry, reinterpret_cast<const std::uint8_t*>(&hello));
}

// `of_gpu`: the session of a heap on a GPU, beside another one that stays.
wire::Hello greeting(bool of_gpu) {
  wire::Hello hello = wire::make<wire::Hello>();
  if (!of_gpu) return hello;
  hello.flags = wire::hello_is_gpu_heap;
  hello.pool_capacity_bytes = machine_bytes;
  wire::copy_text(hello.program, sizeof hello.program, "card");
  return hello;
}

void overwrite_segment(Registry& registry, const std::uint8_t* data, std::size_t size, bool of_gpu) {
  static std::uint64_t now_ns = 0;
  Session* session = registry.admit(greeting(of_gpu), Peer{1, 1000, 1000}, std::nullopt, 1).session;
  if (session == nullptr) std::abort();
  Segment& segment = session->segment();
  void* base = ::mmap(nullptr, segment.bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, segment.fd(), 0);
  if (base == MAP_FAILED) std::abort();
  for (; size >= 12; data += 12, size -= 12) {
    std::uint32_t offset = 0;
    std::memcpy(&offset, data, sizeof offset);
    std::memcpy(static_cast<char*>(base) + offset % (segment.bytes() - 8), data + 4, 8);
  }
  registry.take_in(now_ns += Registry::round_ns);
  ::munmap(base, segment.bytes());
  registry.announcements();
  check_budgets(registry);
  ask(registry, R"({"verb":"status"})");
  ask(registry, R"({"verb":"lifetimes","job":"unnamed"})");
  registry.end(session->id(), "fuzz", 2);
}

// A session that is back, and says what it has on NVM: fields and a file as they come, or a file of ours.
void hold_nvm(Registry& registry, const std::uint8_t* data, std::size_t size) {
  wire::Hello hello = wire::make<wire::Hello>();
  hello.flags = wire::hello_reattach;
  Session* session = registry.admit(hello, Peer{1, 1000, 1000}, std::nullopt, 1).session;
  if (session == nullptr) std::abort();
  wire::NvmHeld held = wire::make<wire::NvmHeld>();
  std::uint64_t words[6] = {};
  std::memcpy(words, data, std::min(size, sizeof words));
  held.capacity_bytes = words[0];
  held.used_bytes = words[1];
  UniqueFd fd(open_unlinked("/tmp"));
  std::optional<PoolFile> file = look_at_pool_file(fd.get());
  if (file && words[2] % 2 == 0) file->descriptor = std::make_shared<UniqueFd>(std::move(fd));
  if (file && words[2] % 4 == 1) file->id.device = words[3];
  if (file && words[2] % 8 == 0) file->allocated_bytes = words[3];
  if (file) file->names = words[4] % 2;
  if (words[5] % 4 == 0) file.reset();
  static_cast<void>(registry.hold_nvm(session->id(), held, file));
  if (!registry.hold_nvm(session->id(), held, file)) std::abort();  // once
  registry.announcements();
  check_budgets(registry);
  registry.end(session->id(), "fuzz", 2);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  static Registry registry(machine_bytes, Pools("/nonexistent", machine_bytes, false));
  static const Admission stays = registry.admit(greeting(true), Peer{2, 2000, 2000}, std::nullopt, 1);
  if (stays.session == nullptr) std::abort();
  static const bool has_nvm = [] {
    registry.use_nvm({.bytes = nvm_bytes, .directory = "/tmp"});
    return registry.nvm().has_value();
  }();
  if (!has_nvm) std::abort();
  switch (data[0] % 6) {
    case 0:
      take_packet(registry, data + 1, size - 1);
      break;
    case 1:
      take_fields(registry, data + 1, size - 1);
      break;
    case 2:
      overwrite_segment(registry, data + 1, size - 1, false);
      break;
    case 3:
      overwrite_segment(registry, data + 1, size - 1, true);
      break;
    case 4:
      hold_nvm(registry, data + 1, size - 1);
      break;
    default:
      ask(registry, {reinterpret_cast<const char*>(data) + 1, size - 1});
  }
  return 0;
}
