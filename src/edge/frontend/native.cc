#include "edge/frontend/native.h"

#include <memory>
#include <nlohmann/json.hpp>

#include "core/base/json_text.h"
#include "core/domain/model_function.h"
#include "edge/frontend/activity_merge.h"
#include "edge/frontend/json_text.h"
#include "edge/frontend/metrics_formats.h"
#include "edge/frontend/metrics_of_tenant.h"
#include "edge/frontend/native_error.h"
#include "edge/frontend/native_json.h"
#include "edge/frontend/outcome_headers.h"
#include "edge/frontend/submission.h"

namespace lambent::frontend {
namespace {

using http::Response;

Response text_response(int status, std::string type, std::string body) {
  Response response;
  response.status = status;
  response.headers.add("Content-Type", std::move(type));
  response.body = std::move(body);
  return response;
}

Response json_response(int status, std::string body) {
  return text_response(status, "application/json", std::move(body));
}

Response result_response(Result<std::optional<InvocationResult>> found) {
  if (!found.ok()) return error_response(found.error());
  if (!found->has_value())
    return json_response(202, json_text(nlohmann::json{{"state", "pending"}}));
  InvocationResult& result = **found;
  Response response = json_response(200, std::move(result.payload));
  add_outcome(response.headers, result);
  if (result.outcome == Outcome::kRejected) {
    response.body = error_body(result.error.value_or(Error{ErrorCode::kInternal, "rejected"}));
  }
  return response;
}

Response log_response(const LogReader::Answer& read, const LogForm& form) {
  Response response =
      text_response(200, std::string(content_type_of(form)), LogView(form).show(read, false));
  response.headers.add("x-lambent-next-offset", read.next_offset);
  if (!read.silent.empty()) {
    response.headers.add(std::string(kSilentNodes), names_in_a_row(read.silent));
  }
  return response;
}

// Answers one decoded call; a function object over the kinds of call.
class Answering {
 public:
  Answering(InvocationService& service, const NativeOptions& options, const Caller& caller,
            LogReader& logs, LogFollowers& followers, http::Responder& responder)
      : service_(service),
        options_(options),
        caller_(caller),
        logs_(logs),
        followers_(followers),
        responder_(responder) {}

  void operator()(Response& response) { responder_.send(std::move(response)); }

  void operator()(ListFunctionStatus& call) {
    auto page = service_.function_status(call.tenant, call.after, call.limit + 1);
    std::string next;
    if (page.size() > call.limit) {
      page.resize(call.limit);
      next = page.back().spec.name.name;
    }
    const std::string target = "/v1/functions?limit=" + std::to_string(call.limit) +
                               "&after=" + http::percent_encode(call.after);
    answer_for_all(call, target, function_list(page, next), merge_function_status);
  }

  void operator()(ListSandboxStatus& call) {
    const std::string limit = call.limit == SIZE_MAX ? "" : "?limit=" + std::to_string(call.limit);
    auto sandboxes = service_.sandbox_status(call.tenant, Metering::kMemory);
    answer_for_all(call, "/v1/sandboxes" + limit, sandbox_list(std::move(sandboxes), call.limit),
                   [limit = call.limit, self = options_.other_nodes.self()](
                       nlohmann::json own, std::vector<NodeAnswer> all) {
                     all.insert(all.begin(), {self, std::move(own)});
                     return merge_sandboxes(all, limit);
                   });
  }

  void operator()(ReadLog& call) {
    const LogReader::Question question{.function = call.function,
                                       .from = std::move(call.from),
                                       .at_end = call.at_end,
                                       .only_here = call.only_here,
                                       .merge = {},
                                       .goes_on = false};
    if (call.follow) return follow(call, question);
    // Shared because a callback must be copyable.
    auto answer = std::make_shared<http::Responder>(std::move(responder_));
    logs_.read(question, [answer, form = call.form](const Result<LogReader::Answer>& read) {
      answer->send(read.ok() ? log_response(*read, form) : log_error(read.error()));
    });
  }

  void operator()(ReadResult& call) {
    // Shared because a callback must be copyable and a responder is not.
    auto answer = std::make_shared<http::Responder>(std::move(responder_));
    // One that a client waits for has no stored result, but may be explained all the same.
    Result<std::string> explained = Error{ErrorCode::kNotFound, ""};
    if (options_.explain) explained = options_.explain(call.tenant, call.invocation);
    service_.async_result(call.tenant, call.invocation,
                          [answer, explained](Result<std::optional<InvocationResult>> found) {
                            const bool has_outcome = found.ok() && found->has_value();
                            if (!has_outcome && explained.ok())
                              return answer->send(json_response(202, *explained));
                            answer->send(result_response(std::move(found)));
                          });
  }

