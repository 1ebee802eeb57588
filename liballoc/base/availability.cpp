#include "liballoc/base/availability.h"

#include "liballoc/base/message.h"

namespace terrace::liballoc {

void Availability::set_active() {
  state_ = "active";
  reason_ = "";
}

void Availability::set_inactive(const char* reason) {
  state_ = "inactive";
  reason_ = reason;
}

void Availability::set_unavailable(const char* reason) {
  state_ = "unavailable";
  reason_ = reason;
}

void Availability::give_up(const char* reason) {
  set_unavailable(reason);
  Message(Severity::warning) << reason << "; the program runs on plain memory";
}

}  // namespace terrace::liballoc
