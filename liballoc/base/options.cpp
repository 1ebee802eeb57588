#include "liballoc/base/options.h"

#include <sys/auxv.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>

#include "liballoc/base/kill_switch.h"
#include "liballoc/base/os.h"
#include "liballoc/wire/period/policy_names.h"
#include "liballoc/wire/protocol.h"
#include "liballoc/wire/size.h"
#include "tiers/extent_allocator.h"

namespace terrace::liballoc {
namespace {

constexpr std::uint64_t any_size = ~std::uint64_t{0};

bool refuse(const char* name, const char* value, const char* accepted) {
  Message(Severity::error) << name << "=" << value << " is not understood (" << accepted
                           << "); running without Terrace";
  return false;
}

bool out_of_range(const char* name, const char* value, const char* how, std::uint64_t bound) {
  Message m(Severity::error);
  m << name << "=" << value << how;
  m.bytes(bound) << "; running without Terrace";
  return false;
}

bool size_option(const char* name, std::uint64_t least, std::uint64_t most, std::uint64_t* out) {
  const char* value = secure_getenv(name);
  if (value == nullptr || *value == '\0') return true;
  std::uint64_t bytes = 0;
  if (wire::read_size(value, &bytes) != 0) return refuse(name, value, wire::size_grammar);
  if (bytes < least) return out_of_range(name, value, " is below the least of ", least);
  if (bytes > most) return out_of_range(name, value, " is above the most of ", most);
  *out = bytes;
  return true;
}

// Of those that the process may use.
unsigned count_processors() {
  std::uint64_t mask[128] = {};  // 8192 of them: the most that the kernel can be built for
  const long bytes = syscall(SYS_sched_getaffinity, 0, sizeof mask, mask);
  unsigned count = 0;
  for (long i = 0; i < bytes / 8; ++i) count += static_cast<unsigned>(std::popcount(mask[i]));
  return count;
}

// A machine that has few has none to spare.
unsigned workers_of(unsigned processors) { return std::min(processors / 8, 4U); }

bool count_option(const char* name, unsigned least, unsigned most, const char* accepted, unsigned* out) {
  const char* value = secure_getenv(name);
  if (value == nullptr || *value == '\0') return true;
  const std::size_t digits = std::strspn(value, "0123456789");
  unsigned count = 0;
  for (std::size_t i = 0; i < digits && count <= most; ++i)
    count = 10 * count + static_cast<unsigned>(value[i] - '0');
  if (value[digits] != '\0' || count < least || count > most) return refuse(name, value, accepted);
  *out = count;
  return true;
}

bool text_option(const char* name, char* out, std::size_t capacity) {
  const char* value = secure_getenv(name);
  if (value == nullptr || *value == '\0') return true;
  if (std::strlen(value) >= capacity) return refuse(name, "(too long)", "at most 511 characters; names 63");
  std::memcpy(out, value, std::strlen(value) + 1);
  return true;
}

bool policy_option(char* out, std::size_t capacity) {
  const char* value = secure_getenv("TERRACE_POLICY");
  if (value == nullptr || *value == '\0') return true;
  if (!wire::is_policy(value) || std::strlen(value) >= capacity)
    return refuse("TERRACE_POLICY", value, wire::policy_words);
  std::memcpy(out, value, std::strlen(value) + 1);
  return true;
}

// A list, which may be longer than a line has room for, is read and checked by its own class.
template <typename List>
bool list_option(const char* name, List* out) {
  constexpr std::size_t most_shown = 200;
  const char* value = secure_getenv(name);
  if (value == nullptr || *value == '\0') return true;
  const char* problem = out->read(value);
  return problem == nullptr ||
         refuse(name, std::strlen(value) <= most_shown ? value : "(a long list)", problem);
}

// What compressed DRAM needs of the other options; without a budget of the job's own, half of any is the
// most.
bool check_tiers(const Options& o) {
  if (!o.tiers.compressed().is_wanted()) return true;
  const char* value = secure_getenv("TERRACE_TIERS");
  if (o.compression == Compression::off)
    return refuse("TERRACE_TIERS", value,
                  "compressing, which TERRACE_COMPRESS=off forbids: leave one of them out");
  return o.dram_bytes == 0 || !o.tiers.compressed().exceeds(o.dram_bytes) ||
         refuse("TERRACE_TIERS", value, "at most half of TERRACE_DRAM");
}

// A respawned daemon is started from inside the program, whose directory may have changed by then.
bool program_option(const char* name, char* out, std::size_t capacity) {
  if (!text_option(name, out, capacity)) return false;
  return *out == '\0' || *out == '/' || refuse(name, out, "the absolute path of terraced");
}

template <typename Enum, std::size_t count>
bool choice_option(const char* name, const char* const (&words)[count], const char* accepted, Enum* out) {
  const char* value = secure_getenv(name);
  if (value == nullptr || *value == '\0') return true;
  for (std::size_t i = 0; i < count; ++i) {
    if (std::strcmp(value, words[i]) == 0) {
      *out = static_cast<Enum>(i);
      return true;
    }
  }
  return refuse(name, value, accepted);
}

// TERRACE_GPU=emulated:SIZE[,…] limits the heap when the job offloads: then malloc's large blocks play the
// tensors in that GPU's memory. The rest of the text is the emulated device's own (tiers/gpu/device.h).
bool device_option(std::uint64_t* out) {
  static constexpr char emulated[] = "emulated:";
  constexpr std::size_t prefix = sizeof(emulated) - 1;
  const char* device = secure_getenv("TERRACE_GPU");
  const char* offload = secure_getenv("TERRACE_OFFLOAD");
  if (device == nullptr || offload == nullptr || *offload == '\0') return true;
  if (std::strncmp(device, emulated, prefix) != 0) return true;
  char size[32] = "";
  const std::size_t length = std::strcspn(device + prefix, ",");
  if (length < sizeof(size)) std::memcpy(size, device + prefix, length);
  // The device itself, which tiers/gpu reads, takes whole numbers and capitals only.
  const bool whole = std::strspn(size, "0123456789BKMGTi") == std::strlen(size);
  if (whole && wire::read_size(size, out) == 0 && *out != 0) return true;
  return refuse("TERRACE_GPU", device, "emulated:SIZE, such as emulated:8G");
}

// The program has more privilege than who started it and chose its environment.
bool is_privileged() { return getauxval(AT_SECURE) != 0; }

bool disable_option(bool* out) {
  if (is_privileged()) {
    *out = true;
    return true;
  }
  const char* value = secure_getenv("TERRACE_DISABLE");
  const Switch found = switch_of(value);
  if (found == Switch::not_understood) return refuse("TERRACE_DISABLE", value, switch_words);
  *out = found == Switch::on;
  return true;
}

}  // namespace

const char* read_tiers(const char* text, TierList* out) { return out->read(text); }

bool read_options(Options* o) {
  if (!disable_option(&o->disabled)) return false;
  if (o->disabled) return true;
  static constexpr const char* movers[] = {"auto", "move", "mremap"};
  static constexpr const char* ios[] = {"auto", "io_uring", "pread"};
  static constexpr const char* codecs[] = {"auto", "off", "zvc", "zvc_exp", "rle", "csr8"};
  static constexpr const char* levels[] = {"error", "warning", "info", "debug"};
  std::uint64_t threshold = o->threshold_bytes;
  o->processors = count_processors();
  o->workers = workers_of(o->processors);
  const bool good =
      choice_option("TERRACE_LOG", levels, "error, warning, info, debug", &o->log_level) &&
      size_option("TERRACE_THRESHOLD", 4096, any_size, &threshold) &&
      size_option("TERRACE_DRAM", wire::least_budget_bytes, any_size, &o->dram_bytes) &&
      size_option("TERRACE_POOL_SIZE", wire::least_pool_bytes, tiers::ExtentAllocator::max_capacity_bytes,
                  &o->pool_bytes) &&
      choice_option("TERRACE_MOVER", movers, "auto, move, mremap, copy", &o->mover) &&
      choice_option("TERRACE_IO", ios, "auto, io_uring, pread", &o->io) &&
      count_option("TERRACE_WORKERS", 0, Options::most_workers, "a number of threads from 0 to 16",
                   &o->workers) &&
      count_option("TERRACE_WEIGHT", 1, wire::most_weight, "a whole number from 1 to 1000", &o->weight) &&
      choice_option("TERRACE_COMPRESS", codecs, "auto, off, zvc, zvc_exp, rle, csr8", &o->compression) &&
      list_option("TERRACE_POOL_DIR", &o->pool_directories) && list_option("TERRACE_TIERS", &o->tiers) &&
      text_option("TERRACE_SOCKET", o->socket, sizeof(o->socket)) &&
      program_option("TERRACE_DAEMON", o->daemon, sizeof(o->daemon)) &&
      text_option("TERRACE_LIMIT_CGROUP", o->limit_cgroup, sizeof(o->limit_cgroup)) &&
      text_option("TERRACE_JOB", o->job, sizeof(o->job)) && policy_option(o->policy, sizeof(o->policy)) &&
      text_option("TERRACE_FAULT", o->fault, sizeof(o->fault)) && device_option(&o->device_bytes) &&
      check_tiers(*o);
  o->threshold_bytes = threshold;
  return good;
}

}  // namespace terrace::liballoc
