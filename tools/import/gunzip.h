// Unpacking gzip in memory, for traces as files hold them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "liballoc/wire/result.h"

namespace terrace::import {

// True for what begins like a gzip file.
bool is_gzip(std::string_view bytes);

// All members of a gzip file, one after the other, as `gunzip` does. Refused: anything that is not gzip, a
// wrong checksum, an end that is missing, bytes after the last member, and more than `limit_bytes` of content
// (a few kilobytes can unpack to gigabytes; memory grows only with what is really there).
Result<std::string> gunzip(std::string_view packed, std::uint64_t limit_bytes);

}  // namespace terrace::import
