// What the frontend's tests share: a service that keeps functions in a map and lets the test say
// how invocations end, and a client's side of an exchange. Included by tests only; one thread.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "core/base/base64.h"
#include "core/base/spelling.h"
#include "core/domain/invocation_service.h"
#include "core/domain/version_service.h"
#include "core/http/exchange.h"
#include "core/http/relay_service.h"

namespace lambent::frontend {

class FakeService final : public InvocationService {
 public:
  // How the next submissions end; a synchronous one answers with its own payload by default.
  std::function<Result<InvocationResult>(const InvocationRequest&)> behaviour =
      [](const InvocationRequest& request) {
        InvocationResult result;
        result.id = request.id;
        result.payload = request.payload;
        result.version = version_of(request.function);
        return result;
      };
  bool hold = false;  // keep callbacks in `held`
  std::vector<std::function<void()>> held;
  std::vector<InvocationRequest> submitted;
  std::vector<InvocationId> forgotten;
  std::vector<FunctionName> unloaded;
  std::vector<FunctionChange> changes;
  std::map<FunctionName, FunctionSpec> functions;
  std::map<InvocationId, std::optional<InvocationResult>> results;
  std::map<std::string, std::string> logs;
  std::map<std::string, std::vector<LogMark>> log_marks;
  std::vector<SandboxStatus> sandboxes;
  mutable size_t memory_readings = 0;  // of all of them
  std::optional<Error> failure;        // of everything that changes a function

  void submit(InvocationRequest request, Callback<InvocationResult> done) override {
    submitted.push_back(request);
    if (!functions.contains(request.function)) return done(no_such_function(request.function));
    auto answer = [this, request, done = std::move(done)] { done(behaviour(request)); };
    if (hold) return held.push_back(std::move(answer));
    answer();
  }
  void forget(InvocationId id) override { forgotten.push_back(id); }
  void async_result(TenantId, InvocationId id,
                    Callback<std::optional<InvocationResult>> done) override {
    const auto found = results.find(id);
    if (found == results.end()) return done(Error{ErrorCode::kNotFound, "no such invocation"});
    done(found->second);
  }

  void create_function(FunctionChange change, Callback<FunctionSpec> done) override {
    changes.push_back(change);
    if (failure.has_value()) return done(*failure);
    if (functions.contains(change.spec.name)) {
      return done(Error{ErrorCode::kAlreadyExists, "Function already exists"});
    }
    if (!base64_decode(change.zip_base64)) return done(no_base64());
    change.spec.id = FunctionId(static_cast<uint32_t>(functions.size() + 1));
    keep(change);
    done(functions[change.spec.name]);
  }
  void update_function(FunctionChange change, Callback<FunctionSpec> done) override {
    changes.push_back(change);
    if (failure.has_value()) return done(*failure);
    if (!base64_decode(change.zip_base64)) return done(no_base64());
    ++change.spec.revision;
    if (change.dry_run) return done(change.spec);
    keep(change);
    done(functions[change.spec.name]);
  }
  void remove_function(FunctionName name, Callback<FunctionSpec> done) override {
    const auto found = functions.find(name);
    if (found == functions.end()) return done(no_such_function(name));
    const FunctionSpec spec = found->second;
    functions.erase(found);
    done(spec);
  }

  Result<FunctionSpec> find_function(const FunctionName& name) const override {
    const auto found = functions.find(name);
    if (found == functions.end()) return no_such_function(name);
    return found->second;
  }
  std::vector<FunctionSpec> list_functions(TenantId tenant, const std::string& after,
                                           size_t limit) const override {
    std::vector<FunctionSpec> specs;
    for (auto next = functions.upper_bound({tenant, after});
         next != functions.end() && next->first.tenant == tenant && specs.size() < limit; ++next) {
      specs.push_back(next->second);
    }
    return specs;
  }
  FunctionTotals function_totals(TenantId tenant) const override {
    FunctionTotals totals;
    for (const FunctionSpec& spec : list_functions(tenant, "", 1000)) {
      ++totals.functions;
      totals.code += spec.code_size;
    }
    return totals;
  }
  std::vector<FunctionStatus> function_status(TenantId tenant, const std::string& after,
                                              size_t limit) const override {
    std::vector<FunctionStatus> statuses;
    for (const FunctionSpec& spec : list_functions(tenant, after, limit)) {
      statuses.push_back({spec, 1, 2, 3, 4});
    }
    return statuses;
  }
  std::vector<SandboxStatus> sandbox_status(TenantId, Metering metering) const override {
    if (metering == Metering::kMemory) ++memory_readings;
    return sandboxes;
  }
  Result<LogChunk> read_log(const FunctionName& name, uint64_t offset, size_t most) const override {
    const auto found = logs.find(name.name);
    if (found == logs.end()) return no_such_function(name);
    const std::string& text = found->second;
    LogChunk chunk;
    const size_t from = offset > text.size() ? 0 : offset;
    chunk.text = text.substr(from, most);
    chunk.next_offset = from + chunk.text.size();
    chunk.end = text.size();
    if (const auto marks = log_marks.find(name.name); marks != log_marks.end()) {
      chunk.marks = marks->second;
    }
    return chunk;
  }

