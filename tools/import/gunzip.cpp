#include "tools/import/gunzip.h"

#include <zlib.h>

#include <algorithm>
#include <limits>
#include <vector>

namespace terrace::import {
namespace {

constexpr std::size_t chunk_bytes = std::size_t{1} << 18;
constexpr int gzip_only = 16 + MAX_WBITS;  // zlib.h, inflateInit2()

// zlib counts its input in 32 bits, so it gets a large file in pieces.
class Inflater {
 public:
  explicit Inflater(std::string_view packed) : rest_(packed), chunk_(chunk_bytes) {
    ready_ = inflateInit2(&z_, gzip_only) == Z_OK;
  }
  ~Inflater() {
    if (ready_) inflateEnd(&z_);
  }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  Result<std::string> all(std::uint64_t limit_bytes);

 private:
  void feed();
  [[nodiscard]] bool exhausted() const { return z_.avail_in == 0 && rest_.empty(); }

  z_stream z_{};
  bool ready_ = false;
  std::string_view rest_;
  std::vector<unsigned char> chunk_;
};

void Inflater::feed() {
  if (z_.avail_in > 0 || rest_.empty()) return;
  const std::size_t n = std::min<std::size_t>(rest_.size(), std::numeric_limits<uInt>::max());
  // zlib's interface is older than const.
  z_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(rest_.data()));
  z_.avail_in = static_cast<uInt>(n);
  rest_.remove_prefix(n);
}

Result<std::string> Inflater::all(std::uint64_t limit_bytes) {
  if (!ready_) return refused<std::string>("no memory to unpack gzip");
  std::string text;
  for (;;) {
    feed();
    z_.next_out = chunk_.data();
    z_.avail_out = static_cast<uInt>(chunk_.size());
    const int rc = inflate(&z_, Z_NO_FLUSH);
    const std::size_t got = chunk_.size() - z_.avail_out;
    if (got > limit_bytes - text.size()) {
      return refused<std::string>("the file unpacks to more than " + std::to_string(limit_bytes) + " bytes");
    }
    text.append(reinterpret_cast<const char*>(chunk_.data()), got);
    if (rc == Z_STREAM_END) {
      if (exhausted()) return ok(std::move(text));
      inflateReset(&z_);
    } else if (rc == Z_BUF_ERROR || (rc == Z_OK && exhausted() && z_.avail_out > 0)) {
      return refused<std::string>("the gzip file was cut off");
    } else if (rc != Z_OK) {
      return refused<std::string>("not valid gzip: " + std::string(z_.msg != nullptr ? z_.msg : zError(rc)));
    }
  }
}

}  // namespace

bool is_gzip(std::string_view bytes) { return bytes.starts_with("\x1f\x8b"); }

Result<std::string> gunzip(std::string_view packed, std::uint64_t limit_bytes) {
  return Inflater(packed).all(limit_bytes);
}

}  // namespace terrace::import
