// Where containers and threads are used under an interface that throws nothing: what they throw becomes an
// errno value. Both kinds come only from the host being out of something.
#pragma once

#include <cerrno>
#include <new>
#include <system_error>

namespace terrace::tiers::gpu {

// What `function` returns, or ENOMEM, or the code of a std::system_error (a thread that could not be
// started).
template <class Function>
int without_throwing(const Function& function) noexcept {
  try {
    return function();
  } catch (const std::bad_alloc&) {
    return ENOMEM;
  } catch (const std::system_error& error) {
    return error.code().value() != 0 ? error.code().value() : EAGAIN;
  }
}

}  // namespace terrace::tiers::gpu
