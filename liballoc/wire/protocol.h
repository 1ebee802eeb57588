// What terraced and its clients say to each other; prose and a worked example: docs/formats/wire.md.
//
// One message is one packet of a Unix SOCK_SEQPACKET socket: a Header and a body of fixed layout,
// little-endian, every field at its natural alignment, so that a packet is read by copying it over the
// struct. Nothing in a packet is trusted: check_packet() verifies magic, version, type and length before any
// field is looked at, and strings are bounded by their array whether or not they are terminated.
//
// Jobs open with Hello and live on the connection (its end is the job's end); control clients open with
// Control. The counters and events of a job do not travel here: they lie in the shared segment (segment.h)
// whose descriptor comes with Welcome.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace terrace::wire {

inline constexpr std::uint32_t magic = 0x43525254;  // "TRRC"
inline constexpr std::uint16_t protocol_version = 1;

inline constexpr std::size_t max_packet_bytes = std::size_t{64} * 1024;
inline constexpr std::size_t max_fds = 3;
inline constexpr std::size_t name_bytes = 64;
inline constexpr std::size_t text_bytes = 200;
inline constexpr std::uint64_t max_segment_bytes = std::uint64_t{1} << 20;
// Weights are whole numbers from 1 to this.
inline constexpr std::uint32_t most_weight = 1000;
// "As much as there is", for Hello::pool_wanted_bytes.
inline constexpr std::uint64_t any_bytes = ~std::uint64_t{0};

enum class Type : std::uint16_t {
  hello = 1,      // job -> daemon; descriptors: the pool file, if hello_has_pool_fd
  goodbye = 2,    // job -> daemon: an orderly end
  log = 3,        // job -> daemon: one line for the daemon's log
  period = 4,     // job -> daemon: what it knows of a period, to be planned; a descriptor comes with it
  nvm_held = 5,   // job -> daemon: back, it has this NVM of an earlier daemon's; its file comes with it
  welcome = 16,   // daemon -> job; descriptors in the order of the welcome_* flags
  refused = 17,   // daemon -> job, and the connection is closed
  budget = 18,    // daemon -> job: new limits
  trim = 19,      // daemon -> job: give recycled memory back to the kernel
  writes = 20,    // daemon -> job, if it has feature_write_lease: what it may write to the pool
  schedule = 21,  // daemon -> job: a plan for a period, or why there is none; a descriptor may come with it
  tiers = 22,     // daemon -> job, if it asked: behind the welcome, and when a limit changes
  control = 32,   // control client -> daemon: a JSON request
  reply = 33,     // daemon -> control client: a piece of a JSON answer
};

// Feature words: a bit set by both sides is in force. None is defined for version 1 beyond the base.
inline constexpr std::uint64_t feature_pool_limit = 1;   // understands Budget::pool_limit_bytes
inline constexpr std::uint64_t feature_write_lease = 2;  // understands Writes
inline constexpr std::uint64_t feature_schedules = 4;    // the daemon plans, the job carries out
inline constexpr std::uint64_t feature_engines = 8;      // the daemon knows hello_is_engine
inline constexpr std::uint64_t feature_gpu_heaps = 32;   // the daemon knows hello_is_gpu_heap
inline constexpr std::uint64_t feature_nvm_held = 64;    // the daemon knows NvmHeld
// Of a job: it would have what the daemon gives jobs that name no tiers. Of a daemon: Tiers follows this
// welcome. In no message by itself, as both sides have to expect a packet.
inline constexpr std::uint64_t feature_tiers = 16;
inline constexpr std::uint64_t known_features = feature_pool_limit | feature_write_lease | feature_schedules |
                                                feature_engines | feature_gpu_heaps | feature_nvm_held;

struct Header {
  std::uint32_t magic = wire::magic;
  std::uint16_t version = protocol_version;
  Type type = Type::goodbye;
  std::uint32_t length = 0;  // of the body: the packet is sizeof(Header) + length
  std::uint32_t reserved = 0;
};
static_assert(sizeof(Header) == 4 + 2 + 2 + 4 + 4);

