#include "edge/frontend/shared_memory_frontend.h"

#include <algorithm>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "core/base/json_text.h"
#include "core/base/parse_number.h"
#include "edge/frontend/function_target.h"
#include "edge/frontend/inference_frontend.h"
#include "edge/frontend/json_response.h"
#include "edge/frontend/json_text.h"
#include "edge/frontend/limits.h"
#include "edge/frontend/native_path.h"
#include "edge/frontend/offload.h"
#include "edge/frontend/replayed_exchange.h"
#include "edge/inference/compression.h"
#include "edge/inference/infer_request.h"
#include "edge/inference/shared_memory_request.h"

namespace lambent::frontend {
namespace {

using inference::RegionSpec;
using Region = inference::SharedMemoryRegions::Region;
using nlohmann::json;

constexpr std::string_view kSystem = "systemsharedmemory";
constexpr std::string_view kCuda = "cudasharedmemory";
constexpr std::string_view kInfer = "/infer";

// A path's parts behind "v2".
struct RegionRoute {
  bool is_cuda = false;
  std::string name;  // empty: of all
  std::string verb;
};

std::optional<RegionRoute> route_of(std::string_view path) {
  const auto parts = path_parts(path);
  if (!parts || (parts->size() != 3 && parts->size() != 5)) return std::nullopt;
  RegionRoute route{.is_cuda = parts->at(1) == kCuda, .name = {}, .verb = parts->back()};
  if (parts->size() == 5) {
    if (parts->at(2) != "region" || parts->at(3).empty()) return std::nullopt;
    route.name = parts->at(3);
  }
  const bool is_verb = route.verb == "status" || route.verb == "unregister" ||
                       (route.verb == "register" && !route.name.empty());
  return is_verb ? std::optional(std::move(route)) : std::nullopt;
}

json json_of(const RegionSpec& region) {
  return {{"name", region.name},
          {"key", region.key},
          {"offset", region.offset},
          {"byte_size", region.byte_size}};
}

// No region of CUDA's is ever registered, and that much is said: clients that clear what another
// run left, as perf_analyzer, find nothing to clear.
Result<std::string> answer_about_cuda(const RegionRoute& route) {
  if (route.verb == "register") {
    return Error{ErrorCode::kUnimplemented,
                 "CUDA shared memory is not served: GPUs belong to functions, and no process "
                 "outside has a handle to their memory. Use system shared memory"};
  }
  if (route.verb == "unregister") return std::string("{}");
  if (route.name.empty()) return std::string("[]");
  return Error{ErrorCode::kNotFound,
               "no CUDA shared memory region '" + route.name + "' is registered"};
}

http::Headers without(const http::Headers& headers, std::initializer_list<std::string_view> names) {
  http::Headers rest;
  for (const auto& [name, value] : headers.fields()) {
    const bool is_left_out = std::any_of(
        names.begin(), names.end(), [&](const auto& each) { return http::same_name(each, name); });
    if (!is_left_out) rest.add(name, value);
  }
  return rest;
}

}  // namespace

bool is_shared_memory_path(std::string_view path) {
  constexpr std::string_view kRoot = "/v2/";
  if (!path.starts_with(kRoot)) return false;
  path.remove_prefix(kRoot.size());
  const std::string_view kind = path.substr(0, path.find('/'));
  return kind == kSystem || kind == kCuda;
}

// One request, from its arrival to its answer. Shared because tasks must be copyable.
struct SharedMemoryFrontend::Transfer {
  Transfer(TenantId its_tenant, http::Request its_request, http::Responder its_responder,
           bool its_body_is_whole, Next its_next, std::shared_ptr<size_t> counter, Bytes its_most)
      : tenant(its_tenant),
        request(std::move(its_request)),
        responder(std::move(its_responder)),
        is_whole(its_body_is_whole),
        next(std::move(its_next)),
        at_work(std::move(counter)),
        most_at_work(its_most) {}
  ~Transfer() { *at_work -= held; }
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;

