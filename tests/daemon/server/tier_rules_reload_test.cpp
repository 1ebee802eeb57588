// Rules of tiers that change while terraced runs, and rules that cannot hold.
#include <signal.h>

#include <cerrno>
#include <fstream>

#include "tests/daemon/support.h"

using namespace terrace;
using namespace terrace::tests;
using Catch::Matchers::Contains;
using nlohmann::json;

namespace {

struct Settings {
  TemporaryDirectory directory;
  std::string path = directory / "t.toml";
  std::string socket = directory / "t.sock";
  void write(const std::string& rules) const {
    std::ofstream(path) << "[budget]\ndram = \"1G\"\n[pool]\nsize = \"1G\"\ndirectory = \""
                        << directory.path() << "\"\n[gpu]\nmemory = \"4G\"\n"
                        << rules;
  }
};

wire::Hello heap_greeting() {
  wire::Hello hello = greeting("heap", 0);
  hello.flags = wire::hello_is_gpu_heap;
  hello.pool_capacity_bytes = 8 * gib;
  wire::copy_text(hello.program, sizeof hello.program, "card");
  return hello;
}

}  // namespace

TEST_CASE("terraced: SIGHUP changes what is given of the pool and of GPUs and bad rules change nothing") {
  const Settings settings;
  settings.write("");
  DaemonProcess process(settings.socket, {"--config", settings.path});
  RawClient heap(settings.socket);
  join(heap, heap_greeting());
  const auto gpu_granted = [&] {
    const json answer = ask(settings.socket, {{"verb", "tiers"}});
    return answer["tiers"].back().value("granted_bytes", std::uint64_t{0});
  };
  CHECK(gpu_granted() == 4 * gib);
  settings.write("[[share]]\nuser = \"123456\"\npool_guarantee = \"75%\"\ngpu_guarantee = \"1G\"\n");
  ::kill(process.pid(), SIGHUP);
  REQUIRE(eventually([&] { return gpu_granted() == 3 * gib; }));
  RawClient job(settings.socket);
  REQUIRE(job.send(greeting("job", 0, 512 * mib)));
  const auto refused = job.receive();
  REQUIRE(refused);
  REQUIRE(refused->type() == wire::Type::refused);
  CHECK(refused->as<wire::Refused>().error == ENOSPC);
  CHECK(refused->as<wire::Refused>().available_bytes == 256 * mib);
  settings.write("[[share]]\nuser = \"123456\"\npool_guarantee = \"2G\"\n");  // more than there is
  ::kill(process.pid(), SIGHUP);
  RawClient another(settings.socket);
  REQUIRE(another.send(greeting("job", 0, 512 * mib)));
  const auto still = another.receive();
  REQUIRE(still);
  CHECK(still->as<wire::Refused>().available_bytes == 256 * mib);
  CHECK(gpu_granted() == 3 * gib);
  settings.write("");
  ::kill(process.pid(), SIGHUP);
  CHECK(eventually([&] { return gpu_granted() == 4 * gib; }));
}
