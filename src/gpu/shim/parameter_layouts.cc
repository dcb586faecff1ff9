#include "gpu/shim/parameter_layouts.h"

#include <stdlib.h>

#include "driver_slots.h"
#include "gpu/shim/abi.h"

namespace lambent::shim {
namespace {

// More than the driver lets a kernel have.
constexpr size_t kMostParameters = 8192;

Status ask_about_parameter(Handle function, bool is_kernel, size_t index, size_t* bytes) {
  size_t offset = 0;
  if (is_kernel) {
    const auto ask = REAL(cuKernelGetParamInfo, Handle, size_t, size_t*, size_t*);
    return ask(function, index, &offset, bytes);
  }
  const auto ask = REAL(cuFuncGetParamInfo, Handle, size_t, size_t*, size_t*);
  return ask(function, index, &offset, bytes);
}

// Grows by doubling; false if there is no memory for that.
template <typename Record>
bool make_room(Record** records, size_t count, size_t* capacity, size_t first_capacity) {
  if (count < *capacity) return true;
  const size_t wanted = *capacity == 0 ? first_capacity : 2 * *capacity;
  void* more = realloc(*records, wanted * sizeof(Record));
  if (more == nullptr) return false;
  *records = static_cast<Record*>(more);
  *capacity = wanted;
  return true;
}

}  // namespace

ParameterLayout ask_for_layout(Handle function, bool is_kernel) {
  ParameterLayout layout;
  layout.function = function;
  size_t capacity = 0;
  for (size_t index = 0; index < kMostParameters; ++index) {
    size_t bytes = 0;
    const Status status = ask_about_parameter(function, is_kernel, index, &bytes);
    layout.is_known = status == kInvalidValue;  // behind the last one
    if (status != kSuccess) break;
    if (bytes < sizeof(Address)) continue;
    if (!make_room(&layout.wide, layout.count, &capacity, 8)) break;
    layout.wide[layout.count++] = {static_cast<uint32_t>(index), static_cast<uint32_t>(bytes)};
  }
  return layout;
}

const ParameterLayout* ParameterLayouts::find(Handle function) const {
  if (capacity_ == 0 || function == nullptr) return nullptr;
  const ParameterLayout* place = place_of(function);
  return place->function == function ? place : nullptr;
}

const ParameterLayout* ParameterLayouts::remember(const ParameterLayout& layout) {
  if (layout.function == nullptr || (2 * (size_ + 1) > capacity_ && !grow())) {
    free(layout.wide);
    return nullptr;
  }
  ParameterLayout* place = place_of(layout.function);
  if (place->function == layout.function) {
    free(layout.wide);  // another thread was faster
    return place;
  }
  *place = layout;
  ++size_;
  return place;
}

ParameterLayout* ParameterLayouts::place_of(Handle function) const {
  size_t at = ((reinterpret_cast<uintptr_t>(function) >> 4) * 2654435761U) & (capacity_ - 1);
  while (table_[at].function != nullptr && table_[at].function != function) {
    at = (at + 1) & (capacity_ - 1);
  }
  return &table_[at];
}

bool ParameterLayouts::grow() {
  const size_t capacity = capacity_ == 0 ? kFirstCapacity : 2 * capacity_;
  void* memory = calloc(capacity, sizeof(ParameterLayout));
  if (memory == nullptr) return false;
  ParameterLayout* before = table_;
  const size_t before_capacity = capacity_;
  table_ = static_cast<ParameterLayout*>(memory);
  capacity_ = capacity;
  for (size_t i = 0; i < before_capacity; ++i) {
    if (before[i].function != nullptr) *place_of(before[i].function) = before[i];
  }
  free(before);
  return true;
}

void ParameterLayouts::add_kernel(Handle kernel, Handle library) {
  Entry entry;
  entry.kind = Kind::kKernel;
  entry.key = reinterpret_cast<uint64_t>(kernel);
  entry.target = reinterpret_cast<uint64_t>(library);
  kernels_.insert(entry);
}

bool ParameterLayouts::is_kernel(Handle handle) {
  return kernels_.find(Kind::kKernel, reinterpret_cast<uint64_t>(handle)) != nullptr;
}

void ParameterLayouts::forget(Handle library) {
  for (size_t i = 0; i < capacity_; ++i) free(table_[i].wide);
  free(table_);
  table_ = nullptr;
  capacity_ = 0;
  size_ = 0;
  if (library == nullptr) return;
  const auto target = reinterpret_cast<uint64_t>(library);
  kernels_.remove_if([=](const Entry& entry) { return entry.target == target; },
                     [](const Entry&) {});
}

}  // namespace lambent::shim
