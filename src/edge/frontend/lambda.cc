#include "edge/frontend/lambda.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <tuple>

#include "core/base/base64.h"
#include "core/base/spelling.h"
#include "core/domain/limits.h"
#include "edge/frontend/function_json.h"
#include "edge/frontend/function_tags.h"
#include "edge/frontend/json_response.h"
#include "edge/frontend/json_text.h"
#include "edge/frontend/lambda_absent.h"
#include "edge/frontend/lambda_call.h"
#include "edge/frontend/lambda_name.h"
#include "edge/frontend/lambda_stream.h"
#include "edge/frontend/outcome_headers.h"
#include "edge/frontend/provisioned_concurrency.h"

namespace lambent::frontend {
namespace {

// Enough for an environment that exists.
constexpr Duration kAnswerAtOnce = milliseconds(100);

using http::Response;
using nlohmann::json;

Response empty_response(int status) {
  Response response;
  response.status = status;
  return response;
}

// Of an event: the id under which its result can be asked for, whichever repeat was the first.
Response accepted_response(InvocationId id) {
  Response response = empty_response(202);
  response.headers.add("x-amzn-RequestId", to_string(id));
  return response;
}

// The setting for which Lambda has reserved concurrency.
constexpr std::string_view kConcurrencyTag = "lambent:max-concurrency";

// The tags of a function's URL; there is a configuration of it where the first of them is.
constexpr std::string_view kUrlAuthTag = "lambent:url-auth";
constexpr std::string_view kUrlModeTag = "lambent:url-invoke-mode";
constexpr std::string_view kUrlCorsTag = "lambent:url-cors";

LambdaFault stale_revision(const std::string& latest) {
  return {.status = 412,
          .type = "PreconditionFailedException",
          .message = "The RevisionId provided does not match the latest one, " + latest};
}

// AWS's, and then what the worker says beside them.
std::string not_found_words(const FunctionName& name, const std::string& said) {
  const std::string words = "Function not found: " + arn_of(name.name);
  if (is_version_record(name)) return words + " (" + said + ")";
  const size_t hint = said.find(kSuggests);
  return hint == std::string::npos ? words : words + said.substr(hint);
}

// Shared by the callback that answers and the one that hears of a client's end, since a callback
// must be copyable and a responder is not.
using Answer = std::shared_ptr<http::Responder>;

// As much of the log's end as Lambda would show.
std::string_view tail_of(std::string_view log) {
  return log.substr(log.size() - std::min<size_t>(log.size(), limits::kLogTail.count));
}

Response invoke_response(Result<InvocationResult> outcome, const Invoke& call) {
  if (!outcome.ok()) return fault_response(outcome.error());
  InvocationResult& result = *outcome;
  Response response;
  if (result.outcome == Outcome::kRejected) {
    LambdaFault fault = fault_of(result.error.value_or(Error{ErrorCode::kInternal, "rejected"}));
    fault.retry_after = result.retry_after;
    response = response_of(fault);
    add_outcome(response.headers, result);
    return response;
  }
  add_outcome(response.headers, result);
  response.headers.add("Content-Type", "application/json");
  if (call.log_tail) {
    response.headers.add("X-Amz-Log-Result", base64_encode(tail_of(result.log_tail)));
  }
  response.body = std::move(result.payload);
  return response;
}

Result<void> replace_image(FunctionSpec& spec, const ImageReference& image) {
  if (!runs_image(spec)) {
    return Error{ErrorCode::kInvalidArgument,
                 "the function has its code as a zip; one with PackageType Image has an ImageUri"};
  }
  ASSIGN_OR_RETURN(ImageCommand command, parse_image_command(spec.handler));
  command.image = image;
  spec.handler = text_of(command);
  return {};
}

json code_of(const FunctionSpec& spec) {
  json code = {{"RepositoryType", "Lambent"}};
  const auto command =
      runs_image(spec) ? parse_image_command(spec.handler) : Result<ImageCommand>(ImageCommand());
  if (!runs_image(spec) || !command.ok()) return code;
  ImageReference image = command->image;
  code["ResolvedImageUri"] = text_of(image);
  image.digest.clear();
  code["ImageUri"] = text_of(image);
  return code;
}

// What a function has of the layers that `changed` names; `otherwise` if it has other ones.
Result<Mounts> layers_that_it_has(const Result<FunctionSpec>& function, const FunctionSpec& changed,
                                  const Error& otherwise) {
  if (!function.ok()) return otherwise;
  const std::string tag(kLayersTag);
  const auto has = function->tags.find(tag);
  if (has == function->tags.end() || has->second != changed.tags.at(tag)) return otherwise;
  Mounts mounts;
  std::ranges::copy_if(function->mounts, std::back_inserter(mounts), is_of_layers);
  return mounts;
}

// Performs one decoded call; a function object over the kinds of call.
class Performance {
 public:
  // `answers_early`: what takes long is answered at once, and goes on.
  Performance(const LambdaFrontend::Dependencies& uses, InvocationId id, bool answers_early,
              http::Responder responder)
      : service_(uses.service),
        versions_(uses.versions),
        uses_(uses),
        id_(id),
        answers_early_(answers_early),
        answer_(std::make_shared<http::Responder>(std::move(responder))) {}

