#include "gpu/forward_server/image_upload.h"

#include <utility>

namespace lambent::forward_server {

bool ImageUpload::handle(const Call& call) {
  if (static_cast<forward_ring::CallCode>(call.code) != forward_ring::CallCode::kUpload) {
    return false;
  }
  const auto chunk = static_cast<uint32_t>(call.arguments[0]);
  const CUresult result = append(chunk, call.arguments[1]);
  answers_.note(result);
  answers_.release_chunk(chunk, result);
  return true;
}

CUresult ImageUpload::append(uint32_t chunk, uint64_t bytes) {
  if (bytes > forward_ring::kChunkBytes) return CUDA_ERROR_INVALID_VALUE;
  if (!memory_.take_upload(Bytes(bytes))) return CUDA_ERROR_OUT_OF_MEMORY;
  image_.append(pages_.chunk_bytes[chunk], bytes);
  return CUDA_SUCCESS;
}

std::string ImageUpload::take() { return std::exchange(image_, {}); }

}  // namespace lambent::forward_server
