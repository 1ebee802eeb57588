// GPU heaps in session with a daemon, on the emulated device: what it grants, what it shows, and what becomes
// of a heap when it dies.
#include "liballoc/gpu/heap/heap_session.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <optional>
#include <thread>

#include "daemon/sessions/process/segment_layout.h"
#include "daemon/sockets/connection.h"
#include "tests/daemon/support.h"

using namespace terrace;
using namespace terrace::tests;
using liballoc::gpu::Heap;
using liballoc::gpu::HeapSession;
using liballoc::gpu::SessionOptions;
using nlohmann::json;

namespace {

constexpr std::uint64_t card_bytes = 256 * mib;

// A process's heap on an emulated card, of the job "train" if nothing else is said.
struct Card {
  std::unique_ptr<tiers::gpu::Device> device;
  std::unique_ptr<Heap> heap;
  std::unique_ptr<HeapSession> session;
  std::string reason;
  int error = 0;

  explicit Card(const std::string& socket, const std::string& job = "train", std::uint64_t budget = 0) {
    tiers::gpu::DeviceSpec spec;
    REQUIRE(tiers::gpu::parse_device("emulated:256M", &spec, &reason) == 0);
    REQUIRE(tiers::gpu::open_device(spec, &device, &reason) == 0);
    REQUIRE(device->create_stream(&stream) == 0);
    heap = std::make_unique<Heap>(*device);
    REQUIRE(heap->open(budget) == 0);
    session = std::make_unique<HeapSession>(*heap, *device);
    SessionOptions options;
    options.socket = socket;
    options.job = job;
    error = session->open(options, liballoc::gpu::name_on_machine(*device, 0), &reason);
  }
  ~Card() {
    for (void* block : blocks) heap->free(block, stream);
    session.reset();
    heap.reset();
    device->destroy_stream(stream);
  }
  std::vector<void*> blocks;
  tiers::gpu::Stream stream = nullptr;
  std::byte* allocate(std::uint64_t bytes) {
    void* block = nullptr;
    if (heap->allocate(bytes, stream, &block) != 0) return nullptr;
    blocks.push_back(block);
    return static_cast<std::byte*>(block);
  }
  // For what is in the stream.
  void wait() const {
    tiers::gpu::Event event = nullptr;
    REQUIRE(device->create_event(&event) == 0);
    REQUIRE(device->record(event, stream) == 0);
    REQUIRE(device->synchronize(event) == 0);
    device->destroy_event(event);
  }
  std::uint64_t limit() const { return heap->report().limit_bytes; }
  std::uint64_t held() const { return heap->report().held_bytes; }
};

json job_at(const std::string& socket, const std::string& name = "train") {
  const json answer = ask(socket, {{"verb", "jobs"}});
  for (const json& job : answer["jobs"])
    if (job["job"] == name) return job;
  return json::object();
}

json gpu_tier_at(const std::string& socket) {
  const json answer = ask(socket, {{"verb", "tiers"}});
  for (const json& tier : answer["tiers"])
    if (tier["tier"] == "gpu") return tier;
  return json::object();
}

// The machine's daemon: a private one has no rules.
void give(daemon::ServerOptions& options, std::uint64_t percent) {
  options.is_private = false;
  options.config.gpu_memory = daemon::Amount::percent(percent);
}
void give_all(daemon::ServerOptions& options) { give(options, 100); }

}  // namespace

TEST_CASE("A heap is granted a device's memory and shown with what it holds") {
  const ServerThread server([](daemon::ServerOptions& options) { give(options, 75); });
  Card card(server.socket());
  REQUIRE(card.error == 0);
  CHECK(card.session->warning().empty());
  CHECK(card.limit() == 192 * mib);
  REQUIRE(card.allocate(100 * mib) != nullptr);
  CHECK(card.allocate(100 * mib) == nullptr);
  REQUIRE(card.heap->give_back() == 0);  // frames that were too few
  REQUIRE(eventually([&] { return job_at(server.socket()).value("gpu_held_bytes", 0U) == 100 * mib; }));
  const json job = job_at(server.socket());
  CHECK(job["gpu_granted_bytes"] == 192 * mib);
  CHECK(job["gpu_budget_bytes"] == 192 * mib);
  CHECK(job["sessions"].empty());
  CHECK(job["budget_bytes"] == 0);  // of DRAM it takes none
  REQUIRE(job["gpu_heaps"].size() == 1);
  CHECK(job["gpu_heaps"][0]["gpu"] == "emulated:256M");
  const json tier = gpu_tier_at(server.socket());
  CHECK(tier["device"] == "emulated:256M");
  CHECK(tier["capacity_bytes"] == 192 * mib);
  CHECK(tier["device_bytes"] == card_bytes);
  CHECK(tier["used_bytes"] == 100 * mib);
  CHECK(tier["granted_bytes"] == 192 * mib);
}