  void operator()(LambdaFault& fault) { send(response_of(fault)); }

  void operator()(CreateFunction& call) {
    if (answers_early_) call.change.answer_within = kAnswerAtOnce;
    auto change = std::make_shared<FunctionChange>(std::move(call.change));
    FunctionSpec spec = std::exchange(change->spec, {});
    with_layers(std::move(spec), [&service = service_, send = sender(), change,
                                  done = answer_with_configuration(201)](auto composed) {
      if (!composed.ok()) return send(fault_response(composed.error()));
      change->spec = std::move(*composed);
      service.create_function(std::move(*change), done);
    });
  }

  void operator()(UpdateFunctionCode& call) {
    FunctionChange change;
    if (!find(call.name, call.revision_id, change.spec)) return;
    change.zip_base64 = std::move(call.zip_base64);
    if (call.image) {
      const auto replaced = replace_image(change.spec, *call.image);
      if (!replaced.ok()) return send(fault_response(replaced.error()));
    }
    change.dry_run = call.dry_run;
    change.publish = call.publish;
    if (answers_early_) change.answer_within = kAnswerAtOnce;
    service_.update_function(std::move(change), answer_with_configuration(200));
  }

  void operator()(UpdateFunctionConfiguration& call) {
    FunctionSpec spec;
    if (!find(call.name, call.revision_id, spec)) return;
    update(apply_patch(std::move(spec), call.patch), answer_with_configuration(200));
  }

  void operator()(TagFunction& call) {
    FunctionSpec spec;
    if (!find(call.name, "", spec)) return;
    for (auto& [key, value] : call.tags) spec.tags[key] = value;
    update(apply_patch(std::move(spec), {}), answer_with_nothing());
  }

  void operator()(UntagFunction& call) {
    FunctionSpec spec;
    if (!find(call.name, "", spec)) return;
    for (const std::string& key : call.keys) spec.tags.erase(key);
    update(apply_patch(std::move(spec), {}), answer_with_nothing());
  }

  void operator()(ListTags& call) {
    FunctionSpec spec;
    if (find(call.name, "", spec)) send(json_response(200, {{"Tags", spec.tags}}));
  }

  void operator()(GetFunctionConfiguration& call) {
    FunctionSpec spec;
    if (find(call.name, "", spec)) send(json_response(200, configuration_of(spec, call.name)));
  }

  void operator()(GetFunction& call) {
    FunctionSpec spec;
    if (!find(call.name, "", spec)) return;
    // The code is not given back; there is no place that a client could fetch it from.
    json body = {{"Configuration", configuration_of(spec, call.name)}, {"Code", code_of(spec)}};
    if (!spec.tags.empty()) body["Tags"] = spec.tags;
    send(json_response(200, body));
  }

  void operator()(DeleteFunction& call) {
    if (!is_version_record(call.name)) {
      return service_.remove_function(call.name, answer_with_nothing());
    }
    const auto version = version_number(version_of(call.name));
    if (!version) {
      return send(fault_response(
          Error{ErrorCode::kInvalidArgument,
                "the qualifier must be the number of a version; DeleteAlias deletes an alias"}));
    }
    versions_.remove_version(function_of(call.name), *version, answer_with_nothing());
  }

  void operator()(PublishVersion& call) {
    FunctionSpec spec;
    if (!find(call.publication.function, call.revision_id, spec)) return;
    versions_.publish(std::move(call.publication), answer_with_configuration(201));
  }