  void operator()(ReadTrace& call) {
    if (!options_.trace) {
      return responder_.send(error_response(
          Error{ErrorCode::kUnimplemented, "there are no workflows and pipelines here"}));
    }
    auto trace = options_.trace(call.tenant, call.invocation);
    if (!trace.ok()) return responder_.send(error_response(trace.error()));
    responder_.send(json_response(200, std::move(*trace)));
  }

  void operator()(CancelInvocation& call) {
    if (!options_.cancel) {
      return responder_.send(
          error_response(Error{ErrorCode::kUnimplemented, "invocations are not cancelled here"}));
    }
    const auto cancelled = options_.cancel(call.tenant, call.invocation);
    if (!cancelled.ok()) return responder_.send(error_response(cancelled.error()));
    responder_.send(json_response(
        cancelled->ended ? 200 : 202,
        json_text(nlohmann::json{{"invocation", to_string(call.invocation)},
                                 {"was", cancelled->was},
                                 {"state", cancelled->ended ? "cancelled" : "cancelling"}})));
  }

  void operator()(ListSlices& call) {
    responder_.send(json_response(
        200, options_.slices ? options_.slices(call.tenant) : std::string("{\"slices\":[]}")));
  }

  void operator()(ListSchedules& call) {
    if (!options_.schedules) {
      return responder_.send(json_response(200, std::string("{\"schedules\":[]}")));
    }
    // Shared because a callback must be copyable and a responder is not.
    auto answer = std::make_shared<http::Responder>(std::move(responder_));
    options_.schedules(call.tenant, [&options = options_, call, answer](std::string own) {
      answer_for_all(
          options, call, "/v1/schedules", std::move(own), answer,
          [self = options.other_nodes.self()](nlohmann::json mine, std::vector<NodeAnswer> all) {
            all.insert(all.begin(), {self, std::move(mine)});
            return merge_schedules(all);
          });
    });
  }

  void operator()(ListDevices& call) {
    answer_for_all(call, "/v1/devices",
                   options_.devices ? options_.devices() : std::string("{\"devices\":[]}"),
                   with_rows_under("devices"));
  }

  void operator()(ChangeDevice& call) {
    if (!options_.drain_devices || !options_.undrain_devices || !options_.devices) {
      return responder_.send(
          error_response(Error{ErrorCode::kUnimplemented, "there are no GPUs here"}));
    }
    auto answer = std::make_shared<http::Responder>(std::move(responder_));
    const auto done = [answer, &options = options_](Result<void> changed) {
      answer->send(changed.ok() ? json_response(200, options.devices())
                                : error_response(changed.error()));
    };
    if (call.drain) return options_.drain_devices(call.gpu, call.reason, done);
    options_.undrain_devices(call.gpu, done);
  }

  void operator()(DescribePipeline& call) {
    if (!options_.pipeline) {
      return responder_.send(
          error_response(Error{ErrorCode::kUnimplemented, "there are no pipelines here"}));
    }
    auto text = options_.pipeline(call.function);
    if (!text.ok()) return responder_.send(error_response(text.error()));
    responder_.send(json_response(200, std::move(*text)));
  }

  void operator()(MeasurePipeline& call) {
    if (!options_.measure) {
      return responder_.send(
          error_response(Error{ErrorCode::kUnimplemented, "there are no pipelines here"}));
    }
    // Shared because a callback must be copyable and a responder is not.
    auto answer = std::make_shared<http::Responder>(std::move(responder_));
    options_.measure(call.function, std::move(call.event), call.repeat,
                     [answer](Result<std::string> measured) {
                       answer->send(measured.ok() ? json_response(200, std::move(*measured))
                                                  : error_response(measured.error()));
                     });
  }

  void operator()(SubmitInvocation& call) {
    submit_for_objects(service_, std::move(call.request), responder_);
  }

  void operator()(GetVersion&) {
    const WorkerFacts& about = options_.about;
    responder_.send(json_response(
        200, json_text(nlohmann::json{{"name", "lambent"},
                                      {"version", options_.version},
                                      {"policy", about.policy},
                                      {"time_scale", about.time_scale},
                                      {"devices", about.devices},
                                      {"emulated", about.emulated},
                                      {"gpu", about.gpu},
                                      {"concurrency", about.concurrency},
                                      {"device_memory_bytes", about.device_memory.count},
                                      {"context_memory_bytes", about.context_memory.count},
                                      {"object_socket", about.object_socket}})));
  }

  void operator()(GetSettings&) {
    nlohmann::json settings = nlohmann::json::array();
    for (const WorkerFacts::Setting& each : options_.about.settings) {
      settings.push_back({{"name", each.name}, {"value", each.value}, {"meaning", each.meaning}});
    }
    responder_.send(
        json_response(200, json_text(nlohmann::json{{"settings", std::move(settings)},
                                                    {"policies", options_.about.policies}})));
  }

  void operator()(Livez&) { responder_.send(text_response(200, "text/plain", "ok\n")); }

