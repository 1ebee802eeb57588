// One run of address space that nobody watches, in which fresh pages are born, huge where the kernel has
// them, before they move to a frame.
#pragma once

#include <cstddef>

namespace terrace::liballoc {

class Nursery {
 public:
  // 0 or ENOMEM.
  int open();
  // In a forked child it did not come along.
  void forget() { run_ = nullptr; }
  // Fills it with fresh pages. 0 or errno.
  int populate() const;
  std::byte* run() const { return run_; }
  // Takes it out of what the kernel locked: MOVE wants both sides alike.
  void unlock() const;

 private:
  std::byte* run_ = nullptr;
};

}  // namespace terrace::liballoc
