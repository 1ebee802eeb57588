// The one place where a packet is judged; see protocol.h. Both ends and the fuzzer go through it.
#include "liballoc/wire/protocol.h"

#include <cerrno>

namespace terrace::wire {
namespace {

template <class Message>
constexpr std::size_t body_bytes = sizeof(Message) - sizeof(Header);

bool length_fits(Type type, std::size_t length) noexcept {
  switch (type) {
    case Type::hello:
      return length == body_bytes<Hello>;
    case Type::goodbye:
      return length == body_bytes<Goodbye>;
    case Type::log:
      return length == body_bytes<Log>;
    case Type::welcome:
      return length == body_bytes<Welcome>;
    case Type::refused:
      return length == body_bytes<Refused>;
    case Type::budget:
      return length == body_bytes<Budget>;
    case Type::trim:
      return length == body_bytes<Trim>;
    case Type::writes:
      return length == body_bytes<Writes>;
    case Type::tiers:
      return length == body_bytes<Tiers>;
    case Type::nvm_held:
      return length == body_bytes<NvmHeld>;
    case Type::period:
      return length == body_bytes<Period>;
    case Type::schedule:
      return length == body_bytes<PlannedSchedule>;
    case Type::control:
      return length > 0 && length <= max_control_bytes;
    case Type::reply:
      return length >= body_bytes<Reply> && length <= max_packet_bytes - sizeof(Header);
  }
  return false;
}

}  // namespace

int check_packet(const void* packet, std::size_t bytes, Header* out) noexcept {
  if (bytes < sizeof(Header) || bytes > max_packet_bytes) return EBADMSG;
  Header header;
  std::memcpy(&header, packet, sizeof header);
  if (header.magic != magic || header.length != bytes - sizeof(Header)) return EBADMSG;
  if (header.version != protocol_version) {
    *out = header;
    return EPROTO;
  }
  if (header.reserved != 0 || !length_fits(header.type, header.length)) return EBADMSG;
  *out = header;
  return 0;
}

void copy_text(char* to, std::size_t to_bytes, const char* from) noexcept {
  std::size_t length = 0;
  while (from != nullptr && length + 1 < to_bytes && from[length] != '\0') {
    to[length] = from[length];
    ++length;
  }
  std::memset(to + length, 0, to_bytes - length);
}

}  // namespace terrace::wire