  void operator()(ListVersions& call) {
    FunctionSpec spec;
    if (!find(call.name, "", spec)) return;
    json body = {{"Versions", json::array()}};
    std::vector<FunctionSpec> all;
    if (call.after.empty()) all.push_back(std::move(spec));
    const uint64_t after = version_number(call.after).value_or(0);
    if (auto versions = versions_.list_versions(call.name); versions.ok()) {
      for (FunctionSpec& version : *versions) {
        if (version_number(version_of(version.name)) > after) all.push_back(std::move(version));
      }
    }
    if (all.size() > call.limit) {
      all.resize(call.limit);
      const std::string last = version_of(all.back().name);
      body["NextMarker"] = last == kLatestVersion ? "0" : last;
    }
    for (const FunctionSpec& each : all) body["Versions"].push_back(to_json(each));
    send(json_response(200, body));
  }

  void operator()(CreateAlias& call) {
    FunctionSpec spec;
    if (!find(call.alias.function, "", spec)) return;
    versions_.create_alias(std::move(call.alias), answer_with_alias(201));
  }

  void operator()(UpdateAlias& call) {
    auto alias = versions_.find_alias(call.function, call.name);
    if (!alias.ok()) return send(fault_response(alias.error()));
    if (!call.revision_id.empty() && call.revision_id != revision_id_of(*alias)) {
      return send(response_of(stale_revision(revision_id_of(*alias))));
    }
    if (call.description) alias->description = *call.description;
    if (call.version) alias->version = *call.version;
    if (call.second) std::tie(alias->second, alias->second_share) = *call.second;
    versions_.update_alias(*std::move(alias), answer_with_alias(200));
  }

  void operator()(GetAlias& call) {
    const auto alias = versions_.find_alias(call.function, call.name);
    send(alias.ok() ? json_response(200, to_json(*alias)) : fault_response(alias.error()));
  }

  void operator()(DeleteAlias& call) {
    versions_.remove_alias(call.function, call.name, [send = sender()](Result<Alias> removed) {
      send(removed.ok() ? empty_response(204) : fault_response(removed.error()));
    });
  }

  void operator()(ListAliases& call) {
    const auto aliases = versions_.list_aliases(call.function);
    if (!aliases.ok()) return send(fault_response(aliases.error()));
    json body = {{"Aliases", json::array()}};
    for (const Alias& alias : *aliases) {
      const bool has =
          call.version.empty() || alias.version == call.version || alias.second == call.version;
      if (has) body["Aliases"].push_back(to_json(alias));
    }
    send(json_response(200, body));
  }

  // Our own setting, which is a tag, and so is what the next change of a tag keeps.
  void operator()(PutConcurrency& call) {
    FunctionSpec spec;
    if (!find(call.name, "", spec)) return;
    spec.tags[std::string(kConcurrencyTag)] = std::to_string(call.most);
    update(apply_patch(std::move(spec), {}), [send = sender(), most = call.most](auto changed) {
      send(changed.ok() ? json_response(200, {{"ReservedConcurrentExecutions", most}})
                        : fault_response(changed.error()));
    });
  }

  void operator()(GetConcurrency& call) {
    FunctionSpec spec;
    if (!find(call.name, "", spec)) return;
    json body = json::object();
    if (spec.tags.contains(std::string(kConcurrencyTag))) {
      body["ReservedConcurrentExecutions"] = spec.max_concurrency;
    }
    send(json_response(200, body));
  }

  void operator()(DeleteConcurrency& call) {
    FunctionSpec spec;
    if (!find(call.name, "", spec)) return;
    spec.tags.erase(std::string(kConcurrencyTag));
    update(apply_patch(std::move(spec), {}), answer_with_nothing());
  }

  void operator()(ProvisionedCall& call) {
    FunctionSpec spec;
    if (find(function_of(call.name), "", spec)) {
      answer_provisioned(versions_, call, sender());
    }
  }