  // False: all that are at work have no room for so many bytes more.
  bool hold(uint64_t bytes) {
    if (bytes > most_at_work.count - *at_work) return false;
    *at_work += bytes;
    held += bytes;
    return true;
  }

  // What cannot be read is passed on as it is: who serves it tells why.
  Result<std::optional<inference::SharedMemoryRequest>> parse() {
    std::string_view body = request.body;
    const std::string_view coding = request.headers.get("Content-Encoding");
    if (!coding.empty()) {
      auto plain = inference::decompress(body, coding, limits::kEventBody);
      if (!plain.ok()) return std::optional<inference::SharedMemoryRequest>();
      decompressed = *std::move(plain);
      body = decompressed;
    }
    const auto length =
        inference::parse_json_length(request.headers.get("Inference-Header-Content-Length"));
    if (!length.ok()) return std::optional<inference::SharedMemoryRequest>();
    return inference::parse_shared_memory_request(body, *length);
  }

  // Of the request's inputs, behind its JSON.
  Result<void> gather() {
    made = plan.json;
    size_t number = 0;
    for (const inference::InputBytes& input : plan.inputs) {
      if (!input.shared) {
        made += input.own;
      } else {
        const inference::SharedSlice& from = *input.shared;
        RETURN_IF_ERROR(input_regions[number++]->read(from.offset, from.size, made));
      }
    }
    return {};
  }

  Result<http::Response> put_outputs() {
    ASSIGN_OR_RETURN(auto answer, inference::take_shared_outputs(whole, plan.outputs));
    for (size_t i = 0; i < plan.outputs.size(); ++i) {
      RETURN_IF_ERROR(output_regions[i]->write(plan.outputs[i].place.offset, answer.written[i]));
    }
    inference::compress(answer.response, accepts);
    return std::move(answer.response);
  }

  const TenantId tenant;
  http::Request request;
  http::Responder responder;
  const bool is_whole;
  const Next next;
  std::string decompressed;  // its body, where that was compressed
  inference::SharedMemoryRequest plan;
  std::vector<Region> input_regions, output_regions;  // of those of the plan that are shared
  std::string made;                                   // the body that goes on
  std::string accepts;                                // Accept-Encoding
  http::Response whole;                               // of who served it