// As torchrun starts them: two processes of one name.
TEST_CASE("Ranks of one job share its memory of a device by what they use") {
  const ServerThread server(give_all);
  Card first(server.socket()), second(server.socket());
  REQUIRE(first.error == 0);
  REQUIRE(second.error == 0);
  REQUIRE(eventually([&] { return first.limit() + second.limit() <= card_bytes; }));
  CHECK(job_at(server.socket())["gpu_heaps"].size() == 2);
  CHECK(ask(server.socket(), {{"verb", "jobs"}})["jobs"].size() == 1);
  REQUIRE(second.allocate(40 * mib) != nullptr);
  // More than half: it is granted on demand, while the other one does not need it.
  REQUIRE(first.allocate(140 * mib) != nullptr);
  CHECK(eventually([&] { return first.limit() + second.limit() <= card_bytes; }));
  CHECK(second.limit() >= 40 * mib);
}

TEST_CASE("A second job is granted its half when the first one gives back what it offered") {
  const ServerThread server(give_all);
  Card first(server.socket(), "first");
  std::byte* block = first.allocate(200 * mib);
  REQUIRE(block != nullptr);
  std::memset(block, 0x5a, 200 * mib);
  REQUIRE(first.heap->offer(block, first.stream) == 0);
  Card second(server.socket(), "second");
  REQUIRE(second.error == 0);
  std::byte* wanted = second.allocate(120 * mib);
  REQUIRE(wanted != nullptr);
  CHECK(first.held() <= card_bytes / 2);
  CHECK(eventually([&] { return first.limit() == card_bytes / 2; }));
  CHECK(eventually([&] {
    return job_at(server.socket(), "first")["gpu_heaps"][0].value("evicted_bytes", 0U) == 200 * mib;
  }));
  second.session.reset();  // it ends
  REQUIRE(eventually([&] { return first.heap->restore(block, first.stream) == 0; }));
  first.wait();
  CHECK(block[0] == std::byte{0x5a});
  CHECK(block[200 * mib - 1] == std::byte{0x5a});
}

TEST_CASE("What is in use stays whatever is granted and others wait for it") {
  const ServerThread server(give_all);
  Card first(server.socket(), "first");
  std::byte* block = first.allocate(200 * mib);
  REQUIRE(block != nullptr);
  std::memset(block, 0x33, 200 * mib);
  Card second(server.socket(), "second");
  REQUIRE(eventually([&] { return first.limit() == card_bytes / 2; }));
  CHECK(first.held() == 200 * mib);
  CHECK(second.limit() <= 56 * mib + daemon::Arbiter::minimum_bytes);
  CHECK(second.allocate(120 * mib) == nullptr);
  CHECK(block[100 * mib] == std::byte{0x33});
  first.heap->free(block, first.stream);
  first.blocks.clear();
  REQUIRE(first.heap->give_back() == 0);
  CHECK(eventually([&] { return second.limit() == card_bytes / 2; }));
}

TEST_CASE("The administrator's guarantees and limits hold for a device") {
  const ServerThread server([](daemon::ServerOptions& options) {
    give_all(options);
    daemon::ShareRule absent, own;
    absent.user = "123456";
    absent.gpu.guarantee = daemon::Amount::percent(25);
    daemon::JobRule small;
    small.user = std::to_string(::getuid());
    small.name = "small";
    small.gpu.limit = daemon::Amount::percent(25);
    options.config.shares = {absent};
    options.config.jobs = {small};
  });
  Card card(server.socket());
  CHECK(card.limit() == card_bytes / 4 * 3);
  Card limited(server.socket(), "small");
  CHECK(eventually([&] { return limited.limit() <= card_bytes / 4; }));
  CHECK(job_at(server.socket(), "small")["gpu_limit_bytes"] == card_bytes / 4);
}

