// The file that remembers geometries (tuner.h). Whatever is in it was perhaps written by another program:
// every field is checked, and what is not ours is not overwritten.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "compression/tuner/tuner.h"

namespace terrace::compression {
namespace {

constexpr int store_version = 1;
constexpr std::size_t most_file_bytes = 1 << 20, most_devices = 1000, most_values = 32, most_name_bytes = 256;

StoreError damaged(const std::string& path, const std::string& what) {
  return {path + ": " + what + "; remove the file to tune anew"};
}
StoreError failed(const std::string& path, const std::string& what) {
  return {path + ": " + what + ": " + std::strerror(errno)};
}

// Nothing if the file is not there.
std::optional<std::string> read_text(const std::string& path, std::optional<StoreError>& error) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    if (access(path.c_str(), F_OK) == 0) error = failed(path, "cannot be read");
    return std::nullopt;
  }
  std::string text(most_file_bytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (file.bad()) error = failed(path, "cannot be read");
  if (text.size() > most_file_bytes) error = damaged(path, "is larger than 1 MiB");
  return text;
}

// JSON is UTF-8.
bool is_text(const std::string& name) {
  try {
    return !nlohmann::json(name).dump().empty();
  } catch (const nlohmann::json::exception&) {
    return false;
  }
}

bool is_name(const std::string& name) {
  return !name.empty() && name.size() <= most_name_bytes && is_text(name);
}

bool is_geometry(const nlohmann::json& geometry) {
  if (!geometry.is_object() || geometry.empty() || geometry.size() > most_values) return false;
  for (const auto& [name, value] : geometry.items())
    if (!is_name(name) || !value.is_number() || !std::isfinite(value.get<double>())) return false;
  return true;
}

bool is_store(const nlohmann::json& store) {
  if (!store.is_object() || store.size() != 2 || !store.contains("version") || !store.contains("geometries"))
    return false;
  const nlohmann::json& geometries = store["geometries"];
  if (store["version"] != store_version || !geometries.is_object() || geometries.size() > most_devices)
    return false;
  for (const auto& [device, geometry] : geometries.items())
    if (!is_name(device) || !is_geometry(geometry)) return false;
  return true;
}

bool write_all(int file, const std::string& text) {
  std::size_t written = 0;
  while (written < text.size()) {
    const ssize_t now = write(file, text.data() + written, text.size() - written);
    if (now < 0 && errno == EINTR) continue;
    if (now <= 0) return false;
    written += static_cast<std::size_t>(now);
  }
  return fsync(file) == 0;
}

// What another program adds between our reading and writing must not be lost. The lock is the directory's,
// since the file is another one after each change; it ends with the object.
class Lock {
 public:
  explicit Lock(const std::string& path)
      : directory_(open(directory_of(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    if (directory_ < 0) return;
    do held_ = flock(directory_, LOCK_EX) == 0;
    while (!held_ && errno == EINTR);
  }
  ~Lock() {
    if (directory_ >= 0) close(directory_);
  }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;
  bool held() const { return held_; }

 private:
  static std::string directory_of(const std::string& path) {
    const std::size_t slash = path.rfind('/');
    return slash == std::string::npos ? "." : path.substr(0, slash + 1);
  }

  int directory_;
  bool held_ = false;
};

// Who might read the old file may read the new one.
bool take_over_mode(int file, const std::string& path) {
  struct stat old {};
  return stat(path.c_str(), &old) != 0 || fchmod(file, old.st_mode & 07777) == 0;
}

// Beside the file, then in its place: a reader sees the old one or the new one.
std::optional<StoreError> replace(const std::string& path, const std::string& text) {
  std::string beside = path + ".XXXXXX";
  const int file = mkostemp(beside.data(), O_CLOEXEC);
  if (file < 0) return failed(path, "cannot be written (is the directory there?)");
  const bool written = take_over_mode(file, path) && write_all(file, text);
  const bool closed = close(file) == 0;
  if (written && closed && rename(beside.c_str(), path.c_str()) == 0) return std::nullopt;
  const StoreError error = failed(path, "cannot be written");
  unlink(beside.c_str());
  return error;
}

}  // namespace

std::optional<StoreError> read_geometries(const std::string& path, Geometries& geometries) {
  std::optional<StoreError> error;
  const std::optional<std::string> text = read_text(path, error);
  if (error) return error;
  Geometries read;
  if (text) {
    const nlohmann::json store = nlohmann::json::parse(*text, nullptr, false);
    if (!is_store(store)) return damaged(path, "does not hold geometries of version 1");
    read = store["geometries"].get<Geometries>();
  }
  geometries = std::move(read);
  return std::nullopt;
}

std::optional<StoreError> remember_geometry(const std::string& path, const std::string& device,
                                            const std::map<std::string, double>& geometry) {
  if (!is_name(device) || !is_geometry(geometry))
    return StoreError{path + ": a device's name or geometry is empty, too long, no UTF-8 or not finite"};
  const Lock lock(path);
  if (!lock.held()) return failed(path, "cannot be locked (is the directory there?)");
  Geometries geometries;
  if (std::optional<StoreError> error = read_geometries(path, geometries)) return error;
  geometries[device] = geometry;
  if (geometries.size() > most_devices) return damaged(path, "holds more than 1000 devices");
  return replace(path, nlohmann::json{{"version", store_version}, {"geometries", geometries}}.dump(2) + "\n");
}

}  // namespace terrace::compression
