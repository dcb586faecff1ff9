// Result<T>: a value or an Error, for everything that can fail; never thrown, never ignored.
// A value; used by every module, on any thread.
#pragma once

#include <utility>
#include <variant>

#include "core/base/check.h"
#include "core/base/error.h"

namespace lambent {

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  // The value; the result must be ok.
  T& value() & {
    CHECK(ok(), "value() of a failed Result");
    return std::get<0>(state_);
  }
  const T& value() const& {
    CHECK(ok(), "value() of a failed Result");
    return std::get<0>(state_);
  }
  T&& value() && {
    CHECK(ok(), "value() of a failed Result");
    return std::get<0>(std::move(state_));
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  // The error; the result must not be ok.
  const Error& error() const {
    CHECK(!ok(), "error() of a good Result");
    return std::get<1>(state_);
  }

 private:
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)), failed_(true) {}

  bool ok() const { return !failed_; }
  explicit operator bool() const { return ok(); }
  const Error& error() const {
    CHECK(failed_, "error() of a good Result");
    return error_;
  }

 private:
  Error error_;
  bool failed_ = false;
};

}  // namespace lambent

#define LAMBENT_JOIN_(a, b) a##b
#define LAMBENT_JOIN(a, b) LAMBENT_JOIN_(a, b)

// RETURN_IF_ERROR(expression): leaves the function with the error of a failed Result.
#define RETURN_IF_ERROR(...)                                         \
  do {                                                               \
    if (auto lambent_result = (__VA_ARGS__); !lambent_result.ok()) { \
      return lambent_result.error();                                 \
    }                                                                \
  } while (false)

// ASSIGN_OR_RETURN(auto x, expression): x is the value, or the function is left with the error.
#define ASSIGN_OR_RETURN(declaration, ...)                      \
  auto LAMBENT_JOIN(lambent_result_, __LINE__) = (__VA_ARGS__); \
  if (!LAMBENT_JOIN(lambent_result_, __LINE__).ok()) {          \
    return LAMBENT_JOIN(lambent_result_, __LINE__).error();     \
  }                                                             \
  declaration = std::move(LAMBENT_JOIN(lambent_result_, __LINE__)).value()
