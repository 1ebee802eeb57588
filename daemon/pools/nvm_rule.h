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
  // Nothing is put into a directory that is not encrypted on its device.
  bool must_be_encrypted = false;

  friend bool operator==(const NvmRule&, const NvmRule&) = default;
};

// "" or why that NVM cannot be had here, and what can. Makes and drops a file there.
std::string check_nvm(const NvmRule& rule);
// "" or why no file can be made in its directory, such as one that is not mounted. "" for NUMA nodes.
std::string lost_nvm_directory(const NvmRule& rule);

}  // namespace terrace::daemon
