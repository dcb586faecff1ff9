// Manifest: what a kernel bundle holds, and its JSON form (manifest.json).
// A value; made by the builder, read by loaders of bundles, on any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"

namespace lambent::bundle {

constexpr unsigned kBundleAbi = 1;
constexpr const char* kManifestFile = "manifest.json";
constexpr size_t kMostManifestBytes = 1024 * 1024;
constexpr size_t kMostKernels = 1024;
constexpr size_t kMostParameters = 1024;

struct Kernel {
  std::string name;        // what users ask for; the symbol in a host image
  std::string expression;  // how the source calls it, such as matmul_tiled<16>
  std::string lowered;     // the symbol in device images; empty if there are none
  std::vector<uint32_t> parameter_sizes;
  uint32_t static_shared_bytes = 0;
  uint32_t max_threads = 0;

  bool operator==(const Kernel&) const = default;
};

struct Image {
  std::string target;  // "host-x86_64", "sm_90", "compute_80"
  std::string file;    // relative to the bundle

  bool operator==(const Image&) const = default;
};

struct Manifest {
  std::string name;
  std::string content_sha256;  // hexadecimal; of everything else here and of every file
  std::vector<Kernel> kernels;
  std::vector<Image> images;
  std::vector<std::string> sources;  // files relative to the bundle

  bool operator==(const Manifest&) const = default;
};

// INVALID_ARGUMENT, naming the field, for anything that is not a manifest that we could have
// written: unknown ABI, file names that leave the bundle, repeated kernels, numbers out of range.
Result<Manifest> parse_manifest(std::string_view json);
std::string to_json(const Manifest& manifest);

// Only the kernels, as an inspecting child process reports them.
Result<std::vector<Kernel>> parse_kernels(std::string_view json);
std::string to_json(const std::vector<Kernel>& kernels);

}  // namespace lambent::bundle
