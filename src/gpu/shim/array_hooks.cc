// Arrays and mipmapped arrays, in the 32-bit descriptors of old and in today's.
#include "driver_slots.h"
#include "gpu/shim/abi.h"
#include "gpu/shim/array_size.h"

using namespace lambent::shim;

namespace {

template <typename Extent>
struct ArrayDescriptor {
  Extent width;
  Extent height;
  unsigned format;
  unsigned channels;
};

template <typename Extent>
struct Array3DDescriptor {
  Extent width;
  Extent height;
  Extent depth;
  unsigned format;
  unsigned channels;
  unsigned flags;
};

using Old = unsigned;

template <typename Extent>
ArrayShape shape_of(const ArrayDescriptor<Extent>* descriptor) {
  if (descriptor == nullptr) return {};
  return {descriptor->width, descriptor->height, 0, descriptor->format, descriptor->channels, 0};
}

template <typename Extent>
ArrayShape shape_of(const Array3DDescriptor<Extent>* descriptor) {
  if (descriptor == nullptr) return {};
  return {descriptor->width,  descriptor->height,   descriptor->depth,
          descriptor->format, descriptor->channels, descriptor->flags};
}

// Beyond the limit and beyond the device: no such array can be, and why not is the driver's to say
// (a shape may be too large before there is too little memory).
bool is_for_the_driver_to_refuse(uint64_t bytes) {
  InsideHook inside;
  const Accounting* accounting = inside.accounting();
  Device device = 0;
  size_t total = 0;
  return accounting != nullptr && accounting->limit_bytes() != 0 &&
         bytes > accounting->limit_bytes() && REAL(cuCtxGetDevice, Device*)(&device) == kSuccess &&
         REAL(cuDeviceTotalMem_v2, size_t*, Device)(&total, device) == kSuccess && bytes > total;
}

template <typename Call>
Status create_counted(Handle* array, uint64_t bytes, Call call) {
  if (is_for_the_driver_to_refuse(bytes)) return call();
  return counted_allocation(Kind::kArray, bytes, array, call);
}

template <typename Descriptor>
Status create_array(Handle* array, const Descriptor* descriptor, unsigned slot) {
  return create_counted(array, array_bytes(shape_of(descriptor)), [=] {
    return real<Status (*)(Handle*, const Descriptor*)>(slot)(array, descriptor);
  });
}

}  // namespace

SHIM_EXPORT Status cuArrayCreate(Handle* array, const ArrayDescriptor<Old>* descriptor) {
  return create_array(array, descriptor, kSlot_cuArrayCreate);
}

SHIM_EXPORT Status cuArrayCreate_v2(Handle* array, const ArrayDescriptor<size_t>* descriptor) {
  return create_array(array, descriptor, kSlot_cuArrayCreate_v2);
}

SHIM_EXPORT Status cuArray3DCreate(Handle* array, const Array3DDescriptor<Old>* descriptor) {
  return create_array(array, descriptor, kSlot_cuArray3DCreate);
}

SHIM_EXPORT Status cuArray3DCreate_v2(Handle* array, const Array3DDescriptor<size_t>* descriptor) {
  return create_array(array, descriptor, kSlot_cuArray3DCreate_v2);
}

SHIM_EXPORT Status cuArrayDestroy(Handle array) {
  return counted_free(Kind::kArray, Kind::kArray, reinterpret_cast<uint64_t>(array),
                      [=] { return REAL(cuArrayDestroy, Handle)(array); });
}

SHIM_EXPORT Status cuMipmappedArrayCreate(Handle* array,
                                          const Array3DDescriptor<size_t>* descriptor,
                                          unsigned levels) {
  return create_counted(array, mipmapped_array_bytes(shape_of(descriptor), levels), [=] {
    return REAL(cuMipmappedArrayCreate, Handle*, const Array3DDescriptor<size_t>*, unsigned)(
        array, descriptor, levels);
  });
}

SHIM_EXPORT Status cuMipmappedArrayDestroy(Handle array) {
  return counted_free(Kind::kArray, Kind::kArray, reinterpret_cast<uint64_t>(array),
                      [=] { return REAL(cuMipmappedArrayDestroy, Handle)(array); });
}
