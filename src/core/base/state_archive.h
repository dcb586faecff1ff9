// StateArchive: writes the state of objects as bytes and reads it back, both by the same function
// of the object, so that the two cannot disagree. Not thread-safe; used to take snapshots.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "core/base/ids.h"
#include "core/base/time.h"
#include "core/base/units.h"

namespace lambent {

// An object that can be archived has a function that names its fields one after the other:
//
//   void archive(StateArchive& archive) { archive.field(count_); archive.field(since_); }
//
// While reading, bytes that make no sense turn ok() false for good; the fields then keep what they
// have. Nothing that is read makes a list longer than the bytes that are left.
class StateArchive {
 public:
  // Appends to `out`, which outlives the archive.
  explicit StateArchive(std::string* out) : out_(out) {}
  // Reads `bytes`, which outlive the archive.
  explicit StateArchive(std::string_view bytes) : in_(bytes) {}

  bool reading() const { return out_ == nullptr; }
  bool ok() const { return ok_; }
  // Everything was read and made sense.
  bool complete() const { return ok_ && in_.empty(); }
  // For a value that was read but cannot be.
  void refuse() { ok_ = false; }
  // Refuses unless `good`; for checks while reading.
  void expect(bool good) {
    if (!good) refuse();
  }

  void field(bool& value);
  void field(double& value);
  void field(std::string& value);
  template <std::unsigned_integral T>
  requires(!std::same_as<T, bool>) void field(T& value) {
    uint64_t wide = value;
    number(wide);
    if (!reading()) return;
    expect(static_cast<T>(wide) == wide);
    if (ok_) value = static_cast<T>(wide);
  }
  void field(Duration& value);
  void field(Instant& value);
  void field(Bytes& value) { field(value.count); }
  void field(InvocationId& value);
  void field(ObjectId& value);
  template <typename Tag, typename Number>
  void field(StrongId<Tag, Number>& value) {
    field(value.value);
  }
  template <typename T>
  void field(std::optional<T>& value) {
    bool there = value.has_value();
    field(there);
    if (reading()) {
      value.reset();
      if (there && ok_) value.emplace();
    }
    if (value) field(*value);
  }
  // An enumeration whose values count from zero to `last`.
  template <typename Enum>
  requires std::is_enum_v<Enum>
  void choice(Enum& value, Enum last) {
    auto wide = static_cast<uint64_t>(value);
    number(wide);
    if (!reading()) return;
    expect(wide <= static_cast<uint64_t>(last));
    if (ok_) value = static_cast<Enum>(wide);
  }

  // A list, each of its elements by `element(T&)`.
  template <typename T, typename Element>
  void list(std::vector<T>& values, Element element) {
    values.resize(count(values.size()));
    for (T& value : values) element(value);
  }
  template <typename T>
  void list(std::vector<T>& values) {
    list(values, [this](T& value) { field(value); });
  }
  // The length of a list: writes `size`, or reads and returns it (zero if it cannot be).
  size_t count(size_t size);

 private:
  void number(uint64_t& value);

  std::string* out_ = nullptr;
  std::string_view in_;
  bool ok_ = true;
};

}  // namespace lambent
