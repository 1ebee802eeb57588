// `terrace doctor`: runs the checks, says what `terrace run` will do here, and how to get what is missing.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>

#include "tools/cli/base/exit_code.h"
#include "tools/cli/base/verbs.h"
#include "tools/cli/doctor/checks.h"
#include "tools/cli/terminal/color.h"

namespace terrace::cli {

using nlohmann::json;

namespace {

const char* word_for(Health health) {
  switch (health) {
    case Health::good:
      return "ok";
    case Health::degraded:
      return "degraded";
    case Health::missing:
      return "missing";
    case Health::note:
      break;
  }
  return "note";
}

const char* color_for(Health health) {
  return health == Health::good       ? color::green
         : health == Health::note     ? color::plain
         : health == Health::degraded ? color::yellow
                                      : color::red;
}

bool is_good(const Findings& findings, const char* name) {
  const Finding* finding = find_worst(findings, name);
  return finding != nullptr && finding->health == Health::good;
}

Health worst(const Findings& findings) {
  Health result = Health::good;
  for (const Finding& finding : findings)
    if (finding.health != Health::note) result = std::max(result, finding.health);
  return result;
}

const char* mover_here(const Findings& findings) {
  return is_good(findings, "UFFDIO_MOVE")        ? "UFFDIO_MOVE"
         : is_good(findings, "MREMAP_DONTUNMAP") ? "mremap"
                                                 : "copying";
}

PoolList pools_of(const Findings& findings) {
  PoolList pools;
  for (const Finding& finding : findings)
    if (finding.name == "directory") pools.push_back(finding.facts.value("path", ""));
  return pools;
}

// One sentence: what a job would get.
std::string verdict(const Findings& findings) {
  const Finding* fault = find(findings, "userfaultfd");
  const Finding* pool = find_worst(findings, "directory");
  if (fault == nullptr || fault->health == Health::missing)
    return "the program runs unchanged on plain memory: nothing can be evicted without userfaultfd";
  if (pool == nullptr || pool->health == Health::missing)
    return "the program runs, but all its data stays in DRAM: the pool directory cannot be used";
  return fmt::format("data beyond the budget is taken out by {} and kept in {}, through {}{}; --limit {}",
                     mover_here(findings), fmt::join(pools_of(findings), " and "),
                     is_good(findings, "io_uring") ? "io_uring" : "pread",
                     is_good(findings, "O_DIRECT") ? " and O_DIRECT" : "",
                     is_good(findings, "child") ? "works" : "does not work here, --dram does");
}

void print_finding(const Finding& finding, const Painter& paint) {
  std::cout << fmt::format("  {}  {:<22} {}\n",
                           paint(fmt::format("{:<8}", word_for(finding.health)), color_for(finding.health)),
                           finding.name, finding.value);
  if (!finding.remedy.empty()) std::cout << fmt::format("{:>13}{}\n", "", "→ " + finding.remedy);
}

void print_text(const Findings& findings) {
  const Painter paint(STDOUT_FILENO);
  std::string area;
  for (const Finding& finding : findings) {
    if (finding.area != area) std::cout << paint(finding.area, color::bold) << '\n';
    area = finding.area;
    print_finding(finding, paint);
  }
  std::cout << paint("terrace run", color::bold) << "\n  " << verdict(findings) << '\n';
}

void print_json(const Findings& findings) {
  json checks = json::array();
  for (const Finding& finding : findings) {
    json check{{"area", finding.area},
               {"name", finding.name},
               {"health", word_for(finding.health)},
               {"value", finding.value}};
    if (!finding.remedy.empty()) check["remedy"] = finding.remedy;
    if (!finding.facts.is_null()) check["facts"] = finding.facts;
    checks.push_back(std::move(check));
  }
  std::cout << json{{"format", "terrace-doctor"},
                    {"version", 1},
                    {"health", word_for(worst(findings))},
                    {"verdict", verdict(findings)},
                    {"checks", std::move(checks)}}
                   .dump(2)
            << '\n';
}

}  // namespace

const Finding* find(const Findings& findings, const std::string& name) {
  const auto found =
      std::find_if(findings.begin(), findings.end(), [&](const Finding& f) { return f.name == name; });
  return found == findings.end() ? nullptr : &*found;
}

const Finding* find_worst(const Findings& findings, const std::string& name) {
  const Finding* worst = find(findings, name);
  for (const Finding& finding : findings)
    if (finding.name == name && finding.health > worst->health) worst = &finding;
  return worst;
}

int doctor(const DoctorOptions& options) {
  const auto pools = read_pool_list(options.pool);
  if (!pools) return complain(exit_usage, fmt::format("--pool {}: {}", options.pool, pools.error));
  Findings findings;
  check_machine(&findings);
  check_paging(&findings);
  check_cgroup(&findings);
  check_nvm(&findings);
  check_pool(*pools, &findings);
  check_gpu(pools->front(), options.quick, &findings);  // what is offloaded goes there
  if (!options.quick) {
    measure_speeds(*pools, &findings);
    measure_nvm(&findings);
    measure_wake_up(&findings);
  }
  options.json ? print_json(findings) : print_text(findings);
  return options.check && worst(findings) != Health::good ? exit_degraded : exit_ok;
}

}  // namespace terrace::cli
