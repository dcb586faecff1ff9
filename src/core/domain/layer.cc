#include "core/domain/layer.h"

#include <algorithm>
#include <cctype>
#include <charconv>

namespace lambent {
namespace {

constexpr std::string_view kVolumePrefix = "layers.";

Error invalid(const std::string& what) { return Error{ErrorCode::kInvalidArgument, what}; }

}  // namespace

std::string text_of(const Layers& layers) {
  std::string text;
  for (const LayerReference& layer : layers) {
    text += (text.empty() ? "" : ",") + layer.name + ":" + std::to_string(layer.version);
  }
  return text;
}

Result<Layers> parse_layers(std::string_view text) {
  Layers layers;
  while (!text.empty()) {
    const size_t end = std::min(text.find(','), text.size());
    const std::string_view one = text.substr(0, end);
    const size_t colon = std::min(one.find(':'), one.size());
    LayerReference layer{.name = std::string(one.substr(0, colon))};
    RETURN_IF_ERROR(validate_layer_name(layer.name));
    const std::string_view number = one.substr(std::min(colon + 1, one.size()));
    const auto [last, code] =
        std::from_chars(number.data(), number.data() + number.size(), layer.version);
    const bool is_number = code == std::errc() && last == number.data() + number.size();
    if (!is_number || layer.version == 0) {
      return invalid("a layer is NAME:VERSION, such as torch:3, not '" + std::string(one) + "'");
    }
    const bool is_twice = std::ranges::any_of(
        layers, [&layer](const LayerReference& other) { return other.name == layer.name; });
    if (is_twice) return invalid("a function has one version of layer '" + layer.name + "'");
    layers.push_back(std::move(layer));
    if (layers.size() > kLayersPerFunction) {
      return invalid("a function has at most " + std::to_string(kLayersPerFunction) + " layers");
    }
    if (end == text.size()) break;
    text.remove_prefix(end + 1);
    if (text.empty()) return invalid("a list of layers does not end in ','");
  }
  return layers;
}

Result<void> validate_layer_name(std::string_view name) {
  const auto is_plain = [](unsigned char c) {
    return c < 128 && (std::isalnum(c) != 0 || c == '-' || c == '_');
  };
  if (!name.empty() && name.size() <= kLayerNameLength && std::ranges::all_of(name, is_plain)) {
    return {};
  }
  return invalid("the name of a layer has 1 to " + std::to_string(kLayerNameLength) +
                 " letters, digits, '-' and '_'");
}

std::string volume_of_layers(std::string_view digest) {
  return std::string(kVolumePrefix) + std::string(digest);
}

// A volume of the tenant's own may begin so.
bool is_of_layers(const Mount& mount) {
  if (!mount.volume.starts_with(kVolumePrefix)) return false;
  const std::string_view digest = std::string_view(mount.volume).substr(kVolumePrefix.size());
  return digest.size() == kLayersDigestLength &&
         digest.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

}  // namespace lambent