 private:
  const std::shared_ptr<size_t> at_work;
  const Bytes most_at_work;
  uint64_t held = 0;
};

void SharedMemoryFrontend::handle(const Caller& caller, const http::Request& request,
                                  http::Responder responder) {
  responder.send(answer_to(caller, request));
}

http::Response SharedMemoryFrontend::answer_to(const Caller& caller, const http::Request& request) {
  const std::string_view path = http::path_of(request.target);
  const auto route = route_of(path);
  if (!route) return inference_error(404, "there is nothing at " + std::string(path));
  const bool is_get = request.method == "GET" || request.method == "HEAD";
  if (route->verb == "status" ? !is_get : request.method != "POST") {
    const std::string allowed = route->verb == "status" ? "GET" : "POST";
    http::Response response = inference_error(405, "this path takes " + allowed);
    response.headers.add("Allow", allowed);
    return response;
  }
  const auto answer = route->is_cuda
                          ? answer_about_cuda(*route)
                          : perform(caller.tenant, route->verb, route->name, request.body);
  if (!answer.ok()) return inference_error(answer.error());
  http::Response response;
  response.headers.add("Content-Type", "application/json");
  response.body = *answer;
  return response;
}

Result<std::string> SharedMemoryFrontend::perform(TenantId tenant, const std::string& verb,
                                                  const std::string& name,
                                                  const std::string& body) {
  if (!is_on()) {
    return Error{ErrorCode::kUnimplemented,
                 "this worker serves no shared memory; its operator turns it on (lambent serve "
                 "--system-shared-memory USER)"};
  }
  if (verb == "register") {
    ASSIGN_OR_RETURN(RegionSpec region, inference::parse_registration(name, body));
    RETURN_IF_ERROR(uses_.regions->add(tenant, std::move(region), owners_of(tenant)));
    return std::string("{}");
  }
  if (verb == "unregister") {
    name.empty() ? uses_.regions->remove_all(tenant) : uses_.regions->remove(tenant, name);
    return std::string("{}");
  }
  json list = json::array();
  if (name.empty()) {
    for (const RegionSpec& region : uses_.regions->list(tenant)) list.push_back(json_of(region));
  } else {
    ASSIGN_OR_RETURN(const Region region, uses_.regions->find(tenant, name));
    list.push_back(json_of(region->spec()));
  }
  return json_text(list);
}

std::vector<uid_t> SharedMemoryFrontend::owners_of(TenantId tenant) const {
  const std::string name = uses_.access.tenant_name(tenant);
  std::vector<uid_t> users;
  for (const SharedMemoryOwner& owner : owners_) {
    if (owner.tenant == name) users.push_back(owner.user);
  }
  return users;
}

bool SharedMemoryFrontend::may_name_regions(TenantId tenant, const http::Request& request) const {
  if (!is_on() || !uses_.regions->has_any(tenant) || request.method != "POST") return false;
  const std::string_view path = http::path_of(request.target);
  if (!path.starts_with(kModels) || !path.ends_with(kInfer)) return false;
  const auto bytes = parse_number<uint64_t>(request.headers.get("Content-Length"));
  return bytes && *bytes > 0 && *bytes <= limits::kEventBody.count;
}

void SharedMemoryFrontend::expand(TenantId tenant, http::Request request, http::Responder responder,
                                  bool is_whole, Next next) {
  if (is_whole) {
    return read(std::make_shared<Transfer>(tenant, std::move(request), std::move(responder), true,
                                           std::move(next), at_work_, most_.at_work));
  }
  uses_.bodies.collect(
      std::move(request), std::move(responder),
      [](const Error& error) { return inference_error(error); },
      [this, tenant, next = std::move(next)](http::Request arrived, http::Responder answering) {
        read(std::make_shared<Transfer>(tenant, std::move(arrived), std::move(answering), false,
                                        next, at_work_, most_.at_work));
      });
}

void SharedMemoryFrontend::read(const std::shared_ptr<Transfer>& transfer) {
  using Parsed = Result<std::optional<inference::SharedMemoryRequest>>;
  auto parsed = std::make_shared<Parsed>(std::optional<inference::SharedMemoryRequest>());
  const bool is_compressed = transfer->request.headers.contains("Content-Encoding");
  const size_t bytes = is_compressed ? limits::kEventBody.count : transfer->request.body.size();
  const bool began = compute(
      uses_.offload, bytes, [transfer, parsed] { *parsed = transfer->parse(); },
      [this, transfer, parsed] {
        if (!parsed->ok()) return transfer->responder.send(inference_error(parsed->error()));
        std::optional<inference::SharedMemoryRequest>& plan = **parsed;
        if (!plan) {
          transfer->made = std::move(transfer->request.body);
          return pass_on(transfer);
        }
        transfer->plan = *std::move(plan);
        const auto found = find_regions(*transfer);
        if (!found.ok()) return transfer->responder.send(inference_error(found.error()));
        gather(transfer);
      });
  if (!began) transfer->responder.send(inference_error(overloaded()));
}

Result<void> SharedMemoryFrontend::find_regions(Transfer& transfer) const {
  const inference::SharedMemoryRequest& plan = transfer.plan;
  for (const inference::InputBytes& input : plan.inputs) {
    if (!input.shared) continue;
    ASSIGN_OR_RETURN(Region region, uses_.regions->find(transfer.tenant, input.shared->region));
    RETURN_IF_ERROR(region->check(input.shared->offset, input.shared->size));
    transfer.input_regions.push_back(std::move(region));
  }
  for (size_t i = 0; i < plan.outputs.size(); ++i) {
    const inference::SharedSlice& place = plan.outputs[i].place;
    ASSIGN_OR_RETURN(Region region, uses_.regions->find(transfer.tenant, place.region));
    RETURN_IF_ERROR(region->check(place.offset, place.size));
    for (size_t other = 0; other < i; ++other) {
      const inference::SharedSlice& its = plan.outputs[other].place;
      if (!region->overlaps(place.offset, place.size, *transfer.output_regions[other], its.offset,
                            its.size)) {
        continue;
      }
      return Error{ErrorCode::kInvalidArgument,
                   "the places of the outputs '" + plan.outputs[other].name + "' and '" +
                       plan.outputs[i].name + "' in shared memory overlap"};
    }
    transfer.output_regions.push_back(std::move(region));
  }
  return {};
}

void SharedMemoryFrontend::gather(const std::shared_ptr<Transfer>& transfer) {
  const uint64_t bytes = transfer->plan.shared_input_bytes();
  if (bytes > most_.of_request.count) {
    return transfer->responder.send(inference_error(
        Error{ErrorCode::kInvalidArgument,
              "the inputs in shared memory have more than " + to_string(most_.of_request)}));
  }
  auto gathered = std::make_shared<Result<void>>();
  const bool began =
      transfer->hold(bytes) &&
      compute(
          uses_.offload, bytes, [transfer, gathered] { *gathered = transfer->gather(); },
          [this, transfer, gathered] {
            if (!gathered->ok()) {
              return transfer->responder.send(inference_error(gathered->error()));
            }
            http::Headers& headers = transfer->request.headers;
            transfer->accepts = headers.get("Accept-Encoding");
            headers = without(headers, {"Content-Encoding"});
            if (!transfer->plan.outputs.empty()) headers = without(headers, {"Accept-Encoding"});
            headers.set("Inference-Header-Content-Length",
                        std::to_string(transfer->plan.json.size()));
            headers.set("Content-Length", std::to_string(transfer->made.size()));
            pass_on(transfer);
          });
  if (!began) transfer->responder.send(inference_error(overloaded()));
}

void SharedMemoryFrontend::pass_on(const std::shared_ptr<Transfer>& transfer) {
  http::Request request = std::move(transfer->request);
  request.body.clear();
  std::string streamed;
  (transfer->is_whole ? request.body : streamed) = std::exchange(transfer->made, {});
  // It stays until the client is answered; of this nothing is read again.
  transfer->plan.inputs.clear();
  transfer->input_regions.clear();
  std::string().swap(transfer->decompressed);
  http::Responder client = std::move(transfer->responder);
  auto exchange =
      transfer->plan.outputs.empty()
          ? std::make_shared<ReplayedExchange>(std::move(streamed), std::move(client), transfer)
          : std::make_shared<ReplayedExchange>(
                std::move(streamed), std::move(client), transfer,
                [transfer](size_t bytes) { return transfer->hold(bytes); },
                [this, transfer](http::Responder its, Result<http::Response> answer) {
                  put_outputs(transfer, std::move(its), std::move(answer));
                });
  transfer->next(std::move(request), http::Responder(std::move(exchange)));
}

void SharedMemoryFrontend::put_outputs(const std::shared_ptr<Transfer>& transfer,
                                       http::Responder client, Result<http::Response> answer) {
  if (!answer.ok()) return client.send(inference_error(answer.error()));
  if (answer->status != 200) return client.send(*std::move(answer));
  transfer->whole = *std::move(answer);
  // Shared because tasks must be copyable.
  struct Put {
    http::Responder client;
    Result<http::Response> response;
  };
  auto put = std::make_shared<Put>(Put{std::move(client), http::Response()});
  const bool began = compute(
      uses_.offload, transfer->whole.body.size(),
      [transfer, put] { put->response = transfer->put_outputs(); },
      [put] {
        put->client.send(put->response.ok() ? *std::move(put->response)
                                            : inference_error(put->response.error()));
      });
  if (!began) put->client.send(inference_error(overloaded()));
}

}  // namespace lambent::frontend