  // The reasons of a worker that is not ready are told unasked: a person reads them.
  void operator()(Readyz& call) {
    std::vector<ReadyCheck> checks =
        options_.checks ? options_.checks() : std::vector<ReadyCheck>();
    checks.insert(checks.begin(), {"accepting", {}});
    if (!options_.ready()) checks[0].failure = "the worker starts or stops";
    bool ready = true;
    std::string all;
    std::string failures;
    for (const ReadyCheck& check : checks) {
      ready = ready && (!check.failure || !check.is_needed);
      const std::string line =
          (check.failure ? "[-] " + check.name + ": " + *check.failure : "[+] " + check.name) +
          "\n";
      all += line;
      if (check.failure) failures += line;
    }
    responder_.send(
        text_response(ready ? 200 : 503, "text/plain",
                      (call.verbose ? all : failures) + (ready ? "ok\n" : "not ready\n")));
  }

  void operator()(GetMetrics& call) {
    std::string text = options_.metrics(call.tenant);
    text += triton_metrics(text, [this](const FunctionName& name) {
      const auto spec = service_.find_function(name);
      return spec.ok() && serves_model(*spec);
    });
    if (call.tenant) text = metrics_of(text, *call.tenant);
    if (call.openmetrics) text = openmetrics_of(text);
    Response response = text_response(
        200, std::string(call.openmetrics ? kOpenMetricsType : kPrometheusType), std::move(text));
    response.headers.add("Vary", "Accept");
    responder_.send(std::move(response));
  }

 private:
  // Of this node's own answer and those of others, as JSON.
  using Merge = std::function<nlohmann::json(nlohmann::json own, const std::vector<NodeAnswer>&)>;

  Merge with_rows_under(const char* key) const {
    return
        [key, self = options_.other_nodes.self()](nlohmann::json own, std::vector<NodeAnswer> all) {
          nlohmann::json rows = own;
          all.insert(all.begin(), {self, std::move(own)});
          rows[key] = rows_of_all(all, key, SIZE_MAX);
          return rows;
        };
  }

  template <typename Call>
  void answer_for_all(const Call& call, const std::string& target, std::string own,
                      const Merge& merge) {
    // Shared because a callback must be copyable.
    answer_for_all(options_, call, target, std::move(own),
                   std::make_shared<http::Responder>(std::move(responder_)), merge);
  }

  // `own` where there are no other nodes, or the client asks for this one.
  template <typename Call>
  static void answer_for_all(const NativeOptions& options, const Call& call,
                             const std::string& target, std::string own,
                             const std::shared_ptr<http::Responder>& answer, const Merge& merge) {
    if (call.only_here || !options.other_nodes.are_there()) {
      return answer->send(json_response(200, std::move(own)));
    }
    ask_others(
        options.other_nodes, call.tenant, [&](const std::string&) { return target; },
        [answer, merge, own = std::move(own)](const NodeAnswers& others) {
          nlohmann::json body = merge(nlohmann::json::parse(own), others.answers);
          body["silent_nodes"] = others.silent;
          answer->send(json_response(200, json_text(body)));
        });
  }

  void follow(const ReadLog& call, const LogReader::Question& question) {
    if (followers_.add(question, call.form, token_check(), responder_)) return;
    responder_.send(error_response(Error{ErrorCode::kResourceExhausted,
                                         "too many clients follow logs; try without follow=1"}));
  }

  // Whether the token that let this call pass is still good, for answers that go on.
  std::function<bool()> token_check() const {
    if (caller_.token.empty() || !options_.token_is_good) return [] { return true; };
    return [&options = options_, token = caller_.token] { return options.token_is_good(token); };
  }

  InvocationService& service_;
  const NativeOptions& options_;
  const Caller& caller_;
  LogReader& logs_;
  LogFollowers& followers_;
  http::Responder& responder_;
};

}  // namespace

NativeFrontend::NativeFrontend(InvocationService& service, loop::EventLoop& loop, Random& random,
                               NativeOptions options)
    : service_(service),
      random_(random),
      options_(std::move(options)),
      logs_(service, loop, options_.other_nodes),
      followers_(logs_, loop, options_.ready) {}

void NativeFrontend::handle(const Caller& caller, http::Request request,
                            http::Responder responder) {
  NativeCall call = decode_native_call(request, caller);
  if (auto* submit = std::get_if<SubmitInvocation>(&call)) {
    const bool is_json = submit->request.content_type.empty() ||
                         submit->request.content_type.starts_with("application/json");
    submit->request.payload = request.body.empty() && is_json ? "{}" : std::move(request.body);
    submit->request.id = new_invocation_id(random_);
  }
  if (auto* measure = std::get_if<MeasurePipeline>(&call)) measure->event = std::move(request.body);
  std::visit(Answering(service_, options_, caller, logs_, followers_, responder), call);
}

}  // namespace lambent::frontend