  void operator()(PutUrlConfig& call) {
    FunctionSpec spec;
    if (!find(call.name, "", spec)) return;
    const bool is_there = spec.tags.contains(std::string(kUrlAuthTag));
    if (call.creates && is_there) {
      return send(fault_response(Error{ErrorCode::kAlreadyExists,
                                       "there is a URL configuration of this function already; "
                                       "UpdateFunctionUrlConfig changes it"}));
    }
    if (!call.creates && !is_there) return send(fault_response(no_url_config(call.name)));
    if (call.auth) spec.tags[std::string(kUrlAuthTag)] = name_of(*call.auth);
    if (call.invoke_mode) spec.tags[std::string(kUrlModeTag)] = name_of(*call.invoke_mode);
    if (call.cors && call.cors->empty()) spec.tags.erase(std::string(kUrlCorsTag));
    if (call.cors && !call.cors->empty()) spec.tags[std::string(kUrlCorsTag)] = *call.cors;
    update(apply_patch(std::move(spec), {}),
           [send = sender(), tenant_name = uses_.tenant_name, origin = call.origin,
            status = call.creates ? 201 : 200](Result<FunctionSpec> changed) {
             if (!changed.ok()) return send(fault_response(changed.error()));
             send(json_response(
                 status, url_config_of(*changed, origin, tenant_name(changed->name.tenant))));
           });
  }

  void operator()(GetUrlConfig& call) {
    FunctionSpec spec;
    if (!find(call.name, "", spec)) return;
    const bool is_there = spec.tags.contains(std::string(kUrlAuthTag));
    if (!is_there && !call.lists) return send(fault_response(no_url_config(call.name)));
    json config;
    if (is_there) {
      config = url_config_of(spec, call.origin, uses_.tenant_name(spec.name.tenant));
    }
    if (!call.lists) return send(json_response(200, config));
    json all = json::array();
    if (is_there) all.push_back(std::move(config));
    send(json_response(200, {{"FunctionUrlConfigs", std::move(all)}}));
  }

  void operator()(DeleteUrlConfig& call) {
    FunctionSpec spec;
    if (!find(call.name, "", spec)) return;
    if (spec.tags.erase(std::string(kUrlAuthTag)) == 0) {
      return send(fault_response(no_url_config(call.name)));
    }
    spec.tags.erase(std::string(kUrlModeTag));
    spec.tags.erase(std::string(kUrlCorsTag));
    update(apply_patch(std::move(spec), {}), answer_with_nothing());
  }

  void operator()(GetNone& call) {
    FunctionSpec spec;
    const bool is_there = call.name.name.empty() || find(call.name, "", spec);
    if (is_there) send(answer_of_none(call.feature, function_of(call.name).name));
  }

  void operator()(EventInvokeCall& call) {
    using enum EventInvokeCall::What;
    FunctionSpec spec;
    if (!find(call.name, "", spec)) return;
    if (call.what == kGet || call.what == kList) return send(read_event_invoke(call, spec));
    const auto changed =
        with_event_invoke_config(std::move(spec), call, [this](const FunctionName& name) {
          return is_version_record(name) ? versions_.find_qualified(name)
                                         : service_.find_function(name);
        });
    if (!changed.ok()) return send(fault_response(changed.error()));
    if (call.what == kDelete) return update(apply_patch(*changed, {}), answer_with_nothing());
    update(apply_patch(*changed, {}), [send = sender()](Result<FunctionSpec> done) {
      send(done.ok() ? json_response(200, event_invoke_config_of(*done))
                     : fault_response(done.error()));
    });
  }

  void operator()(ListFunctions& call) {
    auto specs = service_.list_functions(call.tenant, call.after, call.limit + 1);
    json body = {{"Functions", json::array()}};
    if (specs.size() > call.limit) {
      specs.resize(call.limit);
      body["NextMarker"] = specs.back().name.name;
    }
    for (const FunctionSpec& spec : specs) body["Functions"].push_back(to_json(spec));
    send(json_response(200, body));
  }

  void operator()(GetAccountSettings& call) {
    const FunctionTotals totals = service_.function_totals(call.tenant);
    const json limit = {{"CodeSizeZipped", limits::kZippedCode.count},
                        {"CodeSizeUnzipped", limits::kUnzippedCode.count},
                        {"TotalCodeSize", limits::kZippedCode.count * limits::kFunctions},
                        {"ConcurrentExecutions", limits::kQueuedInvocations},
                        {"UnreservedConcurrentExecutions", limits::kQueuedInvocations}};
    const json usage = {{"FunctionCount", totals.functions}, {"TotalCodeSize", totals.code.count}};
    send(json_response(200, {{"AccountLimit", limit}, {"AccountUsage", usage}}));
  }

