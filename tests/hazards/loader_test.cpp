// The dynamic linker's corner cases: allocation before constructors have run, dlsym that allocates, libraries
// that want static TLS, pointers of other allocators, and programs that bring an allocator of their own.
#include <dlfcn.h>
#include <malloc.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "tests/hazards/hazard.h"

extern "C" {
void* __libc_malloc(std::size_t bytes);  // NOLINT: glibc's name
}

namespace terrace::hazards {
namespace {

struct EarlyBlocks {
  unsigned char* large = nullptr;
  unsigned char* small = nullptr;
  unsigned char* zeroed = nullptr;
  void* aligned = nullptr;
};
EarlyBlocks early;

// Runs before the constructors of any library, the preload's included.
void allocate_early(int, char**, char**) {
  early.large = static_cast<unsigned char*>(std::malloc(3 * mib));
  early.small = static_cast<unsigned char*>(std::malloc(100));
  early.zeroed = static_cast<unsigned char*>(std::calloc(1000, 1000));
  if (posix_memalign(&early.aligned, 1 << 16, mib) != 0) early.aligned = nullptr;
  if (early.large != nullptr) std::memset(early.large, 0x11, 3 * mib);
  if (early.small != nullptr) std::memset(early.small, 0x22, 100);
  early.large = static_cast<unsigned char*>(std::realloc(early.large, 5 * mib));
  std::free(std::malloc(2 * mib));
}

[[gnu::section(".preinit_array"), gnu::used]] void (*const early_entry)(int, char**,
                                                                        char**) = &allocate_early;

bool all_bytes_are(const unsigned char* bytes, std::size_t count, unsigned char value) {
  for (std::size_t i = 0; i < count; ++i) {
    if (bytes[i] != value) return false;
  }
  return true;
}

}  // namespace

HAZARD_SCENARIO(bootstrap_recursion_scenario) {
  HAZARD_CHECK(early.large != nullptr && all_bytes_are(early.large, 3 * mib, 0x11));
  HAZARD_CHECK(early.small != nullptr && all_bytes_are(early.small, 100, 0x22));
  HAZARD_CHECK(early.zeroed != nullptr && is_zero(early.zeroed, 1'000'000));
  HAZARD_CHECK(early.aligned != nullptr && reinterpret_cast<std::uintptr_t>(early.aligned) % (1 << 16) == 0);
  early.small = static_cast<unsigned char*>(std::realloc(early.small, 2 * mib));
  HAZARD_CHECK(all_bytes_are(early.small, 100, 0x22));
  // dlsym allocates its error text, here and in every new thread.
  std::thread([] {
    HAZARD_CHECK(dlsym(RTLD_DEFAULT, "no_such_symbol_anywhere") == nullptr && dlerror() != nullptr);
  }).join();
  for (void* block : {static_cast<void*>(early.large), static_cast<void*>(early.small),
                      static_cast<void*>(early.zeroed), early.aligned}) {
    std::free(block);
  }
}

TEST_CASE("hazard_bootstrap_recursion") {
  run_for_movers("bootstrap_recursion_scenario");
  // The next allocator is a shim that looks its own next one up on first use, through a dlsym that allocates.
  run_for_movers("bootstrap_recursion_scenario", {{"LD_PRELOAD", HAZARD_PRELOAD ":" HAZARD_SHIM}});
  // The shim comes first and sends everything on to the preload.
  run_for_movers("bootstrap_recursion_scenario", {{"LD_PRELOAD", HAZARD_SHIM ":" HAZARD_PRELOAD}});
}

HAZARD_SCENARIO(static_tls) {
  void* library = dlopen(parameter("HAZARD_TLS_LIBRARY").c_str(), RTLD_NOW);
  if (library == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    _exit(1);
  }
  auto* touch = reinterpret_cast<int (*)()>(dlsym(library, "touch_tls"));
  HAZARD_CHECK(touch != nullptr && touch() == 1 && touch() == 2);
  std::thread([touch] { HAZARD_CHECK(touch() == 1); }).join();
}

// Whatever loads without the preload loads with it.
TEST_CASE("hazard_static_tls_dlopen") {
  int loaded = 0;
  for (const char* library : {HAZARD_TLS_SMALL, HAZARD_TLS_MEDIUM, HAZARD_TLS_LARGE}) {
    const Environment settings = {{"HAZARD_TLS_LIBRARY", library}};
    Environment plain = settings;
    plain.emplace_back("LD_PRELOAD", "");
    if (!run_scenario("static_tls", plain).held()) continue;
    ++loaded;
    const Outcome outcome = run_scenario("static_tls", settings);
    INFO(library << "\n" << outcome.output);
    CHECK(outcome.held());
  }
  CHECK(loaded >= 2);
}

namespace {

// What a child does that must end it by SIGABRT with a report.
template <typename Misuse>
void must_abort(Misuse misuse) {
  const int status = in_forked_child([&] {
    misuse();
    return 0;
  });
  HAZARD_CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

}  // namespace

// Sizes that no rounding may turn into small ones.
HAZARD_TEST(absurd_sizes) {
  std::free(allocate(mib));
  for (const volatile std::size_t bytes : {SIZE_MAX, SIZE_MAX - page_bytes, SIZE_MAX / 2, SIZE_MAX / 2 + 1}) {
    const std::size_t opaque = bytes;  // to the compiler, which warns of such sizes
    for (void* (*allocate_any)(std::size_t) : {&std::malloc, &valloc, &pvalloc}) {
      errno = 0;
      HAZARD_CHECK(allocate_any(opaque) == nullptr && errno == ENOMEM);
    }
    HAZARD_CHECK(std::calloc(opaque, 2) == nullptr && std::realloc(nullptr, opaque) == nullptr);
    HAZARD_CHECK(memalign(page_bytes, opaque) == nullptr && aligned_alloc(page_bytes, opaque) == nullptr);
  }
}

HAZARD_TEST(foreign_pointers) {
  for (const std::size_t bytes : {std::size_t{64}, 100 * std::size_t{1024}, 4 * mib}) {
    auto* foreign = static_cast<unsigned char*>(__libc_malloc(bytes));
    std::memset(foreign, 0x33, bytes);
    HAZARD_CHECK(terrace_owns(foreign) == 0);
    HAZARD_CHECK(malloc_usable_size(foreign) >= bytes);
    foreign = static_cast<unsigned char*>(std::realloc(foreign, 2 * bytes));
    HAZARD_CHECK(foreign != nullptr && all_bytes_are(foreign, bytes, 0x33));
    std::free(foreign);
    std::free(__libc_malloc(bytes));
  }
  char* line = nullptr;  // allocated inside the C library
  HAZARD_CHECK(asprintf(&line, "%*d", 600'000, 7) == 600'000);
  line = static_cast<char*>(std::realloc(line, 900'000));
  HAZARD_CHECK(line[599'999] == '7');
  std::free(line);
  auto* block = static_cast<unsigned char*>(allocate(4 * mib));
  must_abort([&] { std::free(laundered(block + page_bytes)); });
  must_abort([&] {
    void* const again = laundered(block);
    std::free(block);
    std::free(laundered(again));
  });
  must_abort([&] { block = static_cast<unsigned char*>(std::realloc(laundered(block + 64), 8 * mib)); });
  std::free(block);
}

namespace {

int run_program(const char* program) {
  return in_forked_child([program] {
    execl(program, program, nullptr);
    return 127;
  });
}

}  // namespace

// The program's own allocator wins over the preload; both must live in one process.
HAZARD_SCENARIO(own_allocator_scenario) { HAZARD_CHECK(exited_with(run_program(HAZARD_OWN_ALLOCATOR), 0)); }

TEST_CASE("hazard_own_allocator") { run_for_movers("own_allocator_scenario"); }

}  // namespace terrace::hazards
