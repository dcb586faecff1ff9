#include "emulator/emulated_runtime/channels.h"

namespace lambent::emulated_runtime {

namespace {

struct Format {
  CUarray_format format;
  cudaChannelFormatKind kind;
  int bits;
};

constexpr Format kFormats[] = {
    {CU_AD_FORMAT_UNSIGNED_INT8, cudaChannelFormatKindUnsigned, 8},
    {CU_AD_FORMAT_UNSIGNED_INT16, cudaChannelFormatKindUnsigned, 16},
    {CU_AD_FORMAT_UNSIGNED_INT32, cudaChannelFormatKindUnsigned, 32},
    {CU_AD_FORMAT_SIGNED_INT8, cudaChannelFormatKindSigned, 8},
    {CU_AD_FORMAT_SIGNED_INT16, cudaChannelFormatKindSigned, 16},
    {CU_AD_FORMAT_SIGNED_INT32, cudaChannelFormatKindSigned, 32},
    {CU_AD_FORMAT_HALF, cudaChannelFormatKindFloat, 16},
    {CU_AD_FORMAT_FLOAT, cudaChannelFormatKindFloat, 32},
};
constexpr int kLastKind = 31;

}  // namespace

cudaError_t format_of(const cudaChannelFormatDesc& channels, CUarray_format* format,
                      unsigned* count) {
  const int bits[] = {channels.x, channels.y, channels.z, channels.w};
  unsigned used = 0;
  while (used < 4 && bits[used] != 0) used++;
  for (unsigned i = 0; i < 4; i++) {
    if (bits[i] != (i < used ? channels.x : 0)) return cudaErrorInvalidChannelDescriptor;
  }
  if (used != 1 && used != 2 && used != 4) return cudaErrorInvalidChannelDescriptor;
  for (const Format& each : kFormats) {
    if (each.kind != channels.f || each.bits != channels.x) continue;
    *format = each.format;
    *count = used;
    return cudaSuccess;
  }
  bool exotic = channels.f > cudaChannelFormatKindNone && channels.f <= kLastKind;
  return exotic ? cudaErrorNotSupported : cudaErrorInvalidChannelDescriptor;
}

cudaChannelFormatDesc channels_of(int format, unsigned count) {
  for (const Format& each : kFormats) {
    if (each.format != format) continue;
    auto bits = [&](unsigned channel) { return channel < count ? each.bits : 0; };
    return {bits(0), bits(1), bits(2), bits(3), each.kind};
  }
  return {0, 0, 0, 0, cudaChannelFormatKindNone};
}

size_t element_bytes(const CUDA_ARRAY3D_DESCRIPTOR& descriptor) {
  const auto channels = channels_of(descriptor.Format, descriptor.NumChannels);
  return static_cast<size_t>(channels.x + channels.y + channels.z + channels.w) / 8;
}

}  // namespace lambent::emulated_runtime
