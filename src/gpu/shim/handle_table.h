// HandleTable: from a pointer or handle of the driver to what we know of it. Open addressing, no
// exceptions, no C++ library: if memory runs out, insert says so. Not synchronised.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace lambent::shim {

enum class Kind : uint32_t {
  kNone,      // the slot is empty
  kDevice,    // device memory of one context
  kPooled,    // device memory of a pool, which belongs to the device
  kArray,     // arrays and mipmapped arrays
  kHost,      // page-locked host memory of one context
  kPhysical,  // key: our own number of a cuMemCreate allocation
  kHandle,    // key: the driver's handle; target: our number
  kMapping,   // key: the address; bytes: of the range; target: our number
  kGraph,     // key: a device's number and one; bytes: what its graphs hold
  kPool,      // key: the driver's handle of a CUmemoryPool that the program made
  kKernel,    // key: the driver's handle of a CUkernel; target: that of its library
  // Key: the driver's handle of a CUgraphExec; target: where its NodeNames are.
  kExecutableGraph,
};

struct Entry {
  uint64_t key = 0;
  Kind kind = Kind::kNone;
  uint32_t references = 0;  // kPhysical: handles and mappings alive; kHandle: releases to come
  uint64_t bytes = 0;
  uint64_t target = 0;
  void* context = nullptr;
  int device = 0;  // whose memory it is
};

class HandleTable {
 public:
  HandleTable() = default;
  HandleTable(const HandleTable&) = delete;
  HandleTable& operator=(const HandleTable&) = delete;
  ~HandleTable();

  // Replaces an entry of the same kind and key. False if there is no memory for it.
  bool insert(const Entry& entry);
  // The entry, until the next insert or remove; null if there is none.
  Entry* find(Kind kind, uint64_t key);
  // Takes the entry out; its kind is kNone if there was none.
  Entry remove(Kind kind, uint64_t key);
  size_t size() const { return size_; }

  // An entry for which the predicate holds, as find gives it.
  template <typename Predicate>
  Entry* find_if(Predicate predicate) {
    for (size_t slot = 0; slot < capacity_; ++slot) {
      if (entries_[slot].kind != Kind::kNone && predicate(entries_[slot])) return &entries_[slot];
    }
    return nullptr;
  }

  // Takes out all entries for which the predicate holds and tells `told` of each; neither may use
  // the table. What moves into a hole comes from behind it, or was looked at before.
  template <typename Predicate, typename Told>
  void remove_if(Predicate predicate, Told told) {
    for (size_t slot = 0; slot < capacity_;) {
      const bool goes = entries_[slot].kind != Kind::kNone && predicate(entries_[slot]);
      if (goes) {
        told(remove(entries_[slot].kind, entries_[slot].key));
      } else {
        ++slot;
      }
    }
  }

 private:
  bool grow();
  size_t place_of(Kind kind, uint64_t key) const;

  Entry* entries_ = nullptr;
  size_t capacity_ = 0;  // zero or a power of two
  size_t size_ = 0;
};

}  // namespace lambent::shim
