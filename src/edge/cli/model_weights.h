// Models whose files are too large for a package: they go into a volume, which the function mounts;
// those of a model that kernels serve are the constants of its graph.
// Used by `lambent deploy`, on files of this machine.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "edge/cli/console.h"
#include "edge/cli/manifest.h"
#include "edge/cli/transport.h"
#include "edge/cli/volume_files.h"

namespace lambent::cli {

// Files of at most so many bytes together stay in the package.
constexpr Bytes kWeightsInPackage = Bytes::mib(32);
// Where the function finds the others.
constexpr std::string_view kWeightsPlace = "/mnt/model";

struct ModelWeights {
  struct File {
    LocalFile file;
    MeasuredFile measured;
  };
  std::string volume;
  std::string folder;  // in the volume: named by the contents of all files, so each set has its own
  std::vector<File> files;
  Bytes size;
};

// The model's file as `name`, with the files that it keeps tensors in and those beside it that
// begin with the whole of its name, such as model.onnx.data, under theirs. NOT_FOUND: one is not
// there.
Result<std::vector<LocalFile>> files_of_model(const std::string& file, const std::string& name);
Bytes size_of(const std::vector<LocalFile>& files);

// Measures the files, and lets the manifest of a model that onnxruntime runs mount them:
// `manifest.spec` has the mount and the command of the place then. INVALID_ARGUMENT if a mount of
// its own is there already.
Result<ModelWeights> set_weights_apart(Manifest& manifest, const std::vector<LocalFile>& files);

// The constants of a kernel function's package in `package`, a folder whose manifest this is, if
// they are too large for it: they are moved to `apart`, which is not there yet, and the graph names
// them by where the function mounts them.
Result<std::optional<ModelWeights>> set_constants_apart(Manifest& manifest,
                                                        const std::string& package,
                                                        const std::string& apart);

Result<bool> has_volume(Transport& transport, const ModelWeights& weights);
// Makes the volume and sends what it lacks; a line for each file.
Result<void> send_weights(Transport& transport, Console& console, const ModelWeights& weights);

}  // namespace lambent::cli
