// See node_set.h. By system calls and our own hands: stdio allocates, and strtoul asks for the locale.
#include "tiers/memory/node_set.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstring>

namespace terrace::tiers {
namespace {

constexpr std::size_t text_bytes = 4096;
// The kernel numbers tiers by their distance: DRAM is 4, persistent memory 22.
constexpr unsigned most_memory_tiers = 256;

struct Text {
  char bytes[text_bytes] = "";
};

class Path {
 public:
  explicit Path(const char* root) noexcept { *this << root << "/devices/"; }
  Path& operator<<(const char* text) noexcept {
    while (*text != '\0' && length_ + 1 < sizeof bytes_) bytes_[length_++] = *text++;
    bytes_[length_] = '\0';
    return *this;
  }
  Path& operator<<(unsigned number) noexcept {
    char digits[16];
    char* at = digits + sizeof digits;
    *--at = '\0';
    do *--at = static_cast<char>('0' + number % 10);
    while ((number /= 10) != 0);
    return *this << at;
  }
  const char* text() const noexcept { return bytes_; }

 private:
  char bytes_[512] = "";
  std::size_t length_ = 0;
};

// False: there is no such file.
bool read_file(const Path& path, Text* out) noexcept {
  const int fd = ::open(path.text(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const ssize_t got = ::read(fd, out->bytes, sizeof out->bytes - 1);
  ::close(fd);
  out->bytes[got > 0 ? got : 0] = '\0';
  return got >= 0;
}

NodeSet nodes_in(const Path& path) noexcept {
  NodeSet nodes;
  Text text;
  if (read_file(path, &text)) static_cast<void>(nodes.read(text.bytes));
  return nodes;
}

NodeSet nodes_of_tier(const char* sysfs, unsigned tier) noexcept {
  return nodes_in(Path(sysfs) << "virtual/memory_tiering/memory_tier" << tier << "/nodelist");
}

bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }

bool read_node(const char** at, unsigned* out) noexcept {
  if (!is_digit(**at)) return false;
  for (*out = 0; is_digit(**at) && *out < NodeSet::most; ++*at)
    *out = *out * 10 + static_cast<unsigned>(**at - '0');
  return *out < NodeSet::most;
}

// "Node 1 MemFree:   1234 kB"
std::uint64_t bytes_said(const char* meminfo, const char* label) noexcept {
  const char* at = std::strstr(meminfo, label);
  if (at == nullptr) return 0;
  for (at += std::strlen(label); *at == ' ';) ++at;
  std::uint64_t kib = 0;
  for (; is_digit(*at) && kib < UINT64_MAX / 16384; ++at) kib = kib * 10 + static_cast<unsigned>(*at - '0');
  return kib * 1024;
}

}  // namespace

bool NodeSet::read(const char* list) noexcept {
  NodeSet nodes;
  for (const char* at = list;; ++at) {
    unsigned first = 0;
    if (!read_node(&at, &first)) return false;
    unsigned last = first;
    if (*at == '-' && (!read_node(&++at, &last) || last < first)) return false;
    for (unsigned node = first; node <= last; ++node) nodes.add(node);
    if (*at == '\0' || *at == '\n') break;
    if (*at != ',') return false;
  }
  *this = nodes;
  return true;
}

bool NodeSet::meets(const NodeSet& other) const noexcept {
  for (std::size_t i = 0; i < words_.size(); ++i)
    if ((words_[i] & other.words_[i]) != 0) return true;
  return false;
}

void NodeSet::remove(const NodeSet& others) noexcept {
  for (std::size_t i = 0; i < words_.size(); ++i) words_[i] &= ~others.words_[i];
}

// Tiers are numbered from the fastest on: the first one that has processors is theirs.
NodeSet slow_nodes(const char* sysfs) noexcept {
  NodeSet slow = nodes_in(Path(sysfs) << "system/node/has_memory");
  const NodeSet with_processors = nodes_in(Path(sysfs) << "system/node/has_cpu");
  if (with_processors.is_empty()) return {};  // sysfs is not there to say it
  slow.remove(with_processors);
  for (unsigned tier = 0; tier < most_memory_tiers && !slow.is_empty(); ++tier) {
    if (!nodes_of_tier(sysfs, tier).meets(with_processors)) continue;
    // Nothing in this tier or in a faster one is slow.
    for (unsigned faster = 0; faster <= tier; ++faster) slow.remove(nodes_of_tier(sysfs, faster));
    break;
  }
  return slow;
}

std::uint64_t free_bytes(const NodeSet& nodes, const char* sysfs) noexcept {
  std::uint64_t bytes = 0;
  for (unsigned node = 0; node < NodeSet::most; ++node) {
    if (!nodes.has(node)) continue;
    Text text;
    if (!read_file(Path(sysfs) << "system/node/node" << node << "/meminfo", &text)) continue;
    bytes += bytes_said(text.bytes, " MemFree:") + bytes_said(text.bytes, " Inactive(file):");
  }
  return bytes;
}

}  // namespace terrace::tiers
