// A block under test: memory from malloc and what every page of it must hold.
//
// Eight words of each page follow from the block's number, the page's number and the page's generation, which
// rises with every write, so that a page that is zero, stale, someone else's or torn is told from the right
// one. One stretch of pages in five is all zeroes, as it is in real data: the pager does not store those.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace terrace::stress {

inline constexpr std::size_t page_bytes = 4096;
inline constexpr std::size_t words_checked = 8;

struct Mismatch {
  std::size_t page = 0;
  std::size_t word = 0;
  std::uint64_t found = 0;
  std::uint64_t expected = 0;
};

// What is wrong in a whole block: where it lies tells a lost page from a lost run.
struct Damage {
  std::size_t wrong = 0;
  std::size_t zero = 0;  // of those
  std::size_t first = 0;
  std::size_t last = 0;
};

class Block {
 public:
  Block() = default;
  // Takes over `memory` of at least `pages` pages, whose content is not defined yet.
  Block(unsigned char* memory, std::size_t bytes, std::uint64_t number)
      : memory_(memory), bytes_(bytes), number_(number), generations_(bytes / page_bytes, 0) {}

  unsigned char* memory() const { return memory_; }
  std::size_t bytes() const { return bytes_; }
  std::size_t pages() const { return generations_.size(); }
  std::uint64_t number() const { return number_; }
  std::uint32_t generation(std::size_t page) const { return generations_[page]; }

  void write_all() { write(0, pages()); }
  void write(std::size_t first, std::size_t count) {
    for (std::size_t page = first; page < first + count; ++page) write_page(page);
  }
  bool check(std::size_t first, std::size_t count, Mismatch* out) const {
    for (std::size_t page = first; page < first + count; ++page) {
      if (!check_page(page, out)) return false;
    }
    return true;
  }
  bool check_all(Mismatch* out) const { return check(0, pages(), out); }
  Damage survey() const {
    Damage damage;
    Mismatch bad;
    for (std::size_t page = 0; page < pages(); ++page) {
      if (check_page(page, &bad)) continue;
      if (damage.wrong++ == 0) damage.first = page;
      damage.last = page;
      damage.zero += is_zero(page) ? 1 : 0;
    }
    return damage;
  }
  // After realloc: pages that are kept must be right, pages that are new are written.
  void moved_to(unsigned char* memory, std::size_t bytes) {
    memory_ = memory;
    bytes_ = bytes;
    const std::size_t kept = generations_.size();
    generations_.resize(bytes / page_bytes, 0);
    for (std::size_t page = kept; page < pages(); ++page) write_page(page);
  }

 private:
  static constexpr std::size_t stride = page_bytes / words_checked / sizeof(std::uint64_t);

  bool is_to_be_zero(std::size_t page) const {
    constexpr std::size_t pages_of_stretch = 8;
    return (number_ + page / pages_of_stretch + generations_[page]) % 5 == 0;
  }
  std::uint64_t expected(std::size_t page, std::size_t word) const {
    if (is_to_be_zero(page)) return 0;
    return (number_ * 0x9E3779B97F4A7C15ULL) ^ (static_cast<std::uint64_t>(page) << 36) ^
           (static_cast<std::uint64_t>(generations_[page]) << 4) ^ word;
  }
  std::uint64_t* page_at(std::size_t page) const {
    return reinterpret_cast<std::uint64_t*>(memory_ + page * page_bytes);
  }
  void write_page(std::size_t page) {
    ++generations_[page];
    if (is_to_be_zero(page)) std::memset(page_at(page), 0, page_bytes);
    for (std::size_t word = 0; word < words_checked; ++word)
      page_at(page)[word * stride] = expected(page, word);
  }
  bool is_zero(std::size_t page) const {
    for (std::size_t i = 0; i < page_bytes / sizeof(std::uint64_t); ++i)
      if (page_at(page)[i] != 0) return false;
    return true;
  }
  bool check_page(std::size_t page, Mismatch* out) const {
    for (std::size_t word = 0; word < words_checked; ++word) {
      const std::uint64_t found = page_at(page)[word * stride];
      if (found == expected(page, word)) continue;
      *out = {page, word, found, expected(page, word)};
      return false;
    }
    return true;
  }

  unsigned char* memory_ = nullptr;
  std::size_t bytes_ = 0;
  std::uint64_t number_ = 0;
  std::vector<std::uint32_t> generations_;
};

}  // namespace terrace::stress
