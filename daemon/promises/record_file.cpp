// See record_file.h.
#include "daemon/promises/record_file.h"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <cstring>

#include "daemon/base/boot.h"
#include "tiers/records/private_file.h"

namespace terrace::daemon {
namespace {

DecodedPromises read_record(const std::string& path, const std::string& boot) {
  records::PrivateFile file = records::read_private_file(path, most_record_bytes());
  if (!file.problem.empty()) return {{}, std::move(file.problem)};
  return decode_promises(file.bytes, boot);
}

}  // namespace

Promises RecordFile::open(std::string path) {
  path_ = std::move(path);
  boot_ = boot_id();
  DecodedPromises decoded = read_record(path_, boot_);
  if (!decoded.problem.empty())
    spdlog::info("no record of promises in {}: {}; jobs that come back are treated as new", path_,
                 decoded.problem);
  return std::move(decoded.promises);
}

void RecordFile::keep(const Promises& promises, std::uint64_t now_ns) {
  if (!is_due(now_ns) || (is_written_ && promises == written_)) return;
  next_ns_ = now_ns + pause_ns;
  write(promises);
}

void RecordFile::finish(const Promises& promises) {
  if (path_.empty()) return;
  if (!promises.empty()) return write(promises);
  ::unlink(path_.c_str());
}

void RecordFile::write(const Promises& promises) {
  const int error =
      records::replace_private_file(path_, encode_promises(promises, boot_), records::Outlives::programs);
  if (error == 0) {
    written_ = promises;
    is_written_ = true;
    has_failed_ = false;
    return;
  }
  if (!has_failed_)
    spdlog::warn(
        "cannot write {}: {}; after a restart jobs that come back may be treated as new; let terraced write "
        "there, or choose another [daemon] socket",
        path_, std::strerror(error));
  has_failed_ = true;
}

}  // namespace terrace::daemon
