// A file that outlives the daemon: "<socket>.<name>", mode 0600, the daemon's own. systemd holds its
// descriptor, too (descriptor_store.h), so that it is there for the next daemon when its name has been
// removed.
//
// It need not outlive the machine and is not synchronised. Each daemon begins with a new file, so that one
// that is about to end never writes into it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "daemon/base/descriptor_store.h"
#include "daemon/base/unique_fd.h"
#include "tiers/records/private_file.h"

namespace terrace::daemon {

// Not thread-safe.
class KeptFile {
 public:
  KeptFile() = default;  // of no place: nothing is read or made
  // `store`: null, or one that outlives this.
  KeptFile(const std::string& socket, std::string name, DescriptorStore* store);

  // At most `most_bytes` of what an earlier daemon left: what systemd holds, or else what has the name.
  records::PrivateFile read(std::size_t most_bytes);
  // Begins a new file with these bytes, under the name and at systemd. 0 or errno: then the old one stands.
  int begin(std::string_view bytes);
  // Whether the file that was begun still has its name.
  bool is_there() const;
  // The file goes, its name and what systemd holds of it.
  void remove();

  int fd() const { return file_.get(); }  // -1: none was begun
  const std::string& path() const { return path_; }

 private:
  std::string path_, name_;
  DescriptorStore* store_ = nullptr;
  UniqueFd file_;
};

}  // namespace terrace::daemon
