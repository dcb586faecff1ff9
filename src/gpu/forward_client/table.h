// Table, RangeTable and List: what the library remembers of numbers and addresses, without the C++
// library and its exceptions. Used under the library's lock; entries are plain values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace lambent::forward_client {

// By a number other than 0; open addressing.
template <typename Value>
class Table {
 public:
  // Holds until the table changes. Null if there is none.
  Value* find(uint64_t key) {
    if (capacity_ == 0 || key == 0) return nullptr;
    for (size_t at = home_of(key);; at = next(at)) {
      if (rows_[at].key == key) return &rows_[at].value;
      if (rows_[at].key == 0) return nullptr;
    }
  }
  // False if there is no memory. The key is new.
  bool add(uint64_t key, const Value& value) {
    if (2 * (count_ + 1) > capacity_ && !grow()) return false;
    insert(key, value);
    ++count_;
    return true;
  }
  void erase(uint64_t key) {
    Value* found = find(key);
    if (found == nullptr) return;
    size_t hole = static_cast<size_t>(
        reinterpret_cast<Row*>(reinterpret_cast<char*>(found) - offsetof(Row, value)) - rows_);
    rows_[hole].key = 0;
    --count_;
    // What stands behind the hole and was pushed past it moves up.
    for (size_t at = next(hole); rows_[at].key != 0; at = next(at)) {
      const size_t home = home_of(rows_[at].key);
      const size_t from_home = (at - home) & (capacity_ - 1);
      const size_t from_hole = (at - hole) & (capacity_ - 1);
      if (from_home < from_hole) continue;
      rows_[hole] = rows_[at];
      rows_[at].key = 0;
      hole = at;
    }
  }
  size_t count() const { return count_; }
  // `visit(key, value)`; it must not change the table.
  template <typename Visit>
  void for_each(Visit visit) {
    for (size_t at = 0; at < capacity_; ++at) {
      if (rows_[at].key != 0) visit(rows_[at].key, rows_[at].value);
    }
  }
  // Of all its rows; it may be used again.
  void clear() {
    std::free(rows_);
    rows_ = nullptr;
    capacity_ = count_ = 0;
  }
  // Erases those of which `is_one(key, value)` is true.
  template <typename IsOne>
  void erase_if(IsOne is_one) {
    for (size_t at = 0; at < capacity_;) {
      if (rows_[at].key != 0 && is_one(rows_[at].key, rows_[at].value)) {
        erase(rows_[at].key);  // another may stand here now
      } else {
        ++at;
      }
    }
  }

 private:
  struct Row {
    uint64_t key;
    Value value;
  };
  size_t home_of(uint64_t key) const {
    return static_cast<size_t>((key * 0x9e3779b97f4a7c15ULL) >> 20) & (capacity_ - 1);
  }
  size_t next(size_t at) const { return (at + 1) & (capacity_ - 1); }
  void insert(uint64_t key, const Value& value) {
    size_t at = home_of(key);
    while (rows_[at].key != 0) at = next(at);
    rows_[at].key = key;
    rows_[at].value = value;
  }
  bool grow() {
    const size_t old_capacity = capacity_;
    Row* old = rows_;
    const size_t capacity = old_capacity == 0 ? 64 : 2 * old_capacity;
    Row* rows = static_cast<Row*>(std::calloc(capacity, sizeof(Row)));
    if (rows == nullptr) return false;
    rows_ = rows;
    capacity_ = capacity;
    for (size_t at = 0; at < old_capacity; ++at) {
      if (old[at].key != 0) insert(old[at].key, old[at].value);
    }
    std::free(old);
    return true;
  }

  Row* rows_ = nullptr;
  size_t capacity_ = 0, count_ = 0;
};

