// Layers: files that a tenant publishes once, by Lambda's API, and that its functions see under
// /opt. Values and pure functions, any thread; LayerService is called on the loop thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/base/time.h"
#include "core/base/units.h"
#include "core/domain/mount.h"
#include "core/domain/tenant.h"

namespace lambent {

// As Lambda has them.
inline constexpr size_t kLayersPerFunction = 5;
inline constexpr size_t kLayerNameLength = 64;
inline constexpr size_t kLayerRuntimes = 15;
// Of one tenant, all its layers together.
inline constexpr size_t kLayerVersions = 1000;

// The tag that keeps which layers a function has: "torch:3,tools:1".
inline constexpr std::string_view kLayersTag = "lambent:layers";
// What layers lie under, each of their folders by a mount of its own.
inline constexpr std::string_view kLayersPlace = "/opt/";

struct LayerReference {
  std::string name;
  uint64_t version = 0;

  bool operator==(const LayerReference&) const = default;
};
using Layers = std::vector<LayerReference>;

std::string text_of(const Layers& layers);
// INVALID_ARGUMENT: a bad name or version, one twice, or too many.
Result<Layers> parse_layers(std::string_view text);
// 1 to 64 letters, digits, '-' and '_'; INVALID_ARGUMENT otherwise.
Result<void> validate_layer_name(std::string_view name);

// Hexadecimal digits of what tells composed layers apart.
inline constexpr size_t kLayersDigestLength = 40;
// The name that stands for composed layers in a mount, and whether a mount has such a name.
std::string volume_of_layers(std::string_view digest);
bool is_of_layers(const Mount& mount);

struct LayerVersion {
  LayerReference reference;
  std::string description;
  std::string license;
  std::vector<std::string> runtimes;  // "python3.11": what it says it is for
  std::string code_sha256;            // of its zip, in base64
  Bytes code_size;                    // of its zip
  Bytes unpacked;
  Duration created_at{};  // since the Unix epoch
};

struct LayerPublication {
  std::string name;
  std::string description;
  std::string license;
  std::vector<std::string> runtimes;
  std::string zip_base64;
};

class LayerService {
 public:
  template <typename Value>
  using Callback = std::function<void(Result<Value>)>;

  virtual ~LayerService() = default;

  // A new version, with the next number; numbers are not used again. INVALID_ARGUMENT,
  // RESOURCE_EXHAUSTED.
  virtual void publish_layer(TenantId tenant, LayerPublication publication,
                             Callback<LayerVersion> done) = 0;
  // The latest version of each, by name.
  virtual std::vector<LayerVersion> list_layers(TenantId tenant) const = 0;
  // The latest first.
  virtual std::vector<LayerVersion> list_layer_versions(TenantId tenant,
                                                        const std::string& name) const = 0;
  // NOT_FOUND.
  virtual Result<LayerVersion> find_layer(TenantId tenant,
                                          const LayerReference& reference) const = 0;
  // Functions that have it keep it. NOT_FOUND.
  virtual void remove_layer(TenantId tenant, const LayerReference& reference,
                            Callback<LayerVersion> done) = 0;
  // The mounts by which a function sees the layers, later ones over earlier ones. INVALID_ARGUMENT:
  // one is not there, or they have too much together.
  virtual void compose_layers(TenantId tenant, const Layers& layers, Callback<Mounts> done) = 0;
};

}  // namespace lambent
