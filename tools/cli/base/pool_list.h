// The directories that --pool and TERRACE_POOL_DIR name: "/a", or "/a,/b" over which a job's pool is striped.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "liballoc/wire/result.h"

namespace terrace::cli {

using PoolList = std::vector<std::string>;

// The names as they were given, without a look at the file systems; or what is wrong with the text.
Result<PoolList> read_pool_list(const std::string& text);
// With commas, as the library reads it.
std::string pool_text(const PoolList& directories);

// Absolute names of directories that can be written to, or the error.
Result<PoolList> usable_pool_list(const std::string& text);

// Free on the file systems of all directories, each of which counts once.
std::uint64_t free_pool_bytes(const PoolList& directories);
// One of them that is on the same file system as one before it, or "".
std::string pool_twin(const PoolList& directories);

}  // namespace terrace::cli
