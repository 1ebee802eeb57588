// See kept_file.h.
#include "daemon/base/kept_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace terrace::daemon {

KeptFile::KeptFile(const std::string& socket, std::string name, DescriptorStore* store)
    : path_(socket + "." + name), name_(std::move(name)), store_(store) {}

records::PrivateFile KeptFile::read(std::size_t most_bytes) {
  if (store_ != nullptr)
    if (const UniqueFd held = store_->take(name_)) return records::read_private_file(held.get(), most_bytes);
  return records::read_private_file(path_, most_bytes);
}

int KeptFile::begin(std::string_view bytes) {
  if (const int error = records::replace_private_file(path_, bytes, records::Outlives::programs); error != 0)
    return error;
  file_.reset(::open(path_.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
  if (!file_) return errno;
  if (store_ != nullptr) store_->put(name_, file_.get());
  return 0;
}

bool KeptFile::is_there() const {
  struct stat status {};
  return file_ && ::fstat(file_.get(), &status) == 0 && status.st_nlink != 0;
}

void KeptFile::remove() {
  if (path_.empty()) return;
  ::unlink(path_.c_str());
  if (store_ != nullptr) store_->drop(name_);
  file_.reset();
}

}  // namespace terrace::daemon
