// See journal_file.h.
#include "daemon/sessions/journal_file.h"

#include <spdlog/spdlog.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <type_traits>
#include <utility>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "daemon/base/boot.h"
#include "tiers/records/private_file.h"

namespace terrace::daemon {
namespace {

struct Header {
  std::array<char, 4> magic{'T', 'R', 'J', 'L'};
  std::uint32_t version = 1;
  std::uint32_t places = 0;
  std::uint32_t zero = 0;
  std::array<char, 48> boot{};  // which start of the machine it is of, zeros behind it

  bool operator==(const Header&) const = default;
};
static_assert(sizeof(Header) == 64);

struct Place {
  std::uint64_t sum = 0;     // XXH3-64 of all after it
  std::uint64_t number = 0;  // 0: nothing is here
  std::uint64_t time_ns = 0;
  std::uint64_t session = 0;
  wire::Event event;
  std::uint32_t uid = 0;
  std::uint32_t has_job = 0;
  std::array<char, 16> kind{};  // zeros behind each text
  std::array<char, 64> job{};
  std::array<char, JournalFile::most_text> text{};
};
static_assert(sizeof(Place) == 512 && std::is_trivially_copyable_v<Place>);

// Zeros behind the text; of one that is too long a beginning of whole UTF-8 characters, and "…".
template <std::size_t size>
void set(std::array<char, size>& field, std::string_view text) {
  constexpr std::string_view more = "…";
  const bool is_long = text.size() > size;
  std::size_t kept = is_long ? size - more.size() : text.size();
  while (is_long && kept > 0 && (static_cast<unsigned char>(text[kept]) & 0xC0U) == 0x80) --kept;
  text.copy(field.data(), kept);
  if (is_long) more.copy(field.data() + kept, more.size());
}

template <std::size_t size>
std::string text_of(const std::array<char, size>& field) {
  return {field.data(), ::strnlen(field.data(), size)};
}

std::uint64_t sum_of(const Place& place) {
  return XXH3_64bits(reinterpret_cast<const char*>(&place) + sizeof place.sum,
                     sizeof place - sizeof place.sum);
}

Place place_of(const JournalEntry& entry) {
  Place place;
  place.number = entry.number;
  place.time_ns = entry.time_ns;
  place.session = entry.session;
  place.event = entry.event;
  place.uid = entry.uid;
  place.has_job = entry.job != nullptr ? 1 : 0;
  set(place.kind, entry.kind);
  if (entry.job != nullptr) set(place.job, *entry.job);
  set(place.text, entry.text);
  place.sum = sum_of(place);
  return place;
}

bool is_whole(const Place& place) {
  return place.number != 0 && place.sum == sum_of(place) && place.event.kind < wire::EventKind::count;
}

JournalEntry entry_of(const Place& place) {
  JournalEntry entry;
  entry.number = place.number;
  entry.time_ns = place.time_ns;
  entry.session = place.session;
  entry.uid = place.uid;
  if (place.has_job != 0) entry.job = std::make_shared<const std::string>(text_of(place.job));
  entry.kind = text_of(place.kind);
  entry.text = text_of(place.text);
  entry.event = place.event;
  return entry;
}

Header header_of(std::uint32_t places) {
  Header header;
  header.places = places;
  set(header.boot, boot_id());
  return header;
}

std::size_t bytes_of(std::uint32_t places) { return sizeof(Header) + places * sizeof(Place); }

// The places of a file of this start of the machine, by growing numbers.
std::vector<Place> places_in(std::string_view bytes, const Header& header) {
  Header found;
  if (bytes.size() != bytes_of(header.places)) return {};
  std::memcpy(&found, bytes.data(), sizeof found);
  if (found != header) return {};
  std::vector<Place> places;
  for (std::size_t at = sizeof(Header); at != bytes.size(); at += sizeof(Place)) {
    Place place;
    std::memcpy(&place, bytes.data() + at, sizeof place);
    if (is_whole(place)) places.push_back(place);
  }
  std::sort(places.begin(), places.end(),
            [](const Place& one, const Place& other) { return one.number < other.number; });
  const auto repeated = std::unique(places.begin(), places.end(), [](const Place& one, const Place& other) {
    return one.number == other.number;
  });
  places.erase(repeated, places.end());
  return places;
}

std::string image_of(const Header& header, const std::vector<Place>& places) {
  std::string image(bytes_of(header.places), '\0');
  std::memcpy(image.data(), &header, sizeof header);
  if (!places.empty())
    std::memcpy(image.data() + sizeof header, places.data(), places.size() * sizeof(Place));
  return image;
}

}  // namespace

void JournalFile::Unmap::operator()(std::byte* data) const { ::munmap(data, bytes); }

// 0 or errno.
int JournalFile::map(std::size_t bytes) {
  void* data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_.fd(), 0);
  if (data == MAP_FAILED) return errno;
  data_ = {static_cast<std::byte*>(data), Unmap{bytes}};
  return 0;
}

std::vector<JournalEntry> JournalFile::open(KeptFile file, std::uint32_t places) {
  file_ = std::move(file);
  const Header header = header_of(places);
  const records::PrivateFile old = file_.read(bytes_of(places));
  if (!old.problem.empty() && old.error != ENOENT)
    spdlog::info("no events of an earlier terraced in {}: {}", file_.path(), old.problem);
  const std::vector<Place> found = places_in(old.bytes, header);
  int error = file_.begin(image_of(header, found));
  if (error == 0) error = map(bytes_of(places));
  if (error != 0)
    spdlog::warn(
        "cannot keep events in {}: {}; they end with this terraced; let terraced write there, or choose "
        "another [daemon] socket",
        file_.path(), std::strerror(error));
  std::vector<JournalEntry> entries;
  entries.reserve(found.size());
  for (const Place& place : found) entries.push_back(entry_of(place));
  return entries;
}

void JournalFile::keep(std::uint32_t place, const JournalEntry& entry) {
  if (data_ == nullptr) return;
  const Place kept = place_of(entry);
  std::memcpy(data_.get() + bytes_of(place), &kept, sizeof kept);
}

}  // namespace terrace::daemon
