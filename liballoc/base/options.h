// The library's settings, read once from TERRACE_* environment variables (docs/environment.md).
//
// The environment is input from outside: each value is checked, a bad one disables the library with one line
// that names variable, value and what is accepted. Strings point into the environment block, which may
// change later, so they are copied here.
#pragma once

#include <cstddef>
#include <cstdint>

#include "liballoc/base/message.h"
#include "liballoc/base/pool_directories.h"
#include "liballoc/base/tier_list.h"

namespace terrace::liballoc {

enum class MoverKind : std::uint8_t { automatic, move, mremap };
// How runs are compressed on their way to the tier: where the advisor finds that it pays, never, or by one
// codec always. by_budget, if nothing is asked for: automatic where its memory is under a hundredth of the
// budget, else off.
enum class Compression : std::uint8_t { automatic, off, zvc, zvc_exp, rle, csr8, by_budget };
enum class IoKind : std::uint8_t { automatic, io_uring, pread };

struct Options {
  static constexpr std::size_t path_bytes = 512;
  static constexpr unsigned most_workers = 16;

  bool disabled = false;
  std::size_t threshold_bytes = std::size_t{256} * 1024;
  std::uint64_t dram_bytes = 0;  // 0: no budget was asked for
  std::uint64_t pool_bytes = 0;  // 0: the default
  // The memory of an emulated GPU, where a framework's tensors on the CPU stand for those on one: the heap
  // has no more than that. 0: no such limit.
  std::uint64_t device_bytes = 0;
  MoverKind mover = MoverKind::automatic;
  IoKind io = IoKind::automatic;
  Compression compression = Compression::by_budget;
  unsigned processors = 1;  // that the process may use
  unsigned workers = 0;     // threads that compute for the agent; read_options() counts the processors
  unsigned weight = 0;      // of the job among its user's; 0: as the daemon has it
  Severity log_level = Severity::warning;
  PoolDirectories pool_directories;
  TierList tiers;  // before the pool; unnamed: as the daemon has it
  char socket[path_bytes] = "";
  char daemon[path_bytes] = "";
  char limit_cgroup[path_bytes] = "";
  char job[64] = "";
  char policy[24] = "";  // that plans its steps; empty: as the daemon has it (wire/period/policy_names.h)
  char fault[path_bytes] = "";  // TERRACE_FAULT: damage for tests, see agent/pool/fault_injection.h

  // Whether there may ever be a pager in this process.
  bool may_page() const { return dram_bytes != 0 || socket[0] != '\0'; }
  // Directories that were named are where the pool lies, and a service's pool is one file in a directory of
  // its own: the job makes its files itself, as without a daemon. A private daemon was told of a single
  // directory and grants a file there; of several it grants none.
  bool makes_own_pool() const {
    return pool_directories.are_named() && (daemon[0] == '\0' || pool_directories.size() > 1);
  }
};

// A list as TERRACE_TIERS has it, from elsewhere: as TierList::read(). A function of its own, as the agent,
// which calls it once, may not refer to what a string_view throws.
const char* read_tiers(const char* text, TierList* out);

// Reads every variable. False after reporting the first bad one: the caller stays out of the way.
bool read_options(Options* options);

}  // namespace terrace::liballoc
