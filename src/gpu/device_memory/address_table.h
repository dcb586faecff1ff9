// AddressTable: records of address ranges that do not overlap, in order of address. For the shim,
// so without the C++ library: where memory runs out, insert says so. Not synchronised.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

namespace lambent::device_memory {

// A Record is plain bytes, with `base` and `bytes` that say where it lies.
template <typename Record>
class AddressTable {
 public:
  AddressTable() = default;
  AddressTable(const AddressTable&) = delete;
  AddressTable& operator=(const AddressTable&) = delete;
  ~AddressTable() { free(records_); }

  // False if there is no memory for it, or something lies there already.
  bool insert(const Record& record) {
    const size_t place = first_behind(record.base);
    if (place > 0 && records_[place - 1].base + records_[place - 1].bytes > record.base) {
      return false;
    }
    if (place < size_ && record.base + record.bytes > records_[place].base) return false;
    if (size_ == capacity_ && !grow()) return false;
    memmove(records_ + place + 1, records_ + place, (size_ - place) * sizeof(Record));
    records_[place] = record;
    ++size_;
    return true;
  }

  // The record that begins there; null if none does. As the next two, until the table changes.
  Record* at(uint64_t base) {
    Record* found = containing(base);
    return found != nullptr && found->base == base ? found : nullptr;
  }
  // The record that the address lies in; null if there is none.
  Record* containing(uint64_t address) {
    const size_t place = first_behind(address);
    if (place == 0) return nullptr;
    Record& before = records_[place - 1];
    return address - before.base < before.bytes ? &before : nullptr;
  }
  // The record that ends where this address is; null if none does.
  Record* ending_at(uint64_t address) {
    Record* found = address == 0 ? nullptr : containing(address - 1);
    return found != nullptr && found->base + found->bytes == address ? found : nullptr;
  }

  // Takes out a record of this table.
  void remove(Record* record) {
    const size_t place = static_cast<size_t>(record - records_);
    memmove(record, record + 1, (size_ - place - 1) * sizeof(Record));
    --size_;
  }

  size_t size() const { return size_; }
  Record* begin() { return records_; }
  Record* end() { return records_ + size_; }

 private:
  static constexpr size_t kFirstCapacity = 64;

  // The place of the first record that begins behind `address`.
  size_t first_behind(uint64_t address) const {
    size_t low = 0;
    size_t high = size_;
    while (low < high) {
      const size_t middle = low + (high - low) / 2;
      if (records_[middle].base <= address) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }

  bool grow() {
    const size_t capacity = capacity_ == 0 ? kFirstCapacity : capacity_ * 2;
    void* records = realloc(static_cast<void*>(records_), capacity * sizeof(Record));
    if (records == nullptr) return false;
    records_ = static_cast<Record*>(records);
    capacity_ = capacity;
    return true;
  }

  Record* records_ = nullptr;
  size_t size_ = 0;
  size_t capacity_ = 0;
};

}  // namespace lambent::device_memory
