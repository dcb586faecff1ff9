#include "edge/frontend/layer_frontend.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "core/base/parse_number.h"
#include "core/domain/limits.h"
#include "edge/frontend/function_json.h"
#include "edge/frontend/json_response.h"
#include "edge/frontend/json_text.h"
#include "edge/frontend/lambda_fault.h"
#include "edge/frontend/lambda_name.h"

namespace lambent::frontend {
namespace {

using nlohmann::json;

constexpr size_t kMostPerPage = 50;
constexpr size_t kLicenseLength = 512;  // bytes, as in Lambda

Error invalid(const std::string& what) { return Error{ErrorCode::kInvalidArgument, what}; }

// What lists and single versions both have.
json summary_of(const LayerVersion& layer) {
  json shown = {{"LayerVersionArn", layer_arn_of(layer.reference)},
                {"Version", layer.reference.version},
                {"Description", layer.description},
                {"CreatedDate", lambda_time(layer.created_at)}};
  if (!layer.license.empty()) shown["LicenseInfo"] = layer.license;
  if (!layer.runtimes.empty()) shown["CompatibleRuntimes"] = layer.runtimes;
  return shown;
}

json to_json(const LayerVersion& layer) {
  json shown = summary_of(layer);
  shown["LayerArn"] = layer_arn_of(layer.reference.name);
  // The content is not given back; there is no place that a client could fetch it from.
  shown["Content"] = {{"CodeSha256", layer.code_sha256}, {"CodeSize", layer.code_size.count}};
  return shown;
}

std::optional<uint64_t> number_of(std::string_view text) {
  const auto number = parse_number<uint64_t>(text);
  return number == 0 ? std::nullopt : number;
}

// The page of a list that a query asks for; a marker is how many came before.
struct Page {
  size_t begin = 0;
  size_t end = 0;
  std::string next;  // empty: there is no more
};

Result<Page> page_of(size_t all, std::string_view query) {
  const std::string marker = http::query_value(query, "Marker");
  const std::string most = http::query_value(query, "MaxItems");
  const auto begin = marker.empty() ? std::optional<uint64_t>(0) : number_of(marker);
  const auto limit = most.empty() ? std::optional<uint64_t>(kMostPerPage) : number_of(most);
  if (!begin || !limit || *limit > kMostPerPage) {
    return invalid("MaxItems must be 1 to " + std::to_string(kMostPerPage) +
                   ", and Marker what an earlier page gave");
  }
  Page page;
  page.begin = std::min<size_t>(*begin, all);
  page.end = std::min<size_t>(all, page.begin + *limit);
  if (page.end < all) page.next = std::to_string(page.end);
  return page;
}

// Those that are for what the query names; one that names no runtime is for all.
std::vector<LayerVersion> only_compatible(std::vector<LayerVersion> all, std::string_view query) {
  const std::string runtime = http::query_value(query, "CompatibleRuntime");
  if (runtime.empty()) return all;
  std::erase_if(all, [&runtime](const LayerVersion& layer) {
    return std::ranges::find(layer.runtimes, runtime) == layer.runtimes.end();
  });
  return all;
}

// The size of what a text in base64 stands for.
Result<void> check_zip(const std::string& text) {
  if (text.empty()) return invalid("Content.ZipFile, the base64 of the zipped layer, is missing");
  const Bytes size(text.size() / 4 * 3);
  if (size <= limits::kZippedCode + Bytes(2)) return {};
  return Error{ErrorCode::kOutOfRange, "the zip has " + to_string(size) + "; at most " +
                                           to_string(limits::kZippedCode) + " fit"};
}

// {layers} / {name} / "versions" / {number}, decoded.
Result<std::vector<std::string>> segments_of(std::string_view path) {
  std::vector<std::string> segments;
  path.remove_prefix(std::min(path.find("/layers"), path.size()));
  while (!path.empty()) {
    path.remove_prefix(1);
    const size_t end = std::min(path.find('/'), path.size());
    std::string segment;
    if (!http::percent_decode(path.substr(0, end), segment)) return invalid("a bad path");
    if (!segment.empty()) segments.push_back(std::move(segment));
    path.remove_prefix(end);
  }
  return segments;
}

LambdaFault not_allowed(const std::string& method, const std::string& allow) {
  return {.status = 405,
          .type = "MethodNotAllowedException",
          .message = method + " is not allowed here; use " + allow,
          .reason = "",
          .allow = allow};
}

LambdaFault unknown() {
  return {.status = 404,
          .type = "UnknownOperationException",
          .message = "there is no such operation in Lambda's API"};
}

// A layer may be named by its ARN wherever its name stands.
std::string name_of_layer(const std::string& text) {
  const std::string prefix = ":layer:";
  const size_t at = text.starts_with("arn:") ? text.find(prefix) : std::string::npos;
  return at == std::string::npos ? text : text.substr(at + prefix.size());
}

}  // namespace

Result<LayerPublication> read_layer_publication(const std::string& name, std::string body) {
  LayerPublication layer{.name = name};
  RETURN_IF_ERROR(validate_layer_name(name));
  const CutJson cut = cut_long_string(body, "ZipFile");
  ASSIGN_OR_RETURN(const json object, parse_json(cut.text));
  if (!object.is_object()) return invalid("the request must be a JSON object");
  ASSIGN_OR_RETURN(layer.description, read_string(object, "Description"));
  ASSIGN_OR_RETURN(layer.license, read_string(object, "LicenseInfo"));
  if (layer.description.size() > limits::kDescriptionLength ||
      layer.license.size() > kLicenseLength) {
    return invalid("Description has at most 256 bytes, and LicenseInfo 512");
  }
  if (const auto found = object.find("CompatibleRuntimes");
      found != object.end() && !found->is_null()) {
    const auto is_text = [](const json& word) {
      return word.is_string() && word.get<std::string>().size() <= kLayerNameLength;
    };
    const bool is_good = found->is_array() && found->size() <= kLayerRuntimes &&
                         std::ranges::all_of(*found, is_text);
    if (!is_good) {
      return invalid("CompatibleRuntimes is a list of at most " + std::to_string(kLayerRuntimes) +
                     " names of runtimes");
    }
    found->get_to(layer.runtimes);
  }
  if (const auto found = object.find("CompatibleArchitectures");
      found != object.end() && !found->is_null() && *found != json::array() &&
      *found != json::array({"x86_64"})) {
    return invalid(R"(CompatibleArchitectures is not supported other than ["x86_64"])");
  }
  const auto content = object.find("Content");
  if (content == object.end() || !content->is_object()) return invalid("Content is missing");
  for (const char* key : {"S3Bucket", "S3Key", "S3ObjectVersion"}) {
    if (content->contains(key) && !content->at(key).is_null()) {
      return invalid(std::string(key) + " is not supported: send the layer itself, as ZipFile");
    }
  }
  ASSIGN_OR_RETURN(layer.zip_base64, read_string(*content, "ZipFile"));
  if (layer.zip_base64 == kCutMark && !cut.cut.empty()) layer.zip_base64 = cut.cut;
  RETURN_IF_ERROR(check_zip(layer.zip_base64));
  return layer;
}

void LayerFrontend::handle(const Caller& caller, http::Request request, http::Responder responder) {
  const std::string_view query = http::query_of(request.target);
  auto segments = segments_of(http::path_of(request.target));
  if (!segments.ok()) return responder.send(fault_response(segments.error()));
  const bool reads = request.method == "GET";
  if (segments->size() == 1) {
    if (!reads) return responder.send(response_of(not_allowed(request.method, "GET")));
    const std::string arn = http::query_value(query, "Arn");
    if (http::query_value(query, "find") != "LayerVersion") {
      return responder.send(list_layers(caller.tenant, query));
    }
    return responder.send(get(caller.tenant, parse_layer_arn(arn)));
  }
  const bool is_versions = segments->size() >= 3 && segments->at(2) == "versions";
  if (!is_versions) return responder.send(response_of(unknown()));
  const std::string name = name_of_layer(segments->at(1));
  if (const auto valid = validate_layer_name(name); !valid.ok()) {
    return responder.send(fault_response(valid.error()));
  }
  if (segments->size() == 3) {
    if (reads) return responder.send(list_versions(caller.tenant, name, query));
    if (request.method != "POST") {
      return responder.send(response_of(not_allowed(request.method, "GET, POST")));
    }
    return publish(caller.tenant, name, std::move(request.body), std::move(responder));
  }
  if (segments->size() > 4) {
    return responder.send(fault_response(
        Error{ErrorCode::kUnimplemented,
              "'" + segments->at(4) + "' of layers is not supported: a layer is its tenant's"}));
  }
  const auto number = number_of(segments->at(3));
  if (!number) return responder.send(fault_response(invalid("a layer's version is a number")));
  if (reads) return responder.send(get(caller.tenant, LayerReference{name, *number}));
  if (request.method == "DELETE") {
    return remove(caller.tenant, {name, *number}, std::move(responder));
  }
  responder.send(response_of(not_allowed(request.method, "GET, DELETE")));
}

void LayerFrontend::publish(TenantId tenant, const std::string& name, std::string body,
                            http::Responder responder) {
  auto layer = read_layer_publication(name, std::move(body));
  if (!layer.ok()) return responder.send(fault_response(layer.error()));
  // Shared since a callback must be copyable and a responder is not.
  auto answer = std::make_shared<http::Responder>(std::move(responder));
  service_->publish_layer(tenant, *std::move(layer), [answer](Result<LayerVersion> made) {
    answer->send(made.ok() ? json_response(201, to_json(*made)) : fault_response(made.error()));
  });
}

http::Response LayerFrontend::list_layers(TenantId tenant, std::string_view query) const {
  const auto all = only_compatible(service_->list_layers(tenant), query);
  const auto page = page_of(all.size(), query);
  if (!page.ok()) return fault_response(page.error());
  json body = {{"Layers", json::array()}};
  for (size_t i = page->begin; i < page->end; ++i) {
    const std::string& name = all[i].reference.name;
    body["Layers"].push_back({{"LayerName", name},
                              {"LayerArn", layer_arn_of(name)},
                              {"LatestMatchingVersion", summary_of(all[i])}});
  }
  if (!page->next.empty()) body["NextMarker"] = page->next;
  return json_response(200, body);
}

http::Response LayerFrontend::list_versions(TenantId tenant, const std::string& name,
                                            std::string_view query) const {
  const auto all = only_compatible(service_->list_layer_versions(tenant, name), query);
  const auto page = page_of(all.size(), query);
  if (!page.ok()) return fault_response(page.error());
  json body = {{"LayerVersions", json::array()}};
  for (size_t i = page->begin; i < page->end; ++i) {
    body["LayerVersions"].push_back(summary_of(all[i]));
  }
  if (!page->next.empty()) body["NextMarker"] = page->next;
  return json_response(200, body);
}

http::Response LayerFrontend::get(TenantId tenant, const Result<LayerReference>& layer) const {
  if (!layer.ok()) return fault_response(layer.error());
  const auto found = service_->find_layer(tenant, *layer);
  return found.ok() ? json_response(200, to_json(*found)) : fault_response(found.error());
}

// As in Lambda: one that is not there is deleted already.
void LayerFrontend::remove(TenantId tenant, const LayerReference& layer,
                           http::Responder responder) {
  auto answer = std::make_shared<http::Responder>(std::move(responder));
  service_->remove_layer(tenant, layer, [answer](Result<LayerVersion> removed) {
    const bool is_gone = removed.ok() || removed.error().code == ErrorCode::kNotFound;
    if (!is_gone) return answer->send(fault_response(removed.error()));
    http::Response response;
    response.status = 204;
    answer->send(std::move(response));
  });
}

}  // namespace lambent::frontend
