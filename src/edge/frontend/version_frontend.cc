#include "edge/frontend/version_frontend.h"

#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/base/parse_number.h"
#include "core/domain/function_record.h"
#include "core/domain/image_function.h"
#include "core/domain/limits.h"
#include "core/domain/model_function.h"
#include "core/http/multipart.h"
#include "edge/frontend/function_changes.h"
#include "edge/frontend/function_json.h"
#include "edge/frontend/json_response.h"
#include "edge/frontend/json_text.h"
#include "edge/frontend/native_error.h"
#include "edge/frontend/native_path.h"

namespace lambent::frontend {
namespace {

using nlohmann::json;

// Enough for an environment that exists.
constexpr Duration kAnswerAtOnce = milliseconds(100);

Error invalid(const std::string& what) { return {ErrorCode::kInvalidArgument, what}; }

json json_of(const Alias& alias) {
  json shown = {{"name", alias.name},
                {"version", alias.version},
                {"description", alias.description},
                {"revision", alias.revision}};
  if (!alias.second.empty()) {
    shown["second"] = alias.second;
    shown["second_share"] = alias.second_share;
  }
  return shown;
}

json json_of(const FunctionSpec& version) {
  return {
      {"version", version_of(version.name)},   {"description", version.description},
      {"revision", version.revision},          {"code_sha256", version.code_sha256},
      {"code_bytes", version.code_size.count}, {"published_at", to_seconds(version.last_modified)}};
}

json json_of(const Revision& revision) {
  return {{"revision", revision.spec.revision},
          {"current", revision.is_current},
          {"code_sha256", revision.spec.code_sha256},
          {"code_bytes", revision.spec.code_size.count},
          {"deployed_at", to_seconds(revision.spec.last_modified)}};
}

json json_of(const CodeParts& code) {
  json parts = json::array();
  for (const CodePart& part : code.parts) {
    parts.push_back({{"sha256", part.sha256}, {"bytes", part.size.count}});
  }
  return {{"code_sha256", code.code_sha256}, {"parts", std::move(parts)}};
}

// Shared because a callback must be copyable and a responder is not.
using Answer = std::shared_ptr<http::Responder>;

template <typename Value>
std::function<void(Result<Value>)> answer_with(const Answer& answer, int status = 200) {
  return [answer, status](Result<Value> value) {
    answer->send(value.ok() ? json_response(status, json_of(*value))
                            : error_response(value.error()));
  };
}

template <typename Value>
http::Response list_response(const char* key, const Result<std::vector<Value>>& values) {
  if (!values.ok()) return error_response(values.error());
  json list = json::array();
  for (const Value& value : *values) list.push_back(json_of(value));
  return json_response(200, {{key, std::move(list)}});
}

bool is_set(std::string_view query, std::string_view name) {
  const std::string value = http::query_value(query, name);
  return value == "1" || value == "true";
}

// "revision=7" of the query; INVALID_ARGUMENT if it is no number.
Result<std::optional<uint64_t>> revision_in(std::string_view query) {
  const std::string text = http::query_value(query, "revision");
  if (text.empty()) return std::optional<uint64_t>();
  const auto number = parse_number<uint64_t>(text);
  if (!number) return invalid("revision must be a number");
  return number;
}

struct DeployRequest {
  FunctionChange change;
  bool has_code = false;
};

// The part is left in the body, without a copy.
std::string take_part(std::string_view part, http::Request& request) {
  const auto begin = static_cast<size_t>(part.data() - request.body.data());
  request.body.resize(begin + part.size());
  request.body.erase(0, begin);
  return std::move(request.body);
}

// The query of a delta says what it begins with, and what it makes.
Result<void> read_delta_query(const std::string& query, FunctionChange& change) {
  change.delta_base = http::query_value(query, "base_sha256");
  change.spec.code_sha256 = http::query_value(query, "code_sha256");
  if (!change.delta_base.empty() && !change.spec.code_sha256.empty()) return {};
  return invalid(
      "a part 'delta' needs the digests of the code that it changes and of what it makes: the "
      "query "
      "takes base_sha256 and code_sha256");
}

// The parts `settings` and `code` or `delta` of the body.
Result<DeployRequest> read_deploy(const FunctionName& name, http::Request& request) {
  ASSIGN_OR_RETURN(const std::vector<http::Part> parts,
                   http::parse_multipart(request.headers.get("Content-Type"), request.body));
  DeployRequest deploy;
  std::string_view code;
  bool has_settings = false;
  bool is_delta = false;
  for (const http::Part& part : parts) {
    if (part.name == "settings") {
      has_settings = true;
      ASSIGN_OR_RETURN(json settings, parse_json(part.content));
      if (!settings.is_object()) return invalid("settings must be a JSON object");
      settings["FunctionName"] = name.name;
      ASSIGN_OR_RETURN(deploy.change.spec, read_new_function(settings, name.tenant));
    } else if (part.name == "code" || part.name == "delta") {
      if (deploy.has_code) return invalid("a deployment has one part 'code' or 'delta'");
      deploy.has_code = true;
      is_delta = part.name == "delta";
      code = part.content;
    } else {
      return invalid("there is no part '" + part.name +
                     "' of a deployment: these are settings, and code or delta");
    }
  }
  if (!has_settings) return invalid("the part 'settings' is missing");
  if (!deploy.has_code) return deploy;
  const char* part = is_delta ? "delta" : "code";
  if (code.empty()) return invalid("the part '" + std::string(part) + "' is empty");
  if (Bytes(code.size()) > limits::kZippedCode) {
    return Error{ErrorCode::kOutOfRange, "the " + std::string(is_delta ? "delta" : "zip") +
                                             " has " + to_string(Bytes(code.size())) +
                                             "; at most " + to_string(limits::kZippedCode) +
                                             " fit"};
  }
  if (is_delta) {
    const std::string query(http::query_of(request.target));
    RETURN_IF_ERROR(read_delta_query(query, deploy.change));
    deploy.change.delta = take_part(code, request);
  } else {
    deploy.change.zip = take_part(code, request);
  }
  return deploy;
}

json outcome_of(const std::optional<FunctionSpec>& before, const FunctionSpec& after,
                bool dry_run) {
  const bool is_same = before && before->revision == after.revision && !dry_run;
  const json changes = before ? changes_of(*before, after) : json::array();
  std::string action = !before ? "created" : "updated";
  if (is_same || (before && changes.empty())) action = "unchanged";
  json outcome = {{"action", action}, {"dry_run", dry_run}, {"changes", changes}};
  if (before && shown_kind(*before) != shown_kind(after)) {
    outcome["kind_change"] = {{"from", shown_kind(*before)}, {"to", shown_kind(after)}};
  }
  return outcome;
}

class Call {
 public:
  Call(InvocationService& service, VersionService& versions, const Caller& caller,
       http::Request& request, http::Responder responder)
      : service_(service),
        versions_(versions),
        caller_(caller),
        request_(request),
        query_(http::query_of(request.target)),
        answer_(std::make_shared<http::Responder>(std::move(responder))) {}