  Result<void> unload(const FunctionName& name) override {
    if (!functions.contains(name)) return no_such_function(name);
    if (failure.has_value()) return *failure;
    if (functions.at(name).min_instances > 0) {
      return Error{ErrorCode::kFailedPrecondition, "one of it is kept ready"};
    }
    unloaded.push_back(name);
    return {};
  }

 private:
  Error no_such_function(const FunctionName& name) const {
    std::vector<std::string> known;
    for (const auto& [each, spec] : functions) known.push_back(each.name);
    return Error{ErrorCode::kNotFound,
                 "function '" + name.name + "' does not exist" + did_you_mean(name.name, known)};
  }
  static Error no_base64() {
    return Error{ErrorCode::kInvalidArgument, "ZipFile is no valid base64"};
  }
  void keep(FunctionChange& change) {
    const auto zip = base64_decode(change.zip_base64);
    if (!zip->empty()) change.spec.code_size = Bytes(zip->size());
    if (!change.zip.empty()) change.spec.code_size = Bytes(change.zip.size());
    functions[change.spec.name] = change.spec;
  }
};

// Versions of the functions of a FakeService, in its map.
class FakeVersions final : public VersionService {
 public:
  explicit FakeVersions(FakeService& service) : service_(service) {}

  std::map<std::pair<FunctionName, std::string>, Alias> aliases;
  std::map<FunctionName, uint64_t> last;
  std::vector<Publication> publications;
  std::vector<std::optional<uint64_t>> rollbacks;
  std::vector<Revision> revisions;
  std::optional<CodeParts> parts;

  Result<FunctionSpec> find_qualified(const FunctionName& name) const override {
    const auto alias = aliases.find({function_of(name), version_of(name)});
    if (alias == aliases.end()) return service_.find_function(name);
    const std::string& version = alias->second.version;
    if (version == kLatestVersion) return service_.find_function(function_of(name));
    return service_.find_function({name.tenant, function_of(name).name + ":" + version});
  }
  void publish(Publication publication, Callback<FunctionSpec> done) override {
    publications.push_back(publication);
    auto spec = service_.find_function(publication.function);
    if (!spec.ok()) return done(spec.error());
    spec->name = version_record(publication.function, ++last[publication.function]);
    spec->description = publication.description.value_or(spec->description);
    service_.functions[spec->name] = *spec;
    done(spec);
  }
  Result<std::vector<FunctionSpec>> list_versions(const FunctionName& function) const override {
    std::vector<FunctionSpec> versions;
    for (const auto& [name, spec] : service_.functions) {
      if (is_version_record(name) && function_of(name) == function) versions.push_back(spec);
    }
    return versions;
  }
  void remove_version(const FunctionName& function, uint64_t version,
                      Callback<FunctionSpec> done) override {
    service_.remove_function(version_record(function, version), std::move(done));
  }
  void create_alias(Alias alias, Callback<Alias> done) override {
    if (const auto valid = validate(alias); !valid.ok()) return done(valid.error());
    if (aliases.contains({alias.function, alias.name})) {
      return done(Error{ErrorCode::kAlreadyExists, "there is such an alias"});
    }
    put(std::move(alias), std::move(done));
  }
  void update_alias(Alias alias, Callback<Alias> done) override {
    if (const auto valid = validate(alias); !valid.ok()) return done(valid.error());
    ++alias.revision;
    put(std::move(alias), std::move(done));
  }
  void remove_alias(const FunctionName& function, const std::string& alias,
                    Callback<Alias> done) override {
    const auto found = find_alias(function, alias);
    aliases.erase({function, alias});
    done(found);
  }
  Result<Alias> find_alias(const FunctionName& function, const std::string& alias) const override {
    const auto found = aliases.find({function, alias});
    if (found != aliases.end()) return found->second;
    return Error{ErrorCode::kNotFound, "there is no alias '" + alias + "'"};
  }
  Result<std::vector<Alias>> list_aliases(const FunctionName& function) const override {
    std::vector<Alias> list;
    for (const auto& [key, alias] : aliases) {
      if (key.first == function) list.push_back(alias);
    }
    return list;
  }
  void provision(const FunctionName& qualified, unsigned instances, Callback<void> done) override {
    const auto alias = aliases.find({function_of(qualified), version_of(qualified)});
    const auto record = service_.functions.find(qualified);
    if (alias != aliases.end()) {
      alias->second.provisioned = instances;
    } else if (record != service_.functions.end()) {
      record->second.min_instances = instances;
    } else {
      return done(Error{ErrorCode::kNotFound, "there is no " + qualified.name});
    }
    done({});
  }
  InstanceReport instances(const FunctionName& record) const override {
    const auto found = ready.find(record);
    return found == ready.end() ? InstanceReport() : found->second;
  }
  std::map<FunctionName, InstanceReport> ready;
  void code_parts(const FunctionName&, Callback<CodeParts> done) override {
    parts ? done(*parts) : done(Error{ErrorCode::kNotFound, "no package"});
  }
  Result<std::vector<Revision>> list_revisions(const FunctionName&) const override {
    return revisions;
  }
  void read_revisions(const FunctionName&, Callback<std::vector<Revision>> done) const override {
    done(revisions);
  }
  void roll_back(const FunctionName& function, std::optional<uint64_t> revision,
                 Callback<FunctionSpec> done) override {
    rollbacks.push_back(revision);
    auto spec = service_.find_function(function);
    if (!spec.ok()) return done(spec.error());
    ++spec->revision;
    spec->memory = Bytes::mib(999);
    done(spec);
  }

