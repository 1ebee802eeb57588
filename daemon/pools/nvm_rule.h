// What the settings say of NVM that jobs share.
#pragma once

#include <cstdint>
#include <string>

#include "tiers/memory/node_set.h"

namespace terrace::daemon {

// For all jobs together: in a directory, or on NUMA nodes; neither named: on slow ones, whichever they are.
struct NvmRule {
  std::uint64_t bytes = 0;
  std::string directory = {};
  tiers::NodeSet nodes = {};
  std::string nodes_text = {};  // as the file has it, such as "1-3"
  unsigned line = 0;            // in the file

  friend bool operator==(const NvmRule&, const NvmRule&) = default;
};

// "" or why that NVM cannot be had here, and what can. Makes and drops a file there.
std::string check_nvm(const NvmRule& rule);

}  // namespace terrace::daemon
