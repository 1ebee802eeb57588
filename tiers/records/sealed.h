// The bytes of a record: values one after the other, little-endian, and then the checksum (XXH3, 64 bits) of
// all of them. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace terrace::records {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "records are little-endian");

inline constexpr std::size_t seal_bytes = sizeof(std::uint64_t);

template <class T>
void put(std::string* bytes, const T& value) {
  bytes->append(reinterpret_cast<const char*>(&value), sizeof value);
}

// The caller has seen that they are there.
template <class T>
T get(std::string_view bytes, std::size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

// Appends the checksum.
void seal(std::string* bytes);
// Whether the last `seal_bytes` are the checksum of those before; there may be fewer.
bool is_sealed(std::string_view bytes);

}  // namespace terrace::records
