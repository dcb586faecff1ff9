// KernelPackage: the files of a kernel function's package that an executor needs, and whether they
// make sense together. Blocks for the disk: used on the file thread.
#pragma once

#include <string>
#include <vector>

#include "core/base/fd.h"
#include "core/base/result.h"
#include "core/base/units.h"
#include "core/domain/inference.h"
#include "core/domain/mount.h"

namespace lambent::worker {

struct KernelPackageOptions {
  std::string folder;    // the unpacked package
  std::string graph;     // the path of its graph
  std::string built_in;  // holds the bundles that graphs call lambent:NAME
  // Of volumes, in which constants may lie, and where each lies on this machine; an empty folder,
  // or none: that is not known here yet.
  Mounts mounts = {};
  std::vector<std::string> mount_folders = {};
  // A constant that is not in its mount yet is no mistake: what is checked is not to run now.
  bool awaits_files = false;
};

// Reads the graph and the manifests of its bundles, validates all, and tells how much device memory
// a request takes. INVALID_ARGUMENT names the place in the graph or the file, the largest buffer if
// that is more than `most`. Constants in volumes that are not on this machine yet have the sizes
// that the graph says: what loads them looks again.
Result<Bytes> check_kernel_package(const KernelPackageOptions& options, Bytes most);

// The tensors that a request brings and those that its answer has, in the graph's order; with
// variants, their first dimension is open. INVALID_ARGUMENT if there is no such graph.
Result<ModelDescription> describe_kernel_package(const KernelPackageOptions& options);

struct PackageFile {
  std::string name;  // in the package; of a built-in bundle "lambent:NAME/..."
  OwnedFd fd;        // for reading
};
// The graph first, then the files of its constants and its bundles; INVALID_ARGUMENT if they are
// more than one message can carry.
Result<std::vector<PackageFile>> open_kernel_package(const KernelPackageOptions& options);

}  // namespace lambent::worker
