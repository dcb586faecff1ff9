#include "edge/cli/store_listing.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "core/domain/version.h"
#include "core/domain/volume.h"
#include "core/http/message.h"
#include "edge/cli/manifest.h"
#include "edge/model_files/onnx_files.h"
#include "edge/model_files/triton_config.h"

namespace lambent::cli {
namespace {

Error bad_listing(const std::string& what) {
  return {ErrorCode::kInvalidArgument, "the store's listing " + what};
}

// What stands between <name> and </name> from `at` on, which then is behind it; nothing: there is
// no more. A listing has these elements without attributes, and none within itself.
std::optional<std::string_view> next_element(std::string_view xml, std::string_view name,
                                             size_t& at) {
  const std::string open = "<" + std::string(name) + ">";
  const std::string close = "</" + std::string(name) + ">";
  const size_t begin = xml.find(open, at);
  if (begin == std::string_view::npos) return std::nullopt;
  const size_t end = xml.find(close, begin + open.size());
  if (end == std::string_view::npos) return std::nullopt;
  at = end + close.size();
  return xml.substr(begin + open.size(), end - begin - open.size());
}

std::optional<std::string_view> element(std::string_view xml, std::string_view name) {
  size_t at = 0;
  return next_element(xml, name, at);
}

void append_utf8(std::string& text, uint32_t code) {
  if (code < 0x80) {
    text += static_cast<char>(code);
  } else if (code < 0x800) {
    text += static_cast<char>(0xc0 | code >> 6);
    text += static_cast<char>(0x80 | (code & 0x3f));
  } else if (code < 0x10000) {
    text += static_cast<char>(0xe0 | code >> 12);
    text += static_cast<char>(0x80 | (code >> 6 & 0x3f));
    text += static_cast<char>(0x80 | (code & 0x3f));
  } else {
    text += static_cast<char>(0xf0 | code >> 18);
    text += static_cast<char>(0x80 | (code >> 12 & 0x3f));
    text += static_cast<char>(0x80 | (code >> 6 & 0x3f));
    text += static_cast<char>(0x80 | (code & 0x3f));
  }
}

// "amp", "#233" or "#xe9".
bool append_entity(std::string& text, std::string_view name) {
  constexpr std::pair<std::string_view, char> kNamed[] = {
      {"amp", '&'}, {"lt", '<'}, {"gt", '>'}, {"quot", '"'}, {"apos", '\''}};
  for (const auto& [known, c] : kNamed) {
    if (name != known) continue;
    text += c;
    return true;
  }
  if (!name.starts_with('#')) return false;
  name.remove_prefix(1);
  const bool is_hex = name.starts_with('x');
  if (is_hex) name.remove_prefix(1);
  uint32_t code = 0;
  const auto [end, error] =
      std::from_chars(name.data(), name.data() + name.size(), code, is_hex ? 16 : 10);
  if (error != std::errc() || end != name.data() + name.size()) return false;
  if (code == 0 || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) return false;
  append_utf8(text, code);
  return true;
}

Result<std::string> without_entities(std::string_view text) {
  std::string plain;
  while (!text.empty()) {
    const size_t amp = std::min(text.find('&'), text.size());
    plain += text.substr(0, amp);
    text.remove_prefix(amp);
    if (text.empty()) break;
    const size_t end = text.find(';');
    if (end == std::string_view::npos || !append_entity(plain, text.substr(1, end - 1))) {
      return bad_listing("has an entity that makes no sense");
    }
    text.remove_prefix(end + 1);
  }
  return plain;
}

Result<ListedObject> parse_object(std::string_view contents, bool is_encoded) {
  const auto key = element(contents, "Key");
  const auto size = element(contents, "Size");
  if (!key || !size) return bad_listing("has an object without Key or Size");
  ListedObject object;
  ASSIGN_OR_RETURN(object.key, without_entities(*key));
  if (is_encoded) {
    std::string decoded;
    // As in forms, and what is not encoded at all stands for itself.
    std::string spaced = object.key;
    std::replace(spaced.begin(), spaced.end(), '+', ' ');
    if (!http::percent_decode(spaced, decoded)) return bad_listing("has a key that is not encoded");
    object.key = std::move(decoded);
  }
  const auto [end, error] =
      std::from_chars(size->data(), size->data() + size->size(), object.size.count);
  if (error != std::errc() || end != size->data() + size->size()) {
    return bad_listing("has a Size that is no number");
  }
  return object;
}

bool is_digest(std::string_view text) {
  return text.size() == 64 && std::ranges::all_of(text, [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
         });
}

std::string lower_digest(std::string_view text) {
  std::string made(text);
  for (char& c : made) {
    if (c >= 'A' && c <= 'F') c = static_cast<char>(c - 'A' + 'a');
  }
  return made;
}

// "1/model.onnx" of the model itself.
void add_file(StoredModel& model, std::string_view inner, const std::string& path) {
  if (inner == model_files::kTritonConfig) {
    model.has_config = true;
    return;
  }
  const size_t slash = inner.find('/');
  if (slash == std::string_view::npos) return;
  const auto number = version_number(inner.substr(0, slash));
  const std::string_view file = inner.substr(slash + 1);
  if (!number || file == kManifestName) return;
  model.versions[*number].push_back(path);
  const bool is_direct = file.find('/') == std::string_view::npos;
  model.has_model = model.has_model || (is_direct && model_files::is_onnx_name(file));
}

bool is_model(const StoredModel& model) {
  return !model.versions.empty() && (model.has_config || model.has_model);
}

}  // namespace

Result<ListingPage> parse_listing(std::string_view xml) {
  if (xml.find("<ListBucketResult") == std::string_view::npos) {
    return bad_listing("is none of S3's");
  }
  const bool is_encoded = element(xml, "EncodingType") == "url";
  ListingPage page;
  size_t at = 0;
  while (const auto contents = next_element(xml, "Contents", at)) {
    ASSIGN_OR_RETURN(ListedObject object, parse_object(*contents, is_encoded));
    page.objects.push_back(std::move(object));
  }
  if (element(xml, "IsTruncated") != "true") return page;
  const auto next = element(xml, "NextContinuationToken");
  if (next) {
    ASSIGN_OR_RETURN(page.next, without_entities(*next));
  }
  if (page.next.empty()) return bad_listing("goes on, and does not say where");
  return page;
}

Result<std::map<std::string, std::string>> parse_sums(std::string_view text) {
  std::map<std::string, std::string> sums;
  for (size_t number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || line.starts_with('#')) continue;
    const Error bad{ErrorCode::kInvalidArgument,
                    "line " + std::to_string(number) + " is no 'DIGEST  PATH' of sha256sum"};
    if (line.size() < 67 || !is_digest(line.substr(0, 64)) || line[64] != ' ') return bad;
    if (line[65] != ' ' && line[65] != '*') return bad;
    std::string_view path = line.substr(66);
    if (path.starts_with("./")) path.remove_prefix(2);
    if (!validate_volume_path(path).ok()) return bad;
    sums[std::string(path)] = lower_digest(line.substr(0, 64));
    if (sums.size() > kMostListed) {
      return Error{ErrorCode::kOutOfRange,
                   "it lists more than " + std::to_string(kMostListed) + " files"};
    }
  }
  return sums;
}

Result<std::vector<StoredModel>> find_stored_models(const std::vector<std::string>& paths) {
  StoredModel itself;
  std::map<std::string, StoredModel> inner;
  for (const std::string& path : paths) {
    RETURN_IF_ERROR(validate_volume_path(path));
    add_file(itself, path, path);
    const size_t slash = path.find('/');
    if (slash == std::string::npos) continue;
    const std::string folder = path.substr(0, slash + 1);
    add_file(inner[folder], std::string_view(path).substr(slash + 1), path);
  }
  std::vector<StoredModel> models;
  if (is_model(itself)) {
    models.push_back(std::move(itself));
  } else {
    for (auto& [folder, model] : inner) {
      if (!is_model(model)) continue;
      model.folder = folder;
      models.push_back(std::move(model));
    }
  }
  for (StoredModel& model : models) {
    for (auto& [version, files] : model.versions) std::sort(files.begin(), files.end());
  }
  if (!models.empty()) return models;
  return Error{ErrorCode::kNotFound, "none of its " + std::to_string(paths.size()) +
                                         " files is of a version, such as 1/model.onnx or "
                                         "NAME/1/model.onnx"};
}

}  // namespace lambent::cli