inline constexpr std::uint16_t hello_reattach = 1;     // was in session with an earlier daemon
inline constexpr std::uint16_t hello_has_pool_fd = 2;  // one descriptor: the pool granted then
// An offload engine, beside the pager of its process if that has one: two sessions of one process then, each
// of which reports its own memory. Hello::program names the engine's device.
inline constexpr std::uint16_t hello_is_engine = 4;
// A heap in a GPU's memory, beside other sessions of its process. Budgets in both directions, and the
// counters of memory, are of that device: Hello::program names it, and Hello::pool_capacity_bytes is its
// size. No size is requested.
inline constexpr std::uint16_t hello_is_gpu_heap = 8;

struct Hello {
  static constexpr Type type = Type::hello;
  Header header;
  std::uint32_t version = protocol_version;
  std::uint16_t flags = 0;
  std::uint16_t weight = 0;  // of the job among its user's, up to most_weight; 0: nothing is said of it
  std::uint64_t features = known_features;
  char job[name_bytes] = {};                 // processes of one job share its budget
  char program[name_bytes] = {};             // for people
  std::uint64_t requested_budget_bytes = 0;  // 0: whatever the job gets
  std::uint64_t pool_wanted_bytes = 0;       // 0: none, any_bytes: what there is
  std::uint64_t held_budget_bytes = 0;       // re-attaching: the budget in force now
  std::uint64_t pool_capacity_bytes = 0;     // re-attaching: as granted then; of a GPU heap the device's size
  std::uint64_t pool_used_bytes = 0;         // re-attaching
};
static_assert(sizeof(Hello) == 16 + 4 + 2 + 2 + 8 + 64 + 64 + 5 * 8);

struct Goodbye {
  static constexpr Type type = Type::goodbye;
  Header header;
};
static_assert(sizeof(Goodbye) == 16);

enum class Severity : std::uint32_t { error = 0, warning = 1, info = 2, debug = 3 };

struct Log {
  static constexpr Type type = Type::log;
  Header header;
  Severity severity = Severity::info;
  std::uint32_t reserved = 0;
  char text[text_bytes] = {};
};
static_assert(sizeof(Log) == 16 + 4 + 4 + 200);

inline constexpr std::uint32_t welcome_segment_fd = 1;  // always set in version 1
inline constexpr std::uint32_t welcome_pool_fd = 2;
inline constexpr std::uint32_t welcome_uffd_fd = 4;  // /dev/userfaultfd, opened
// Pool files are encrypted on the drive. Who got none makes none of his own, unless his user named a place
// for it.
inline constexpr std::uint32_t welcome_encrypts = 8;

struct Welcome {
  static constexpr Type type = Type::welcome;
  Header header;
  std::uint32_t version = protocol_version;
  std::uint32_t flags = 0;
  std::uint64_t features = known_features;
  std::uint64_t session_id = 0;
  std::uint64_t budget_bytes = 0;
  std::uint64_t pool_capacity_bytes = 0;
  std::uint64_t pool_limit_bytes = 0;  // of the capacity, what may be in use now
  std::uint64_t segment_bytes = 0;
  std::uint64_t stats_offset = 0;   // of a JobStats
  std::uint64_t ring_offset = 0;    // of an EventRing, its slots right behind it
  std::uint64_t ring_capacity = 0;  // events, a power of two
};
static_assert(sizeof(Welcome) == 16 + 4 + 4 + 9 * 8);

struct Refused {
  static constexpr Type type = Type::refused;
  Header header;
  std::int32_t error = 0;  // an errno value: ENOSPC does not fit, EPROTO version, EUSERS too many, ...
  std::uint32_t reserved = 0;
  std::uint64_t available_bytes = 0;  // what a request could have had, where that is the reason
  char text[text_bytes] = {};
};
static_assert(sizeof(Refused) == 16 + 4 + 4 + 8 + 200);

struct Budget {
  static constexpr Type type = Type::budget;
  Header header;
  std::uint64_t budget_bytes = 0;
  std::uint64_t pool_limit_bytes = 0;
};
static_assert(sizeof(Budget) == 16 + 2 * 8);

struct Trim {
  static constexpr Type type = Type::trim;
  Header header;
};
static_assert(sizeof(Trim) == 16);

inline constexpr std::uint32_t writes_are_last = 1;  // there is no more today

struct Writes {
  static constexpr Type type = Type::writes;
  Header header;
  std::uint32_t flags = 0;
  std::uint32_t reserved = 0;
  std::uint64_t most_written_bytes = any_bytes;  // how far Stat::written_bytes may go; any_bytes: no limit
};
static_assert(sizeof(Writes) == 16 + 4 + 4 + 8);