// Of plain values, in their order. Its holder clears it.
template <typename Value>
class List {
 public:
  // False if there is no memory.
  bool add(const Value& value) {
    if (count_ == capacity_) {
      const size_t capacity = capacity_ == 0 ? 4 : 2 * capacity_;
      auto* values = static_cast<Value*>(std::realloc(values_, capacity * sizeof(Value)));
      if (values == nullptr) return false;
      values_ = values;
      capacity_ = capacity;
    }
    values_[count_++] = value;
    return true;
  }
  bool add_all(const List& other) {
    for (const Value& each : other) {
      if (!add(each)) return false;
    }
    return true;
  }
  bool contains(const Value& value) const {
    for (const Value& each : *this) {
      if (each == value) return true;
    }
    return false;
  }
  // The first that is equal; the others keep their order. False if there is none.
  bool remove(const Value& value) {
    for (size_t at = 0; at < count_; ++at) {
      if (!(values_[at] == value)) continue;
      --count_;
      std::memmove(values_ + at, values_ + at + 1, (count_ - at) * sizeof(Value));
      return true;
    }
    return false;
  }
  void clear() {
    std::free(values_);
    values_ = nullptr;
    count_ = capacity_ = 0;
  }
  void empty() { count_ = 0; }
  void remove_last() { --count_; }
  size_t count() const { return count_; }
  Value* data() { return values_; }
  Value& operator[](size_t at) { return values_[at]; }
  const Value& operator[](size_t at) const { return values_[at]; }
  Value* begin() { return values_; }
  Value* end() { return values_ + count_; }
  const Value* begin() const { return values_; }
  const Value* end() const { return values_ + count_; }

 private:
  Value* values_ = nullptr;
  size_t count_ = 0, capacity_ = 0;
};

struct Range {
  uint64_t begin, bytes;
  uint64_t context;  // its index
  uint64_t owner;    // a module, for its variables; else 0
  uint32_t flags;
  uint64_t id;
};

// Address ranges that do not overlap, sorted.
class RangeTable {
 public:
  bool add(const Range& range) {
    if (count_ == capacity_) {
      const size_t capacity = capacity_ == 0 ? 64 : 2 * capacity_;
      auto* rows = static_cast<Range*>(std::realloc(rows_, capacity * sizeof(Range)));
      if (rows == nullptr) return false;
      rows_ = rows;
      capacity_ = capacity;
    }
    const size_t at = first_after(range.begin);
    std::memmove(rows_ + at + 1, rows_ + at, (count_ - at) * sizeof(Range));
    rows_[at] = range;
    ++count_;
    return true;
  }
  // The one that the address lies in.
  const Range* find(uint64_t address) const {
    const size_t after = first_after(address);
    if (after == 0) return nullptr;
    const Range& range = rows_[after - 1];
    return address - range.begin < range.bytes ? &range : nullptr;
  }
  bool contains(uint64_t address, uint64_t bytes) const {
    const Range* range = find(address);
    return range != nullptr && bytes <= range->bytes - (address - range->begin);
  }
  bool overlaps(uint64_t address, uint64_t bytes) const {
    const size_t after = first_after(address);
    if (after < count_ && rows_[after].begin - address < bytes) return true;
    return find(address) != nullptr;
  }
  void erase(uint64_t begin) {
    const size_t after = first_after(begin);
    if (after == 0 || rows_[after - 1].begin != begin) return;
    std::memmove(rows_ + after - 1, rows_ + after, (count_ - after) * sizeof(Range));
    --count_;
  }
  template <typename IsOne>
  void erase_if(IsOne is_one) {
    size_t kept = 0;
    for (size_t at = 0; at < count_; ++at) {
      if (!is_one(rows_[at])) rows_[kept++] = rows_[at];
    }
    count_ = kept;
  }

 private:
  size_t first_after(uint64_t address) const {
    size_t low = 0, high = count_;
    while (low < high) {
      const size_t middle = (low + high) / 2;
      if (rows_[middle].begin <= address) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }

  Range* rows_ = nullptr;
  size_t capacity_ = 0, count_ = 0;
};

}  // namespace lambent::forward_client
