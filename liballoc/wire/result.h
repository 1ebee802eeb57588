// A value or the sentence that tells the user why there is none.
//
// The error shape of everything that reads what people and files say: whatever was typed, or stood in a file,
// or was refused by the machine becomes a message that names the input, what was expected and what to do. The
// caller that decides prints it once. What only checks, and has no value to give, returns the sentence
// itself, empty where nothing is wrong. Exceptions stay inside the libraries that need them (CLI11,
// nlohmann-json).
#pragma once

#include <optional>
#include <string>
#include <utility>

namespace terrace {

template <class T>
struct [[nodiscard]] Result {
  std::optional<T> value;
  std::string error;

  explicit operator bool() const { return value.has_value(); }
  const T& operator*() const { return *value; }
  T& operator*() { return *value; }
  const T* operator->() const { return &*value; }
  T* operator->() { return &*value; }
};

template <class T>
Result<T> ok(T value) {
  return {std::move(value), {}};
}

template <class T>
Result<T> refused(std::string why) {
  return {std::nullopt, std::move(why)};
}

}  // namespace terrace