inline constexpr std::uint32_t tiers_nvm_fd = 1;  // one descriptor: the job's file on NVM
// The daemon divides NVM: a job that names no place takes none by itself, if it was given none.
inline constexpr std::uint32_t tiers_shares_nvm = 2;

// What comes before the pool. Behind the welcome `text` is a list as of TERRACE_TIERS, without NVM; later the
// limit alone counts.
struct Tiers {
  static constexpr Type type = Type::tiers;
  Header header;
  std::uint32_t flags = 0;
  std::uint32_t reserved = 0;
  std::uint64_t nvm_capacity_bytes = 0;  // 0: there is none for this job
  std::uint64_t nvm_limit_bytes = 0;     // of the capacity, what may be in use now
  char text[text_bytes] = {};
};
static_assert(sizeof(Tiers) == 16 + 4 + 4 + 2 * 8 + 200);

// Behind the welcome of a daemon that knows it, once, from a job that an earlier daemon gave NVM: what it was
// promised there and uses, and its file as the one descriptor. Tiers may say another limit then.
struct NvmHeld {
  static constexpr Type type = Type::nvm_held;
  Header header;
  std::uint64_t capacity_bytes = 0;
  std::uint64_t used_bytes = 0;
};
static_assert(sizeof(NvmHeld) == 16 + 2 * 8);

// One descriptor: a memfd with F_SEAL_WRITE, F_SEAL_SHRINK and F_SEAL_GROW, which holds a period
// (period/period.h). At most one a second from each session.
struct Period {
  static constexpr Type type = Type::period;
  Header header;
  std::uint32_t phase = 0;
  std::uint32_t reserved = 0;
  std::uint64_t period_hash = 0;
  std::uint64_t image_bytes = 0;  // of the memfd's, which may be larger
};
static_assert(sizeof(Period) == 16 + 4 + 4 + 2 * 8);

// The answer to the Period of the same phase and hash. image_bytes 0: there is no plan and no descriptor, and
// the text says why; the job stays reactive. Else one descriptor: a memfd sealed in the same way, which holds
// a schedule (schedule/image.h). A better or newer plan may follow without being asked for.
struct PlannedSchedule {
  static constexpr Type type = Type::schedule;
  Header header;
  std::uint32_t phase = 0;
  std::uint32_t reserved = 0;
  std::uint64_t period_hash = 0;
  std::uint64_t image_bytes = 0;
  std::uint64_t budget_bytes = 0;  // that it was planned for
  char text[text_bytes] = {};
};
static_assert(sizeof(PlannedSchedule) == 16 + 4 + 4 + 3 * 8 + 200);

// Control is a Header and then JSON text, not terminated. Reply is this and then a piece of the JSON text;
// the answer is whole when a piece comes without reply_more.
inline constexpr std::uint32_t reply_more = 1;

struct Reply {
  static constexpr Type type = Type::reply;
  Header header;
  std::uint32_t flags = 0;
  std::uint32_t reserved = 0;
};
static_assert(sizeof(Reply) == 16 + 4 + 4);

inline constexpr std::size_t max_control_bytes = 4096;  // a request
inline constexpr std::size_t max_reply_piece = max_packet_bytes - sizeof(Reply);

// A fixed-layout message ready to be sent: header filled in.
template <class Message>
Message make() noexcept {
  static_assert(std::is_trivially_copyable_v<Message> && std::is_standard_layout_v<Message>);
  Message message{};
  message.header.type = Message::type;
  message.header.length = sizeof(Message) - sizeof(Header);
  return message;
}

// 0 and *out set when `packet` is a well-formed message; EBADMSG for one that is not (short, magic, length,
// type, reserved bits), EPROTO for a version that we do not speak (*out is set then, to answer by).
int check_packet(const void* packet, std::size_t bytes, Header* out) noexcept;

// Copies a packet that check_packet() accepted as Message's type.
template <class Message>
Message read_as(const void* packet) noexcept {
  Message message;
  std::memcpy(&message, packet, sizeof(Message));
  return message;
}

// Copies `from` (nullptr: empty) into a message's text field: cut to fit, always terminated, tail zeroed.
void copy_text(char* to, std::size_t to_bytes, const char* from) noexcept;

}  // namespace terrace::wire
