// LayerCopy: all layers for a backup, and back, while they are used. Used by lambent's verbs backup
// and restore; blocks.
#pragma once

#include <string>
#include <unordered_map>

#include "core/base/result.h"

namespace lambent::layers {

// Folders are laid out as LayerStore's. The same content is written once, as hard links, as it lies
// in the store.
class LayerCopy {
 public:
  LayerCopy(std::string from, std::string to);

  // Brings `to` up to `from`: versions, and what functions see of several. Each is whole in `to`,
  // or not there; one that goes or comes during the call may be there. Copies of another node's
  // layers, which come again, are left out.
  Result<void> copy();

 private:
  // These take paths below the folders of all layers.
  Result<void> copy_tenant(const std::string& tenant);
  Result<void> copy_layer(const std::string& layer);
  // One that never changes, if it is there from the first moment to the last.
  Result<void> copy_whole(const std::string& folder);
  // These take whole paths.
  Result<void> copy_entries(const std::string& from, const std::string& to);
  Result<void> copy_file(const std::string& from, const std::string& to);

  const std::string from_;
  const std::string to_;
  // By digest, mode and time of change: where such a file lies in `to`.
  std::unordered_map<std::string, std::string> files_;
};

}  // namespace lambent::layers
