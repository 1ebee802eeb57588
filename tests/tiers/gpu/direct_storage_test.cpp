// GPUDirect Storage without a GPU: what is said when it is missing, and the probe over a libcufile that reads
// and writes the emulated device's memory.
#include "tiers/gpu/direct_storage.h"

#include <fcntl.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <cstdlib>

#include "device_support.h"
#include "tiers/gpu/direct_probe.h"

using namespace terrace::tiers::gpu;
using namespace terrace::tiers::gpu::test;

namespace {

constexpr const char* fake = TERRACE_FAKE_CUFILE;

struct Fault {
  explicit Fault(const char* what) { setenv("FAKE_CUFILE", what, 1); }
  ~Fault() { unsetenv("FAKE_CUFILE"); }
};

std::unique_ptr<DirectStorage> open_fake() {
  std::unique_ptr<DirectStorage> storage;
  std::string reason;
  const int error = DirectStorage::open(&storage, &reason, fake);
  INFO(reason);
  REQUIRE(error == 0);
  return storage;
}

class PoolFile {
 public:
  PoolFile() : fd_(::open(TERRACE_TEST_POOL_DIR, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600)) {
    REQUIRE(fd_ >= 0);
    REQUIRE(ftruncate(fd_, 16 * mib) == 0);
  }
  ~PoolFile() { close(fd_); }
  int fd() const { return fd_; }

 private:
  int fd_;
};

struct Outcome {
  int error = 0;
  std::string reason;
  DirectProbe probe;
};

Outcome probe_with_fake() {
  const auto storage = open_fake();
  const auto device = open("emulated:16M");
  const PoolFile file;
  PlainBounce bounce(*device, file.fd());
  REQUIRE(bounce.open(4 * mib) == 0);
  Outcome outcome;
  outcome.error = probe_direct_storage(*storage, *device, file.fd(), 8 * mib, 4 * mib, bounce.path(),
                                       &outcome.probe, &outcome.reason);
  CHECK(device->memory().free_bytes == 16 * mib);  // it took nothing with it
  return outcome;
}

}  // namespace

TEST_CASE("AMissingLibraryIsRefusedWithTheReason") {
  std::unique_ptr<DirectStorage> storage;
  std::string reason;
  CHECK(DirectStorage::open(&storage, &reason, "libcufile-of-nobody.so.0") == ENOTSUP);
  CHECK(storage == nullptr);
  CHECK(reason.find("libcufile-of-nobody.so.0") != std::string::npos);
  CHECK(reason.find("nvidia-gds") != std::string::npos);
}

TEST_CASE("ALibraryThatIsAnotherOneIsRefused") {
  std::unique_ptr<DirectStorage> storage;
  std::string reason;
  CHECK(DirectStorage::open(&storage, &reason, "libc.so.6") == ENOTSUP);
  CHECK(reason.find("lacks a function") != std::string::npos);
}

TEST_CASE("ADriverThatDoesNotStartIsRefused") {
  const Fault fault("no driver");
  std::unique_ptr<DirectStorage> storage;
  std::string reason;
  CHECK(DirectStorage::open(&storage, &reason, fake) == ENOTSUP);
  CHECK(reason.find("5001") != std::string::npos);
  CHECK(reason.find("nvidia-fs") != std::string::npos);
}

TEST_CASE("ADriverThatSomebodyElseHasOpenedServesUsToo") {
  const Fault fault("open already");
  CHECK(open_fake() != nullptr);
}

TEST_CASE("DirectTransfersReachTheFileAndTheDevice") {
  const auto storage = open_fake();
  const auto device = open("emulated:8M");
  const PoolFile pool;
  const Area area(*device, 1);
  DirectStorage::File file = nullptr;
  REQUIRE(storage->add_file(pool.fd(), &file) == 0);
  REQUIRE(storage->add_buffer(area.at(), 2 * mib) == 0);
  const Bytes content = pattern(mib, 1);
  put(*device, area.at(), content);
  REQUIRE(storage->write(file, area.at(), mib, 4096) == 0);
  REQUIRE(storage->read(file, area.at(mib), mib, 4096) == 0);
  CHECK(get(*device, area.at(mib), mib) == content);
  Bytes in_file(mib);
  CHECK(pread(pool.fd(), in_file.data(), mib, 4096) == static_cast<ssize_t>(mib));
  CHECK(in_file == content);
  CHECK(storage->read(file, area.at(), mib, 16 * mib) == EIO);  // behind the file's end: nothing is read
  CHECK(storage->remove_buffer(area.at()) == 0);
  storage->remove_file(file);
}

TEST_CASE("TheProbeVerifiesAndTimesBothPaths") {
  const Outcome outcome = probe_with_fake();
  INFO(outcome.reason);
  REQUIRE(outcome.error == 0);
  CHECK(outcome.probe.bytes == 4 * mib);
  for (const std::uint64_t took_ns : {outcome.probe.direct_write_ns, outcome.probe.direct_read_ns,
                                      outcome.probe.bounce_write_ns, outcome.probe.bounce_read_ns}) {
    CHECK(took_ns > 0);
  }
}

TEST_CASE("ItPaysWhenBothWaysTogetherAreFaster") {
  DirectProbe probe{4 * mib, 50, 30, 40, 50};
  CHECK(probe.pays());
  probe.direct_read_ns = 40;
  CHECK_FALSE(probe.pays());
}

TEST_CASE("ALostWriteIsFoundByTheProbe") {
  const Fault fault("lost write");
  const Outcome outcome = probe_with_fake();
  CHECK(outcome.error == EBADMSG);
  CHECK(outcome.reason == "reading with cuFile: what came back is not what was written");
}

TEST_CASE("AShortWriteFailsTheProbe") {
  const Fault fault("short write");
  const Outcome outcome = probe_with_fake();
  CHECK(outcome.error == EIO);
  CHECK(outcome.reason.find("writing with cuFile") == 0);
}

TEST_CASE("AFailingReadFailsTheProbe") {
  const Fault fault("failing read");
  CHECK(probe_with_fake().error == EIO);
}

TEST_CASE("AFileThatIsNotTakenFailsTheProbe") {
  const Fault fault("no file");
  const Outcome outcome = probe_with_fake();
  CHECK(outcome.error == ENOTSUP);
  CHECK(outcome.reason.find("5008") != std::string::npos);
}
