#include "gpu/bundle/manifest.h"

#include <nlohmann/json.hpp>
#include <set>

namespace lambent::bundle {
namespace {

using nlohmann::json;

constexpr uint32_t kMostParameterBytes = 32764;
constexpr uint32_t kMostSharedBytes = 256 * 1024;
constexpr size_t kMostImages = 64;
constexpr size_t kMostName = 4096;

Error invalid(const std::string& what) {
  return {ErrorCode::kInvalidArgument, "bundle manifest: " + what};
}

Result<std::string> read_string(const json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_string()) {
    return invalid(std::string("'") + key + "' must be a string");
  }
  auto text = found->get<std::string>();
  if (text.size() > kMostName) return invalid(std::string("'") + key + "' is too long");
  if (text.find('\0') != std::string::npos) {
    return invalid(std::string("'") + key + "' contains a zero byte");
  }
  return text;
}

Result<uint32_t> read_number(const json& object, const char* key, uint32_t most) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number_unsigned() || found->get<uint64_t>() > most) {
    return invalid(std::string("'") + key + "' must be a whole number up to " +
                   std::to_string(most));
  }
  return found->get<uint32_t>();
}

Result<const json*> read_list(const json& object, const char* key, size_t most) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_array() || found->size() > most) {
    return invalid(std::string("'") + key + "' must be a list of at most " + std::to_string(most));
  }
  return &*found;
}

// A path that stays inside the bundle: no empty parts, no dots to climb with.
Result<void> check_file(const std::string& file) {
  if (file.empty() || file.front() == '/') return invalid("'" + file + "' is no relative path");
  size_t begin = 0;
  while (begin <= file.size()) {
    const size_t end = std::min(file.find('/', begin), file.size());
    const auto part = std::string_view(file).substr(begin, end - begin);
    if (part.empty() || part == "." || part == "..") {
      return invalid("'" + file + "' leaves the bundle");
    }
    begin = end + 1;
  }
  return {};
}

Result<Kernel> read_kernel(const json& object) {
  if (!object.is_object()) return invalid("a kernel must be an object");
  Kernel kernel;
  ASSIGN_OR_RETURN(kernel.name, read_string(object, "name"));
  if (kernel.name.empty()) return invalid("a kernel has no name");
  ASSIGN_OR_RETURN(kernel.expression, read_string(object, "expression"));
  ASSIGN_OR_RETURN(kernel.lowered, read_string(object, "lowered"));
  ASSIGN_OR_RETURN(const json* sizes, read_list(object, "parameters", kMostParameters));
  for (const json& size : *sizes) {
    if (!size.is_number_unsigned() || size.get<uint64_t>() == 0 ||
        size.get<uint64_t>() > kMostParameterBytes) {
      return invalid("kernel '" + kernel.name + "': a parameter's size is out of range");
    }
    kernel.parameter_sizes.push_back(size.get<uint32_t>());
  }
  ASSIGN_OR_RETURN(kernel.static_shared_bytes,
                   read_number(object, "static_shared_bytes", kMostSharedBytes));
  ASSIGN_OR_RETURN(kernel.max_threads, read_number(object, "max_threads", 1024));
  return kernel;
}

Result<std::vector<Kernel>> read_kernels(const json& list) {
  std::vector<Kernel> kernels;
  std::set<std::string> names;
  for (const json& object : list) {
    ASSIGN_OR_RETURN(kernels.emplace_back(), read_kernel(object));
    if (!names.insert(kernels.back().name).second) {
      return invalid("kernel '" + kernels.back().name + "' appears twice");
    }
  }
  return kernels;
}

json kernels_json(const std::vector<Kernel>& kernels) {
  json list = json::array();
  for (const Kernel& kernel : kernels) {
    list.push_back({{"name", kernel.name},
                    {"expression", kernel.expression},
                    {"lowered", kernel.lowered},
                    {"parameters", kernel.parameter_sizes},
                    {"static_shared_bytes", kernel.static_shared_bytes},
                    {"max_threads", kernel.max_threads}});
  }
  return list;
}

std::string write(const json& value) {
  return value.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace

Result<Manifest> parse_manifest(std::string_view text) {
  if (text.size() > kMostManifestBytes) return invalid("larger than 1 MiB");
  const json root = json::parse(text, nullptr, false);
  if (!root.is_object()) return invalid("not a JSON object");
  ASSIGN_OR_RETURN(const uint32_t abi, read_number(root, "abi", UINT32_MAX));
  if (abi != kBundleAbi) {
    return invalid("has ABI " + std::to_string(abi) + ", this program reads " +
                   std::to_string(kBundleAbi) + "; build the bundle again");
  }
  Manifest manifest;
  ASSIGN_OR_RETURN(manifest.name, read_string(root, "name"));
  ASSIGN_OR_RETURN(manifest.content_sha256, read_string(root, "content_sha256"));
  ASSIGN_OR_RETURN(const json* kernels, read_list(root, "kernels", kMostKernels));
  ASSIGN_OR_RETURN(manifest.kernels, read_kernels(*kernels));
  ASSIGN_OR_RETURN(const json* images, read_list(root, "targets", kMostImages));
  for (const json& object : *images) {
    if (!object.is_object()) return invalid("a target must be an object");
    Image image;
    ASSIGN_OR_RETURN(image.target, read_string(object, "target"));
    ASSIGN_OR_RETURN(image.file, read_string(object, "file"));
    RETURN_IF_ERROR(check_file(image.file));
    manifest.images.push_back(std::move(image));
  }
  ASSIGN_OR_RETURN(const json* sources, read_list(root, "sources", kMostImages));
  for (const json& source : *sources) {
    if (!source.is_string()) return invalid("a source must be a file name");
    RETURN_IF_ERROR(check_file(source.get<std::string>()));
    manifest.sources.push_back(source.get<std::string>());
  }
  return manifest;
}

std::string to_json(const Manifest& manifest) {
  json images = json::array();
  for (const Image& image : manifest.images) {
    images.push_back({{"target", image.target}, {"file", image.file}});
  }
  return write({{"abi", kBundleAbi},
                {"name", manifest.name},
                {"content_sha256", manifest.content_sha256},
                {"kernels", kernels_json(manifest.kernels)},
                {"targets", images},
                {"sources", manifest.sources}});
}

Result<std::vector<Kernel>> parse_kernels(std::string_view text) {
  const json list = json::parse(text, nullptr, false);
  if (!list.is_array() || list.size() > kMostKernels) return invalid("not a list of kernels");
  return read_kernels(list);
}

std::string to_json(const std::vector<Kernel>& kernels) { return write(kernels_json(kernels)); }

}  // namespace lambent::bundle