  void operator()(Invoke& call) {
    if (call.type == Invoke::Type::kDryRun) {
      FunctionSpec spec;
      if (find(call.request.function, "", spec)) send(empty_response(204));
      return;
    }
    call.request.id = id_;
    InvocationRequest request = std::move(call.request);
    if (call.type == Invoke::Type::kEvent) {
      service_.submit(std::move(request), [send = sender()](Result<InvocationResult> accepted) {
        const bool rejected = accepted.ok() && accepted->outcome == Outcome::kRejected;
        if (accepted.ok() && !rejected) return send(accepted_response(accepted->id));
        send(invoke_response(std::move(accepted), Invoke()));
      });
      return;
    }
    if (call.streams) return invoke_with_stream(std::move(request), call.log_tail);
    // Asked for before the answer can be sent.
    answer_->on_disconnect([&service = service_, id = id_] { service.forget(id); });
    Invoke how;
    how.log_tail = call.log_tail;
    service_.submit(std::move(request),
                    [send = sender(), how = std::move(how)](Result<InvocationResult> outcome) {
                      send(invoke_response(std::move(outcome), how));
                    });
  }

 private:
  using Send = std::function<void(Response)>;

  static Response read_event_invoke(const EventInvokeCall& call, const FunctionSpec& spec) {
    const bool is_there = has_event_invoke_config(spec);
    if (call.what == EventInvokeCall::What::kList) {
      json all = json::array();
      if (is_there) all.push_back(event_invoke_config_of(spec));
      return json_response(200, {{"FunctionEventInvokeConfigs", std::move(all)}});
    }
    return is_there ? json_response(200, event_invoke_config_of(spec))
                    : fault_response(no_event_invoke_config(spec.name));
  }

  static Error no_url_config(const FunctionName& name) {
    return {ErrorCode::kNotFound, "there is no URL configuration of " + name.name};
  }

  // Only an open URL names the tenant: the others are for who has a token of it.
  static json url_config_of(const FunctionSpec& spec, const std::string& origin,
                            const std::string& tenant) {
    const bool open = spec.url.auth == UrlAuth::kNone;
    const std::string when = to_json(spec).at("LastModified");
    json config = {{"FunctionUrl", origin + (open ? "/t/" + tenant : std::string()) + "/f/" +
                                       spec.name.name + "/"},
                   {"FunctionArn", arn_of(spec.name.name)},
                   {"AuthType", open ? "NONE" : "AWS_IAM"},
                   {"InvokeMode",
                    spec.url.invoke_mode == InvokeMode::kStream ? "RESPONSE_STREAM" : "BUFFERED"},
                   {"CreationTime", when},
                   {"LastModifiedTime", when}};
    const auto cors = spec.url.cors.empty() ? Result<Cors>(Cors()) : parse_cors(spec.url.cors);
    if (!spec.url.cors.empty() && cors.ok()) config["Cors"] = to_json(*cors);
    return config;
  }

  void invoke_with_stream(InvocationRequest request, bool log_tail) {
    auto stream = std::make_shared<LambdaStream>(
        LambdaStream::Options{.id = id_, .log_tail = log_tail}, std::move(*answer_));
    stream->listen([&relays = uses_.relays, id = id_] { relays.forget(id); });
    uses_.relays.invoke({.request = std::move(request),
                         .sink = stream,
                         .done = [stream, id = id_](Result<InvocationResult> outcome) {
                           const bool ran = outcome.ok() && outcome->outcome != Outcome::kRejected;
                           if (ran || stream->has_begun()) {
                             InvocationResult lost;
                             lost.outcome = Outcome::kFunctionError;
                             return stream->finish(outcome.ok() ? *outcome : lost);
                           }
                           Response refusal = invoke_response(std::move(outcome), Invoke());
                           refusal.headers.set("x-amzn-RequestId", to_string(id));
                           stream->send(std::move(refusal));
                         }});
  }

  // What sends the answer, whenever that is; it keeps the responder alive until then.
  Send sender() const {
    return [answer = answer_, id = id_](Response response) {
      if (!response.headers.contains("x-amzn-RequestId")) {
        response.headers.add("x-amzn-RequestId", to_string(id));
      }
      answer->send(std::move(response));
    };
  }
  void send(Response response) const { sender()(std::move(response)); }

