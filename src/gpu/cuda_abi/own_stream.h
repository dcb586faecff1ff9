// own_stream: an argument of a CUDA call as the call's variant for a default stream of each thread
// means it: where the argument says the null stream, it means the calling thread's own. For the
// code that tools/generate_stream_variants.py writes. Any thread.
#pragma once

#include "gpu/cuda_abi/driver_types.h"

namespace lambent {

inline CUstream own_stream(CUstream given) { return given ? given : CU_STREAM_PER_THREAD; }

// A structure that names the stream of a launch, copied, because the caller's stays as it is. Null
// stays null.
template <class Config, CUstream Config::*kStream>
class OwnConfig {
 public:
  explicit OwnConfig(const Config* given) : is_null_(given == nullptr) {
    if (is_null_) return;
    own_ = *given;
    own_.*kStream = own_stream(own_.*kStream);
  }
  operator const Config*() const { return is_null_ ? nullptr : &own_; }

 private:
  const bool is_null_;
  Config own_{};
};

inline OwnConfig<CUlaunchConfig, &CUlaunchConfig::hStream> own_stream(const CUlaunchConfig* given) {
  return OwnConfig<CUlaunchConfig, &CUlaunchConfig::hStream>(given);
}

// A structure that the call also writes to: the caller's own, whose stream is put back after the
// call. Null stays null.
class OwnUpload {
 public:
  explicit OwnUpload(CUDA_GRAPH_INSTANTIATE_PARAMS* given) : given_(given) {
    if (given_ == nullptr) return;
    stream_ = given_->hUploadStream;
    given_->hUploadStream = own_stream(stream_);
  }
  ~OwnUpload() {
    if (given_ != nullptr) given_->hUploadStream = stream_;
  }
  OwnUpload(const OwnUpload&) = delete;
  OwnUpload& operator=(const OwnUpload&) = delete;
  operator CUDA_GRAPH_INSTANTIATE_PARAMS*() const { return given_; }

 private:
  CUDA_GRAPH_INSTANTIATE_PARAMS* const given_;
  CUstream stream_ = nullptr;
};

inline OwnUpload own_stream(CUDA_GRAPH_INSTANTIATE_PARAMS* given) { return OwnUpload(given); }

}  // namespace lambent
