// What `terrace doctor` looks at. Each check tries the thing itself where it can: a kernel version says
// little about a container, a feature bit little about a seccomp filter.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tools/cli/base/pool_list.h"

namespace terrace::cli {

enum class Health {
  good,
  degraded,  // `terrace run` works, with less than it could have
  missing,   // the pager cannot work without it
  note,      // a fact, neither good nor bad
};

struct Finding {
  std::string area;  // "paging"
  std::string name;  // "userfaultfd"; area and name are the keys in JSON, kept for ever
  Health health = Health::note;
  std::string value;               // what was found, for people
  std::string remedy;              // what to do about it; empty when good
  nlohmann::json facts = nullptr;  // the same for programs
};

using Findings = std::vector<Finding>;

void check_paging(Findings* out);                                    // userfaultfd, moving pages, huge pages
void check_machine(Findings* out);                                   // kernel, io_uring, limits, swap, GPU
void check_gpu(const std::string& pool, bool quick, Findings* out);  // driver, device, GPUDirect Storage
void check_cgroup(Findings* out);  // version, limits above us, whether a child can be made
void check_pool(const PoolList& directories, Findings* out);      // of each O_DIRECT, space, encryption
void check_nvm(Findings* out);                                    // slow NUMA nodes, file systems with DAX
void measure_nvm(Findings* out);                                  // how fast these are; a second each
void measure_speeds(const PoolList& directories, Findings* out);  // DRAM and pool; seconds of work
void measure_wake_up(Findings* out);                              // of a sleeping thread; 50 ms

const Finding* find(const Findings& findings, const std::string& name);
// Of several pool directories each has its findings: the worst of that name, or nullptr.
const Finding* find_worst(const Findings& findings, const std::string& name);

}  // namespace terrace::cli
