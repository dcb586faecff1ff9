#include "edge/cli/function_request.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "core/base/base64.h"

namespace lambent::cli {
namespace {

using Json = nlohmann::ordered_json;

http::Request request(std::string method, std::string target, const Json& body) {
  http::Request request{.method = std::move(method), .target = std::move(target)};
  request.headers.add("Content-Type", "application/json");
  request.body = body.dump(-1, ' ', false, Json::error_handler_t::replace);
  return request;
}

std::string shortest(double number) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.9g", number);
  return text;
}

// Lambda has no words for these: they travel as tags. All of them, so that an update also takes
// back what an earlier manifest said.
Json tags_of(const FunctionSpec& spec) {
  Json tags = Json::object();
  for (const auto& [key, value] : spec.tags) tags[key] = value;
  const bool model = spec.gpu.launch_mode == GpuNeeds::LaunchMode::kModel;
  tags["lambent:kind"] = name_of(spec.kind);
  tags["lambent:gpu-memory"] = std::to_string(spec.gpu.memory.count >> 20) + "MiB";
  tags["lambent:launch-mode"] = model ? "model" : "compute";
  tags["lambent:memory-mode"] = name_of(spec.gpu.memory_mode);
  tags["lambent:working-set"] = name_of(spec.gpu.working_set);
  tags["lambent:checkpoint"] = spec.gpu.checkpoint ? "true" : "false";
  tags["lambent:gpu-runtime"] = name_of(spec.gpu.runtime);
  tags["lambent:gpu-domain"] = spec.gpu.domain;
  tags["lambent:gpu-share"] = std::to_string(spec.gpu.share);
  const CpuVariant cpu = spec.cpu_variant.value_or(CpuVariant{});
  tags["lambent:cpu-variant"] = spec.cpu_variant ? "true" : "false";
  tags["lambent:cpu-handler"] = cpu.handler;
  tags["lambent:gpu-speedup"] = shortest(cpu.gpu_speedup);
  tags["lambent:weight"] = shortest(spec.weight);
  tags["lambent:max-concurrency"] = std::to_string(spec.max_concurrency);
  return tags;
}

Json configuration_of(const FunctionSpec& spec) {
  Json json = {{"FunctionName", spec.name.name},
               {"Runtime", spec.runtime_name},
               {"Role", spec.role.empty() ? "arn:aws:iam::000000000000:role/lambent" : spec.role},
               {"Handler", spec.handler.empty() ? "bootstrap" : spec.handler},
               {"Description", spec.description},
               {"Timeout", std::chrono::duration_cast<seconds>(spec.timeout).count()},
               {"MemorySize", spec.memory.count >> 20},
               {"Environment", {{"Variables", Json::object()}}}};
  for (const auto& [key, value] : spec.environment) json["Environment"]["Variables"][key] = value;
  return json;
}

}  // namespace

std::string function_target(const std::string& name, std::string_view rest) {
  return "/2015-03-31/functions/" + http::percent_encode(name) + std::string(rest);
}

http::Request create_request(const FunctionSpec& spec, std::string_view zip) {
  Json json = configuration_of(spec);
  json["Tags"] = tags_of(spec);
  json["Code"] = {{"ZipFile", base64_encode(zip)}};
  return request("POST", "/2015-03-31/functions", json);
}

http::Request update_code_request(const std::string& name, std::string_view zip) {
  return request("PUT", function_target(name, "/code"), {{"ZipFile", base64_encode(zip)}});
}

http::Request update_configuration_request(const FunctionSpec& spec) {
  return request("PUT", function_target(spec.name.name, "/configuration"), configuration_of(spec));
}

http::Request update_tags_request(const FunctionSpec& spec) {
  return request("POST", "/2017-03-31/tags/" + http::percent_encode(spec.name.name),
                 {{"Tags", tags_of(spec)}});
}

}  // namespace lambent::cli