  InvocationService::Callback<FunctionSpec> answer_with_configuration(int status) const {
    return [&service = service_, &versions = versions_, send = sender(),
            status](Result<FunctionSpec> spec) {
      if (!spec.ok()) return send(fault_response(spec.error()));
      send(json_response(status,
                         to_json(*spec, service.deployment(spec->name), versions.warning(*spec))));
    };
  }
  InvocationService::Callback<FunctionSpec> answer_with_nothing() const {
    return [send = sender()](Result<FunctionSpec> spec) {
      send(spec.ok() ? empty_response(204) : fault_response(spec.error()));
    };
  }

  InvocationService::Callback<Alias> answer_with_alias(int status) const {
    return [send = sender(), status](Result<Alias> alias) {
      send(alias.ok() ? json_response(status, to_json(*alias)) : fault_response(alias.error()));
    };
  }

  // With the ARN by which it was asked for.
  json configuration_of(const FunctionSpec& spec, const FunctionName& asked) const {
    json configuration = to_json(spec, service_.deployment(spec.name), versions_.warning(spec));
    configuration["FunctionArn"] = arn_of(asked.name);
    return configuration;
  }

  // False if it answered already: there is no such function or version, or it is not at that
  // revision.
  bool find(const FunctionName& name, const std::string& revision_id, FunctionSpec& spec) const {
    Result<FunctionSpec> found =
        is_version_record(name) ? versions_.find_qualified(name) : service_.find_function(name);
    if (!found.ok()) {
      LambdaFault fault = fault_of(found.error());
      if (fault.status == 404) fault.message = not_found_words(name, found.error().message);
      send(response_of(fault));
      return false;
    }
    spec = std::move(*found);
    if (revision_id.empty() || revision_id == revision_id_of(spec)) return true;
    send(response_of(stale_revision(revision_id_of(spec))));
    return false;
  }

  void update(Result<FunctionSpec> spec, InvocationService::Callback<FunctionSpec> done) {
    if (!spec.ok()) return send(fault_response(spec.error()));
    with_layers(std::move(*spec), [&service = service_, send = sender(),
                                   done = std::move(done)](Result<FunctionSpec> composed) {
      if (!composed.ok()) return send(fault_response(composed.error()));
      FunctionChange change;
      change.spec = std::move(*composed);
      service.update_function(std::move(change), done);
    });
  }

  // Gives the function the mounts of the layers that its tag names, at once if there are none.
  void with_layers(FunctionSpec spec, std::function<void(Result<FunctionSpec>)> then) {
    // Its mounts were read from its tags, which name layers by one of their own.
    if (std::ranges::any_of(spec.mounts, is_of_layers)) {
      return then(Error{ErrorCode::kInvalidArgument,
                        "a mount names no layers; the tag " + std::string(kLayersTag) + " does"});
    }
    const auto tag = spec.tags.find(std::string(kLayersTag));
    const auto layers =
        tag == spec.tags.end() ? Result<Layers>(Layers()) : parse_layers(tag->second);
    if (!layers.ok()) return then(layers.error());
    if (layers->empty()) return then(std::move(spec));
    if (uses_.layers == nullptr) {
      return then(Error{ErrorCode::kUnimplemented, "this worker keeps no layers"});
    }
    const TenantId tenant = spec.name.tenant;
    auto kept = std::make_shared<FunctionSpec>(std::move(spec));
    uses_.layers->compose_layers(
        tenant, *layers,
        [kept, &service = service_, then = std::move(then)](Result<Mounts> mounts) {
          // It keeps a version that was deleted since.
          if (!mounts.ok()) {
            mounts = layers_that_it_has(service.find_function(kept->name), *kept, mounts.error());
          }
          if (!mounts.ok()) return then(mounts.error());
          kept->mounts.insert(kept->mounts.end(), mounts->begin(), mounts->end());
          const auto valid = validate(kept->mounts);
          if (!valid.ok()) return then(valid.error());
          then(std::move(*kept));
        });
  }

  InvocationService& service_;
  VersionService& versions_;
  const LambdaFrontend::Dependencies& uses_;
  const InvocationId id_;
  const bool answers_early_;
  const Answer answer_;
};

}  // namespace

void LambdaFrontend::handle(const Caller& caller, http::Request request,
                            http::Responder responder) {
  // RFC 7240; others wait a while for what takes long.
  const bool answers_early = request.headers.get("Prefer") == "respond-async";
  LambdaCall call = decode_lambda_call(std::move(request), caller);
  Performance performance(uses_, new_invocation_id(uses_.random), answers_early,
                          std::move(responder));
  std::visit(performance, call);
}

}  // namespace lambent::frontend
