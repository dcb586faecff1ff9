#include "gpu/bundle/bundle.h"

#include <openssl/evp.h>

#include <algorithm>
#include <charconv>
#include <memory>
#include <optional>

#include "core/base/fd.h"

namespace lambent::bundle {
namespace {

constexpr size_t kMostImageBytes = 256 * 1024 * 1024;
constexpr const char* kHostTarget = "host-x86_64";

struct Hasher {
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context{EVP_MD_CTX_new(),
                                                                  &EVP_MD_CTX_free};

  Hasher() {
    CHECK(context != nullptr, "memory for a hash");
    CHECK(EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr) == 1, "SHA-256 is there");
  }
  void add(std::string_view bytes) {
    // The length first, so that no two lists of parts hash alike.
    const std::string length = std::to_string(bytes.size()) + ":";
    EVP_DigestUpdate(context.get(), length.data(), length.size());
    EVP_DigestUpdate(context.get(), bytes.data(), bytes.size());
  }
  std::string finish() {
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned size = 0;
    EVP_DigestFinal_ex(context.get(), digest, &size);
    std::string text;
    for (unsigned i = 0; i < size; ++i) {
      text += "0123456789abcdef"[digest[i] >> 4];
      text += "0123456789abcdef"[digest[i] & 15];
    }
    return text;
  }
};

// The virtual machine in "compute_80", "compute_90a" or "compute_100f".
struct VirtualMachine {
  int number = 0;
  bool is_exact = false;      // a: for devices of this very number
  bool is_of_family = false;  // f: for this and later ones of the same generation

  bool runs_on(int major, int minor) const {
    const int device = major * 10 + minor;
    if (is_exact) return number == device;
    return number <= device && (!is_of_family || number / 10 == major);
  }
};

// The number in "sm_90" or "compute_80".
std::optional<int> number_after(std::string_view target, std::string_view prefix) {
  if (!target.starts_with(prefix)) return {};
  target.remove_prefix(prefix.size());
  int number = 0;
  const auto [end, error] = std::from_chars(target.begin(), target.end(), number);
  if (error != std::errc() || end != target.end()) return {};
  return number;
}

std::optional<VirtualMachine> virtual_machine_of(std::string_view target) {
  VirtualMachine machine;
  machine.is_exact = target.ends_with('a');
  machine.is_of_family = target.ends_with('f');
  if (machine.is_exact || machine.is_of_family) target.remove_suffix(1);
  const auto number = number_after(target, "compute_");
  if (!number) return {};
  machine.number = *number;
  return machine;
}

Result<std::string> hash_of(const std::string& folder, const Manifest& manifest,
                            const ReadFile& read) {
  Manifest bare = manifest;
  bare.content_sha256.clear();
  Hasher hasher;
  hasher.add(to_json(bare));
  std::vector<std::string> files = manifest.sources;
  for (const auto& image : manifest.images) files.push_back(image.file);
  for (const auto& file : files) {
    ASSIGN_OR_RETURN(const std::string bytes, read(folder + "/" + file, kMostImageBytes));
    hasher.add(bytes);
  }
  return hasher.finish();
}

Result<std::string> read_plainly(const std::string& path, size_t limit) {
  return read_file(path, limit);
}

}  // namespace

Result<std::string> content_hash(const std::string& folder, const Manifest& manifest) {
  return hash_of(folder, manifest, read_plainly);
}

Result<Bundle> Bundle::open(const std::string& folder) { return open(folder, read_plainly); }

Result<Bundle> Bundle::open(const std::string& folder, const ReadFile& read) {
  const auto text = read(folder + "/" + kManifestFile, kMostManifestBytes);
  if (!text.ok()) {
    return Error{ErrorCode::kNotFound, folder + " is no kernel bundle: " + text.error().message};
  }
  auto manifest = parse_manifest(*text);
  if (!manifest.ok()) return manifest.error().with_context(folder);
  ASSIGN_OR_RETURN(const std::string hash, hash_of(folder, *manifest, read));
  if (hash != manifest->content_sha256) {
    return Error{ErrorCode::kDataLoss,
                 "kernel bundle " + folder + " does not match its hash: build it again"};
  }
  return Bundle(folder, std::move(*manifest));
}

std::vector<Bundle::Choice> Bundle::images_for(int major, int minor) const {
  std::vector<std::pair<int, Choice>> ranked;
  for (const auto& image : manifest_.images) {
    const std::string path = folder_ + "/" + image.file;
    if (const auto binary = number_after(image.target, "sm_")) {
      // A cubin runs on later devices of the same generation.
      if (*binary / 10 == major && *binary % 10 <= minor) {
        ranked.emplace_back(2000 + *binary, Choice{path, true});
      }
    } else if (const auto machine = virtual_machine_of(image.target)) {
      if (machine->runs_on(major, minor)) {
        ranked.emplace_back(1000 + machine->number, Choice{path, true});
      }
    } else if (image.target == kHostTarget) {
      ranked.emplace_back(0, Choice{path, false});
    }
  }
  std::stable_sort(ranked.begin(), ranked.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<Choice> choices;
  for (auto& [rank, choice] : ranked) choices.push_back(std::move(choice));
  return choices;
}

Result<std::string> Bundle::symbol_of(std::string_view name, const Choice& image) const {
  std::string names;
  for (const auto& kernel : manifest_.kernels) {
    if (kernel.name == name) return image.device ? kernel.lowered : kernel.name;
    names += (names.empty() ? "" : ", ") + kernel.name;
  }
  return Error{ErrorCode::kNotFound, "bundle '" + manifest_.name + "' has no kernel '" +
                                         std::string(name) + "'; it has: " + names};
}

}  // namespace lambent::bundle
