// A model that somebody sent: which files it names. All of them lie beside it.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/base/check.h"
#include "core/domain/volume.h"
#include "edge/model_files/onnx_files.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lambent;
  const auto files =
      model_files::external_files(std::string_view(reinterpret_cast<const char*>(data), size));
  if (!files.ok()) return 0;
  CHECK(files->size() <= model_files::kMostExternalFiles, "as many as are allowed");
  for (const std::string& file : *files) {
    CHECK(validate_volume_path(file).ok(), "it lies beside the model");
  }
  return 0;
}