  void handle() {
    const std::string path(http::path_of(request_.target));
    const auto parts = path_parts(path);
    if (!parts || parts->size() < 3 || parts->size() > 5) return answer_->send(no_such_path(path));
    function_ = {caller_.tenant, parts->at(2)};
    if (parts->size() == 3) return deploy();
    const std::string& what = parts->at(3);
    const std::string which = parts->size() == 5 ? parts->at(4) : "";
    if (what == "versions") return which.empty() ? versions() : remove_version(which);
    if (what == "aliases") return which.empty() ? aliases() : alias(which);
    if (what == "revisions" && which.empty()) return revisions();
    if (what == "rollback" && which.empty()) return roll_back();
    if (what == "code" && which == "parts") return code_parts();
    answer_->send(no_such_path(path));
  }

 private:
  bool is(const char* method) const { return request_.method == method; }
  void refuse(const Error& error) { answer_->send(error_response(error)); }
  void allow(const char* methods) { answer_->send(method_not_allowed(request_.method, methods)); }

  void deploy() {
    if (!is("PUT")) return allow("PUT");
    const auto revision = revision_in(query_);
    if (!revision.ok()) return refuse(revision.error());
    auto deploy = read_deploy(function_, request_);
    if (!deploy.ok()) return refuse(deploy.error());
    FunctionChange& change = deploy->change;
    change.dry_run = is_set(query_, "dry_run");
    change.only_if_different = !change.dry_run;
    change.publish = is_set(query_, "publish") && !change.dry_run;
    if (request_.headers.get("Prefer") == "respond-async") change.answer_within = kAnswerAtOnce;
    const auto current = service_.find_function(function_);
    const auto pending = service_.deployment(function_);
    // What is being created is refused as such by the service.
    const bool exists = current.ok() && !(pending && pending->creates && pending->failure);
    if (revision.value() && (!exists || **revision != current->revision)) {
      return refuse(Error{ErrorCode::kFailedPrecondition,
                          exists ? "function '" + function_.name + "' is at revision " +
                                       std::to_string(current->revision) + ", not at " +
                                       std::to_string(**revision)
                                 : "there is no function '" + function_.name + "' yet"});
    }
    std::optional<FunctionSpec> before;
    if (exists && !(pending && pending->creates)) before = *current;
    auto done = [service = &service_, versions = &versions_, answer = answer_, before,
                 dry_run = change.dry_run](Result<FunctionSpec> spec) {
      if (!spec.ok()) return answer->send(error_response(spec.error()));
      json body = outcome_of(before, *spec, dry_run);
      const auto deployment = dry_run ? std::nullopt : service->deployment(function_of(spec->name));
      body["configuration"] = to_json(*spec, deployment, versions->warning(*spec));
      body["revision"] = spec->revision;
      answer->send(json_response(before ? 200 : 201, body));
    };
    if (!deploy->has_code && !runs_image(change.spec)) {
      const auto kept = kept_code();
      if (!kept.ok()) return refuse(kept.error());
      change.spec.code_sha256 = kept->code_sha256;
      change.spec.code_size = kept->code_size;
    }
    if (!exists) return service_.create_function(std::move(change), std::move(done));
    change.spec.revision = current->revision;
    service_.update_function(std::move(change), std::move(done));
  }