 private:
  void put(Alias alias, Callback<Alias> done) {
    aliases[{alias.function, alias.name}] = alias;
    done(alias);
  }

  FakeService& service_;
};

class FakeRelays final : public http::RelayService {
 public:
  void relay(http::RelayCall call) override { calls.push_back(std::move(call)); }
  void invoke(http::HandlerCall call) override { invoked.push_back(std::move(call)); }
  void forget(InvocationId id) override { forgotten.push_back(id); }
  bool is_open(const FunctionName& name) const override { return open.contains(name); }
  void describe(const FunctionSpec&, std::function<void(Result<ModelDescription>)> done) override {
    done(description);
  }
  std::string cors_of(const FunctionName& name) const override {
    const auto found = cors.find(name);
    return found == cors.end() ? std::string() : found->second;
  }
  std::vector<http::RelayCall> calls;
  std::vector<http::HandlerCall> invoked;
  std::vector<InvocationId> forgotten;
  std::set<FunctionName> open;
  Result<ModelDescription> description = ModelDescription();  // of every kernel function
  std::map<FunctionName, std::string> cors;
};

// What a client saw.
struct Exchanged {
  std::optional<http::Response> response;
  std::string chunks;
  bool finished = false;
  bool abandoned = false;
  bool takes_chunks = true;
  std::function<void()> disconnect = [] {};
};

class FakeExchange final : public http::Responder::Exchange {
 public:
  explicit FakeExchange(std::shared_ptr<Exchanged> seen) : seen_(std::move(seen)) {}
  void send(http::Response response) override { seen_->response = std::move(response); }
  void start_chunked(http::Response head) override { seen_->response = std::move(head); }
  bool send_chunk(std::string_view data) override {
    seen_->chunks += data;
    return seen_->takes_chunks;
  }
  void finish_chunked() override { seen_->finished = true; }
  void on_disconnect(std::function<void()> callback) override {
    seen_->disconnect = std::move(callback);
  }
  void abandon() override { seen_->abandoned = true; }

 private:
  // Shared with the test, which looks on.
  std::shared_ptr<Exchanged> seen_;
};

inline http::Responder responder_to(const std::shared_ptr<Exchanged>& seen) {
  return http::Responder(std::make_shared<FakeExchange>(seen));
}

// Names the host localhost unless `headers` name another.
inline http::Request request_of(
    std::string method, std::string target, std::string body = "",
    const std::vector<std::pair<std::string, std::string>>& headers = {}) {
  http::Request request{std::move(method), std::move(target), {}, std::move(body)};
  for (const auto& [name, value] : headers) request.headers.add(name, value);
  if (!request.headers.contains("host")) request.headers.add("Host", "localhost:8980");
  return request;
}

}  // namespace lambent::frontend
