// ImageUpload: an image that a process sends in parts, before the call that makes a module or a
// graph of it. It counts against the client's host memory. A resource of the process's thread.
#pragma once

#include <string>

#include "core/base/units.h"
#include "gpu/forward_ring/calls.h"
#include "gpu/forward_ring/layout.h"
#include "gpu/forward_server/answers.h"
#include "gpu/forward_server/client_memory.h"

namespace lambent::forward_server {

class ImageUpload {
 public:
  using Call = forward_ring::Call;

  // All outlive it.
  ImageUpload(ClientMemory& memory, const forward_ring::SharedPages& pages, Answers& answers)
      : memory_(memory), pages_(pages), answers_(answers) {}
  ImageUpload(const ImageUpload&) = delete;
  ImageUpload& operator=(const ImageUpload&) = delete;

  // False if the call is not one that sends a part.
  bool handle(const Call& call);
  // What was sent since the last take. The caller gives its size back to the client's memory.
  std::string take();
  // Gives back what was not taken.
  void release() { memory_.give_back_upload(Bytes(take().size())); }

 private:
  CUresult append(uint32_t chunk, uint64_t bytes);

  ClientMemory& memory_;
  const forward_ring::SharedPages& pages_;
  Answers& answers_;
  std::string image_;
};

}  // namespace lambent::forward_server