  // The revision that has the code which the request names by its digest; the present one if it
  // names none.
  Result<FunctionSpec> kept_code() const {
    const std::string sha256 = http::query_value(query_, "code_sha256");
    const auto revisions = versions_.list_revisions(function_);
    if (revisions.ok()) {
      for (const Revision& revision : *revisions) {
        const bool is_it =
            sha256.empty() ? revision.is_current : revision.spec.code_sha256 == sha256;
        if (is_it) return revision.spec;
      }
    }
    // `lambent deploy` knows these words.
    return Error{ErrorCode::kFailedPrecondition,
                 "the worker does not have this code; send it as the part 'code'"};
  }

  void versions() {
    if (is("GET")) {
      return answer_->send(list_response("versions", versions_.list_versions(function_)));
    }
    if (!is("POST")) return allow("GET, POST");
    Publication publication{.function = function_};
    if (!request_.body.empty()) {
      const auto body = parse_json(request_.body);
      if (!body.ok() || !body->is_object()) return refuse(invalid("the body must be an object"));
      if (body->contains("description")) {
        auto description = read_string(*body, "description");
        if (!description.ok()) return refuse(description.error());
        if (description->size() > limits::kDescriptionLength) {
          return refuse(invalid("description has at most 256 bytes"));
        }
        publication.description = *std::move(description);
      }
      const auto version = body->find("version");
      if (version != body->end()) {
        if (!version->is_number_unsigned() || *version == 0 || *version > kMostVersionNumber) {
          return refuse(invalid("version must be a whole number of 1 to " +
                                std::to_string(kMostVersionNumber)));
        }
        publication.number = version->get<uint64_t>();
      }
    }
    versions_.publish(std::move(publication), answer_with<FunctionSpec>(answer_, 201));
  }

