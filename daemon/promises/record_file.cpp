// See record_file.h.
#include "daemon/promises/record_file.h"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "daemon/base/boot.h"
#include "tiers/records/private_file.h"

namespace terrace::daemon {
namespace {

DecodedPromises read_record(KeptFile* file, const std::string& boot) {
  records::PrivateFile found = file->read(most_record_file_bytes());
  if (!found.problem.empty()) return {{}, 0, std::move(found.problem)};
  return decode_record_file(found.bytes, boot);
}

}  // namespace

Promises RecordFile::open(KeptFile file) {
  file_ = std::move(file);
  boot_ = boot_id();
  DecodedPromises decoded = read_record(&file_, boot_);
  if (!decoded.problem.empty())
    spdlog::info("no record of promises in {}: {}; jobs that come back are treated as new", file_.path(),
                 decoded.problem);
  return std::move(decoded.promises);
}

void RecordFile::keep(const Promises& promises, std::uint64_t now_ns) {
  if (!is_due(now_ns) || (is_written_ && promises == written_)) return;
  next_ns_ = now_ns + pause_ns;
  write(promises);
}

void RecordFile::finish(const Promises& promises) {
  if (file_.path().empty()) return;
  if (!promises.empty()) return write(promises);
  file_.remove();
}

// 0 or errno. Where somebody has removed the file it is made anew.
int RecordFile::put(std::string_view record) {
  if (!file_.is_there()) {
    place_ = 0;
    return file_.begin(record);
  }
  const std::size_t place = 1 - place_;
  const ssize_t put =
      ::pwrite(file_.fd(), record.data(), record.size(), static_cast<off_t>(record_places[place]));
  if (put != static_cast<ssize_t>(record.size())) return put < 0 ? errno : ENOSPC;
  place_ = place;
  return 0;
}

void RecordFile::write(const Promises& promises) {
  const int error = put(encode_promises(promises, boot_, ++number_));
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
        file_.path(), std::strerror(error));
  has_failed_ = true;
}

}  // namespace terrace::daemon
