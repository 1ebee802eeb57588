// Who wants to know which runs the program touches. Only what is away shows: a touch of what is under its
// address leaves no trace. Called by who holds the gate.
#pragma once

#include <cstdint>

namespace terrace::liballoc {

class TouchListener {
 public:
  // Run n was taken from its address, all of what was there: a touch of it will be told.
  virtual void on_left(std::uint32_t n) = 0;
  // A thread of the program asks for some of run n that is not there. All notes of blocks have been read.
  virtual void on_touched(std::uint32_t n) = 0;
  // Run n is under its address again, as a whole or in part; touches of it are told no more.
  virtual void on_returned(std::uint32_t n) = 0;

 protected:
  constexpr TouchListener() = default;
  ~TouchListener() = default;
};

}  // namespace terrace::liballoc
