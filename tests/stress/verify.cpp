// The verifying stress program: threads that allocate, resize, read, write, advise, pin, fork and free at
// random, beyond the budget, and check every page they look at. One wrong byte ends it with exit status 1 and
// everything that is known about the page.
//
//   tools/bench/stress --seconds 600          both move paths under the preload, ten minutes each
//   LD_PRELOAD=…/libterrace_preload.so TERRACE_DRAM=256M terrace-stress --seconds 10 --threads 4 --bytes 512M
//
// A block belongs to one thread. Forks come in two kinds: a thread forks in the midst of the others' work and
// its child checks that thread's blocks, or it waits until all are between two steps and its child checks all
// blocks; both children then write to what they inherited and leave. The same seed makes the same decisions,
// not the same interleaving.
#include <unistd.h>

#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "liballoc/terrace.h"
#include "tests/stress/worker.h"

namespace terrace::stress {
namespace {

std::uint64_t parse_bytes(const char* text) {
  char* end = nullptr;
  const std::uint64_t value = std::strtoull(text, &end, 10);
  switch (*end) {
    case 'K':
      return value << 10;
    case 'M':
      return value << 20;
    case 'G':
      return value << 30;
    case '\0':
      return value;
    default:
      return 0;
  }
}

bool parse(int argc, char** argv, Settings* settings) {
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string option = argv[i];
    const char* value = argv[i + 1];
    if (option == "--seconds") {
      settings->seconds = std::atof(value);
    } else if (option == "--threads") {
      settings->threads = static_cast<unsigned>(std::atoi(value));
    } else if (option == "--seed") {
      settings->seed = std::strtoull(value, nullptr, 10);
    } else if (option == "--bytes") {
      settings->bytes = parse_bytes(value);
    } else if (option == "--json") {
      settings->json = value;
    } else {
      return false;
    }
  }
  return argc % 2 == 1 && settings->seconds > 0 && settings->threads > 0 && settings->threads <= 64 &&
         settings->bytes / settings->threads >= smallest_block;
}

void print_results(std::FILE* out, const Settings& settings) {
  terrace_statistics s{};
  s.size = sizeof s;
  terrace_status status{};
  status.size = sizeof status;
  terrace_get_statistics(&s);
  terrace_get_status(&status);
  std::fprintf(out,
               "{\"format\": \"terrace-stress\", \"version\": 1, \"seconds\": %.1f, \"threads\": %u, "
               "\"seed\": %" PRIu64 ", \"bytes\": %" PRIu64
               ", \"wrong_bytes\": 0, \"pager\": \"%s\", \"mover\": \"%s\", \"io\": \"%s\"",
               settings.seconds, settings.threads, settings.seed, settings.bytes, status.pager, status.mover,
               status.io);
  for (int i = 0; i < counts; ++i)
    std::fprintf(out, ", \"%s\": %" PRIu64, count_names[i], total(static_cast<Count>(i)));
  std::fprintf(out,
               ", \"evictions\": %" PRIu64 ", \"restores\": %" PRIu64 ", \"written_bytes\": %" PRIu64
               ", \"read_bytes\": %" PRIu64 ", \"faults\": %" PRIu64 ", \"cancelled_evictions\": %" PRIu64
               ", \"lost_runs\": %" PRIu64 ", \"resident_peak_bytes\": %" PRIu64
               ", \"budget_bytes\": %" PRIu64 "}\n",
               s.evictions, s.restores, s.written_bytes, s.read_bytes, s.faults, s.cancelled_evictions,
               s.lost_runs, s.resident_peak_bytes, s.budget_bytes);
}

void write_json(const Settings& settings) {
  std::FILE* file = std::fopen(settings.json.c_str(), "we");
  if (file == nullptr) {
    std::fprintf(stderr, "--json %s: cannot be written, errno %d\n", settings.json.c_str(), errno);
    _Exit(2);
  }
  print_results(file, settings);
  std::fclose(file);
}

}  // namespace
}  // namespace terrace::stress

int main(int argc, char** argv) {
  terrace::stress::Settings settings;
  if (!terrace::stress::parse(argc, argv, &settings)) {
    std::fprintf(stderr,
                 "usage: terrace-stress [--seconds N] [--threads 1..64] [--seed N] [--bytes SIZE[K|M|G]] "
                 "[--json FILE]\n");
    return 2;
  }
  // Longer than it should take: a hang ends by SIGALRM instead of never.
  alarm(static_cast<unsigned>(settings.seconds) + 300);
  terrace::stress::run(settings);
  terrace::stress::print_results(stdout, settings);
  if (!settings.json.empty()) terrace::stress::write_json(settings);
  return 0;
}
