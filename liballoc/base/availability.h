// Whether the process has a pager, and why not: what terrace_get_status() and the daemon are told.
//
// Written by the agent's thread, and before that thread runs by who starts it; read by any: both are static
// strings, a word each.
#pragma once

namespace terrace::liballoc {

class Availability {
 public:
  static constexpr const char* not_asked_for = "no budget was asked for (TERRACE_DRAM)";

  // "active", "inactive", "unavailable"
  const char* state() const { return state_; }
  const char* reason() const { return reason_; }
  bool is_active() const { return state_[0] == 'a'; }
  bool is_unavailable() const { return state_[0] == 'u'; }

  void set_active();
  void set_inactive(const char* reason);
  void set_unavailable(const char* reason);
  // The same, and says so.
  void give_up(const char* reason);

 private:
  const char* state_ = "inactive";
  const char* reason_ = not_asked_for;
};

}  // namespace terrace::liballoc