TEST_CASE("A heap keeps its last grant when the daemon dies and joins the next one") {
  TemporaryDirectory directory;
  const std::string socket = directory / "t.sock";
  auto daemon = std::make_unique<DaemonProcess>(socket, std::vector<std::string>{});
  Card card(socket);
  REQUIRE(card.error == 0);
  const std::uint64_t granted = card.limit();
  REQUIRE(granted < card_bytes);  // 90%
  REQUIRE(card.allocate(64 * mib) != nullptr);
  daemon->kill();
  std::this_thread::sleep_for(std::chrono::milliseconds(400));  // some rounds of the session's
  CHECK(card.allocate(64 * mib) != nullptr);
  CHECK(card.limit() == granted);
  daemon = std::make_unique<DaemonProcess>(socket, std::vector<std::string>{});
  REQUIRE(eventually([&] { return job_at(socket).value("gpu_held_bytes", 0U) == 128 * mib; }));
  CHECK(job_at(socket)["gpu_heaps"][0]["reattached"] == true);
  CHECK(card.limit() == granted);
}

TEST_CASE("Without a daemon a heap has what it was opened with") {
  Card alone("");
  REQUIRE(alone.error == 0);
  CHECK(alone.session->warning().empty());
  CHECK(alone.limit() == card_bytes);
  Card missing("/nonexistent/t.sock");
  REQUIRE(missing.error == 0);
  CHECK_THAT(missing.session->warning(), Catch::Contains("no daemon at /nonexistent/t.sock"));
  CHECK(missing.limit() == card_bytes);
  CHECK(missing.allocate(200 * mib) != nullptr);
}

TEST_CASE("A heap takes no more than its own budget whatever is granted") {
  const ServerThread server(give_all);
  Card card(server.socket(), "train", 64 * mib);
  CHECK(card.limit() == 64 * mib);
  CHECK(card.allocate(100 * mib) == nullptr);
}

TEST_CASE("A refusal of the daemon's is an error of the opening") {
  const ServerThread server([](daemon::ServerOptions& options) {
    give_all(options);
    daemon::ShareRule all;
    all.user = "123456";
    all.gpu.guarantee = daemon::Amount::percent(100);
    options.config.shares = {all};
  });
  Card card(server.socket());
  CHECK(card.error == ENOSPC);
  CHECK_THAT(card.reason, Catch::Contains("refused it") && Catch::Contains("gpu_guarantee"));
}

// ---- other versions ---------------------------------------------------------------------------------------

TEST_CASE("An older daemon is left again and the heap is alone") {
  TemporaryDirectory directory;
  const std::string path = directory / "old.sock";
  const daemon::UniqueFd listener(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::copy(path.begin(), path.end(), address.sun_path);
  REQUIRE(::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  REQUIRE(::listen(listener.get(), 5) == 0);
  bool says_goodbye = false, requests_nothing = false;
  std::thread old([&] {
    daemon::Connection connection(daemon::UniqueFd(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC)),
                                  {}, 0);
    std::byte packet[1024];
    if (::recv(connection.fd(), packet, sizeof packet, 0) < 0) return;
    const auto hello = wire::read_as<wire::Hello>(packet);
    requests_nothing = hello.requested_budget_bytes == 0 && hello.pool_wanted_bytes == 0;
    daemon::Segment segment;
    if (daemon::Segment::create(&segment) != 0) return;
    auto welcome = wire::make<wire::Welcome>();
    welcome.flags = wire::welcome_segment_fd;
    welcome.features = wire::known_features & ~wire::feature_gpu_heaps;
    welcome.budget_bytes = 4 * mib;  // of DRAM
    welcome.segment_bytes = segment.bytes();
    welcome.stats_offset = segment.stats_offset();
    welcome.ring_offset = segment.ring_offset();
    welcome.ring_capacity = daemon::Segment::ring_capacity;
    const int fds[] = {segment.fd()};
    connection.send(&welcome, sizeof welcome, fds);
    if (::recv(connection.fd(), packet, sizeof packet, 0) >= static_cast<long>(sizeof(wire::Header)))
      says_goodbye = wire::read_as<wire::Header>(packet).type == wire::Type::goodbye;
  });
  Card card(path);
  old.join();
  REQUIRE(card.error == 0);
  CHECK(requests_nothing);
  CHECK(says_goodbye);
  CHECK_THAT(card.session->warning(), Catch::Contains("older than GPU heaps"));
  CHECK(card.limit() == card_bytes);
}
