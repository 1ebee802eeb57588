// See state_directory.h.
#include "tiers/records/state_directory.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string_view>

namespace terrace::records {
namespace {

// Of a variable with an absolute path: the first of several.
std::string path_in(const char* variable) {
  const char* const value = ::secure_getenv(variable);
  if (value == nullptr || value[0] != '/') return {};
  const std::string_view text(value);
  return std::string(text.substr(0, text.find(':')));
}

int make_one(const std::string& directory) {
  return ::mkdir(directory.c_str(), 0700) == 0 || errno == EEXIST ? 0 : errno;
}

// Where the file system begins that `path`, which is real, lies in.
std::string mount_point_of(std::string path) {
  struct stat here {};
  struct stat above {};
  if (::stat(path.c_str(), &here) != 0) return {};
  while (path != "/") {
    const std::size_t slash = path.rfind('/');
    std::string parent = slash == 0 ? "/" : path.substr(0, slash);
    if (::stat(parent.c_str(), &above) != 0 || above.st_dev != here.st_dev) break;
    path = std::move(parent);
  }
  return path;
}

}  // namespace

std::string state_directory() {
  if (std::string given = path_in("STATE_DIRECTORY"); !given.empty()) return given;
  if (const std::string state = path_in("XDG_STATE_HOME"); !state.empty()) return state + "/terrace";
  const std::string home = path_in("HOME");
  return home.empty() ? "" : home + "/.local/state/terrace";
}

int make_state_directory(const std::string& directory) {
  if (directory.empty() || directory[0] != '/') return ENOENT;
  for (std::size_t slash = directory.find('/', 1); slash != std::string::npos;
       slash = directory.find('/', slash + 1))
    if (const int error = make_one(directory.substr(0, slash)); error != 0) return error;
  if (const int error = make_one(directory); error != 0) return error;
  struct stat status {};
  if (::stat(directory.c_str(), &status) != 0) return errno;
  if (!S_ISDIR(status.st_mode)) return ENOTDIR;
  return status.st_uid == ::geteuid() && (status.st_mode & 022) == 0 ? 0 : EPERM;
}

std::string drive_name(const std::string& directory) {
  char* const real = ::realpath(directory.c_str(), nullptr);
  if (real == nullptr) return {};
  const std::string mounted = mount_point_of(real);
  ::free(real);
  if (mounted.empty()) return {};
  std::string name = "writes";
  for (const char c : mounted) {
    if (c == '/')
      name += "%2F";
    else if (c == '%')
      name += "%25";
    else
      name += c;
  }
  return name;
}

}  // namespace terrace::records
