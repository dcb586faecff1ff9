#include "edge/cli/deployment.h"

#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "core/archive/code_delta.h"
#include "core/archive/zip.h"
#include "edge/cli/api_error.h"
#include "edge/cli/api_json.h"
#include "edge/cli/function_request.h"

namespace lambent::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr Duration kDeployTimeout = seconds(120);
constexpr Duration kAskAgain = milliseconds(300);
// A smaller package is sent at once, without asking whether the worker has it.
constexpr size_t kAsksFirst = 64 * 1024;
// How a worker begins when it says that it has no code of that digest.
constexpr std::string_view kCodeIsMissing = "the worker does not have this code";

// What makes the package out of the one that the worker has of the function.
struct Delta {
  std::string base_sha256;
  std::string steps;
};

// Nothing where it has none, tells none, or all of it is other code.
std::optional<Delta> delta_to(Transport& transport, const std::string& name,
                              const std::string& zip) {
  const auto code =
      ask_json(transport, "GET", "/v1/functions/" + http::percent_encode(name) + "/code/parts");
  if (!code.ok() || !code->is_object()) return std::nullopt;
  const auto list = code->find("parts");
  if (list == code->end() || !list->is_array()) return std::nullopt;
  std::vector<CodePart> parts;
  for (const Json& part : *list) {
    const auto sha256 = part.find("sha256");
    const auto size = part.find("bytes");
    const bool is_part = part.is_object() && sha256 != part.end() && sha256->is_string() &&
                         size != part.end() && size->is_number_unsigned();
    if (!is_part) return std::nullopt;
    parts.push_back({sha256->get<std::string>(), Bytes(size->get<uint64_t>())});
  }
  const auto base = code->find("code_sha256");
  if (base == code->end() || !base->is_string()) return std::nullopt;
  auto steps = archive::make_code_delta(zip, parts);
  // As good as all of it is not worth another kind of request.
  if (!steps.ok() || steps->size() > zip.size() / 10 * 9) return std::nullopt;
  return Delta{base->get<std::string>(), *std::move(steps)};
}

// A worker that installs packages answers at once. Asks it until it has done that, and puts the
// last answer into `body`. The error is the one that the deployment failed for.
Result<void> wait_until_done(Transport& transport, const std::string& name, std::string& body,
                             const DeployProgress& tell) {
  std::string told;
  while (true) {
    const DeploymentState state = read_deployment_state(body);
    if (state.failure) return *state.failure;
    if (!state.under_way) return {};
    if (tell && state.reason != told) tell(state.reason);
    told = state.reason;
    std::this_thread::sleep_for(kAskAgain);
    auto answer = good(transport.send(
        {.method = "GET", .target = function_target(name, "/configuration")}, kDeployTimeout));
    if (!answer.ok()) return answer.error().with_context("waiting for its packages");
    body = std::move(answer->body);
  }
}

}  // namespace

DeploymentState read_deployment_state(const std::string& configuration) {
  DeploymentState result;
  const Json json = Json::parse(configuration, nullptr, false);
  if (!json.is_object()) return result;
  const auto text = [&json](const std::string& key) {
    const auto found = json.find(key);
    return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
  };
  for (const std::string key : {"State", "LastUpdateStatus"}) {
    const std::string state = text(key);
    if (state == "Pending" || state == "InProgress") {
      result.under_way = true;
      result.reason = text(key + "Reason");
    } else if (state == "Failed") {
      const auto code = error_code_from_name(text(key + "ReasonCode"));
      result.failure = Error{code.value_or(ErrorCode::kUnknown), text(key + "Reason")};
    }
  }
  if (!result.under_way && !result.failure) result.warning = text("StateReason");
  return result;
}

Result<Deployed> deploy_function(Transport& transport, const FunctionSpec& spec,
                                 const std::string& zip, const DeployHow& how) {
  uint64_t sent = 0;
  uint64_t code_sent = 0;
  const auto send = [&](const DeployRequestOptions& options) {
    const http::Request request = deploy_request(spec, options);
    sent += request.body.size();
    code_sent += options.zip.size() + options.delta.size();
    return good(transport.send(request, kDeployTimeout));
  };
  // A worker that has the code takes its digest for it.
  const bool asks_first = zip.size() > kAsksFirst;
  auto answer = send(asks_first ? DeployRequestOptions{.code_sha256 = archive::code_sha256(zip),
                                                       .dry_run = how.dry_run}
                                : DeployRequestOptions{.zip = zip, .dry_run = how.dry_run});
  const auto lacks_code = [&] {
    return asks_first && !answer.ok() && answer.error().code == ErrorCode::kFailedPrecondition &&
           answer.error().message.starts_with(kCodeIsMissing);
  };
  if (lacks_code()) {
    if (const auto delta = delta_to(transport, spec.name.name, zip)) {
      answer = send({.code_sha256 = archive::code_sha256(zip),
                     .delta = delta->steps,
                     .base_sha256 = delta->base_sha256,
                     .dry_run = how.dry_run});
    }
  }
  if (lacks_code()) answer = send({.zip = zip, .dry_run = how.dry_run});
  if (!answer.ok()) return answer.error();
  const Json body = Json::parse(answer->body, nullptr, false);
  if (!body.is_object()) return not_a_worker("/v1/functions");
  Deployed deployed{.action = body.value("action", "updated"),
                    .changes = body.value("changes", Json::array()).dump(),
                    .answer = body.value("configuration", Json::object()).dump(),
                    .bytes_sent = sent,
                    .code_sent = code_sent,
                    .revision = body.value("revision", uint64_t{0})};
  if (const auto change = body.find("kind_change"); change != body.end() && change->is_object()) {
    deployed.kind_change.emplace(change->value("from", ""), change->value("to", ""));
  }
  if (how.waits) {
    RETURN_IF_ERROR(wait_until_done(transport, spec.name.name, deployed.answer, how.tell));
  } else {
    deployed.under_way = read_deployment_state(deployed.answer).under_way;
  }
  return deployed;
}

}  // namespace lambent::cli