  void remove_version(const std::string& which) {
    if (!is("DELETE")) return allow("DELETE");
    const auto number = version_number(which);
    if (!number) return refuse(invalid("'" + which + "' is no version's number"));
    versions_.remove_version(function_, *number, answer_with<FunctionSpec>(answer_));
  }

  void aliases() {
    if (!is("GET")) return allow("GET");
    answer_->send(list_response("aliases", versions_.list_aliases(function_)));
  }

  void alias(const std::string& name) {
    if (is("DELETE")) {
      return versions_.remove_alias(function_, name, answer_with<Alias>(answer_));
    }
    if (!is("PUT")) return allow("PUT, DELETE");
    auto read = read_alias(name);
    if (!read.ok()) return refuse(read.error());
    const auto now = versions_.find_alias(function_, name);
    if (!now.ok()) {
      return versions_.create_alias(*std::move(read), answer_with<Alias>(answer_, 201));
    }
    read->revision = now->revision;
    versions_.update_alias(*std::move(read), answer_with<Alias>(answer_));
  }

  // {"version": "3", "second": "4", "second_share": 0.1, "description": "..."}
  Result<Alias> read_alias(const std::string& name) const {
    ASSIGN_OR_RETURN(const json body, parse_json(request_.body));
    if (!body.is_object()) return invalid("the body must be an object");
    Alias alias{
        .function = function_, .name = name, .description = "", .version = "", .second = ""};
    ASSIGN_OR_RETURN(alias.version, read_string(body, "version"));
    ASSIGN_OR_RETURN(alias.second, read_string(body, "second"));
    ASSIGN_OR_RETURN(alias.description, read_string(body, "description"));
    const auto share = body.find("second_share");
    if (share != body.end() && !share->is_null()) {
      if (!share->is_number()) return invalid("second_share must be a number");
      alias.second_share = share->get<double>();
    }
    return alias;
  }

  void revisions() {
    if (!is("GET")) return allow("GET");
    versions_.read_revisions(function_, [answer = answer_](const auto& revisions) {
      answer->send(list_response("revisions", revisions));
    });
  }

  void code_parts() {
    if (!is("GET")) return allow("GET");
    versions_.code_parts(function_, answer_with<CodeParts>(answer_));
  }

  void roll_back() {
    if (!is("POST")) return allow("POST");
    const auto revision = revision_in(query_);
    if (!revision.ok()) return refuse(revision.error());
    const auto current = service_.find_function(function_);
    if (!current.ok()) return refuse(current.error());
    versions_.roll_back(function_, *revision,
                        [answer = answer_, before = *current](Result<FunctionSpec> spec) {
                          if (!spec.ok()) return answer->send(error_response(spec.error()));
                          json body = outcome_of(before, *spec, false);
                          body["revision"] = spec->revision;
                          answer->send(json_response(200, body));
                        });
  }

  InvocationService& service_;
  VersionService& versions_;
  const Caller& caller_;
  http::Request& request_;
  const std::string query_;
  const Answer answer_;
  FunctionName function_;
};

}  // namespace

bool is_version_path(std::string_view method, std::string_view path) {
  const auto parts = path_parts(path);
  if (!parts || parts->size() < 3 || parts->at(0) != "v1" || parts->at(1) != "functions") {
    return false;
  }
  if (parts->size() == 3) return method == "PUT";
  const std::string& what = parts->at(3);
  return what == "versions" || what == "aliases" || what == "revisions" || what == "rollback" ||
         what == "code";
}

void VersionFrontend::handle(const Caller& caller, http::Request request,
                             http::Responder responder) {
  Call(service_, versions_, caller, request, std::move(responder)).handle();
}

}  // namespace lambent::frontend
