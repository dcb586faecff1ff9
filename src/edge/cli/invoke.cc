#include "edge/cli/invoke.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "core/base/fd.h"
#include "core/http/event_stream.h"
#include "edge/cli/answer.h"
#include "edge/cli/api_error.h"
#include "edge/cli/event_text.h"
#include "edge/cli/function_request.h"
#include "edge/cli/wait_notice.h"

namespace lambent::cli {
namespace {

using Json = nlohmann::ordered_json;

Result<std::string> payload_of(const InvokeOptions& options) {
  ASSIGN_OR_RETURN(std::string payload, event_text(options.payload, options.file));
  if (!options.raw && options.content_type.empty() && !Json::accept(payload)) {
    return Error{ErrorCode::kInvalidArgument,
                 "the event is not JSON; a text needs quotes of its own (-d '\"text\"'), a file is "
                 "-d @FILE, and what is not JSON is sent with --raw"};
  }
  return payload;
}

http::Request request_of(const InvokeOptions& options, std::string payload) {
  http::Request request{.method = "POST", .target = function_target(options.name, "/invocations")};
  if (options.streams) {
    request.target = function_target(options.name, "/response-streaming-invocations");
  }
  const char* raw_or_json = options.raw ? "application/octet-stream" : "application/json";
  request.headers.add("Content-Type",
                      options.content_type.empty() ? raw_or_json : options.content_type);
  request.headers.add("X-Amz-Invocation-Type", options.asynchronous ? "Event" : "RequestResponse");
  if (options.log && !options.asynchronous) request.headers.add("X-Amz-Log-Type", "Tail");
  request.body = std::move(payload);
  return request;
}

Json json_of(const Answer& answer) {
  Json json = {{"id", answer.id},
               {"outcome", answer.function_failed ? "function_error" : "succeeded"}};
  if (answer.start) json["start"] = name_of(*answer.start);
  if (answer.in_time) json["slo"] = *answer.in_time ? "in_time" : "late";
  if (answer.phases) {
    const auto us = [](Duration d) { return std::chrono::duration_cast<microseconds>(d).count(); };
    json["phases_us"] = {
        {"queue", us(answer.phases->queue)}, {"sandbox", us(answer.phases->sandbox)},
        {"init", us(answer.phases->init)},   {"memory", us(answer.phases->memory)},
        {"run", us(answer.phases->run)},     {"total", us(answer.phases->total())}};
    if (!answer.wait_reason.empty()) json["wait_reason"] = answer.wait_reason;
  }
  if (answer.runs > 0) json["runs"] = answer.runs;
  if (!answer.destination.empty()) json["destination"] = answer.destination;
  json["device_memory_peak_bytes"] = answer.device_memory_peak.count;
  const Json payload = Json::parse(answer.payload, nullptr, false);
  json["payload"] = payload.is_discarded() ? Json(answer.payload) : payload;
  if (!answer.log_tail.empty()) json["log_tail"] = answer.log_tail;
  return json;
}

int show(Console& console, const Answer& answer, const std::optional<std::string>& output) {
  if (output) {
    const auto written = write_file_atomically(*output, answer.payload, false);
    if (!written.ok()) return fail(console, written.error());
  }
  if (console.json) {
    console.out << json_of(answer).dump(2, ' ', false, Json::error_handler_t::replace) << "\n";
  } else {
    if (!output) {
      console.out << answer.payload;
      if (!answer.payload.ends_with('\n')) console.out << "\n";
    }
    console.out.flush();
    if (!answer.log_tail.empty()) {
      console.err << answer.log_tail << (answer.log_tail.ends_with('\n') ? "" : "\n");
    }
    console.err << readable_failure(answer);
    console.err << (answer.function_failed ? "function error   " : "") << phases_line(answer)
                << "\n";
  }
  return answer.function_failed ? kExitFunctionError : 0;
}

// "waiting for run 2 of 3, in 34.00 s: the last one failed with ValueError: no such image".
std::string progress_of_retry(const Json& json) {
  const auto number_at = [&](const char* key) {
    return json.contains(key) && json[key].is_number() ? json[key].get<double>() : 0.0;
  };
  const auto count = [&](const char* key) {
    return std::to_string(static_cast<uint64_t>(number_at(key)));
  };
  std::string text = "waiting for run " + count("run") + " of " + count("most_runs") + ", in " +
                     human_seconds(number_at("due_in_seconds"));
  const bool has_failure = json.contains("last_failure") && json["last_failure"].is_string() &&
                           !json["last_failure"].get_ref<const std::string&>().empty();
  if (has_failure) text += ": the last one failed with " + json["last_failure"].get<std::string>();
  return text;
}

// "queued or running", or what the worker says of it: "queued for 3.20 s (no_token); GPU 0 is held
// by f, for 12.50 s at most".
std::string progress_of(const std::string& body) {
  const Json json = Json::parse(body, nullptr, false);
  if (!json.is_object() || !json.contains("phase") || !json["phase"].is_string()) {
    return "queued or running";
  }
  std::string text = json["phase"].get<std::string>();
  if (text == "waiting") return progress_of_retry(json);
  if (text != "queued") return text;
  const auto seconds_at = [](const Json& row, const char* key) {
    return row.contains(key) && row[key].is_number() ? human_seconds(row[key].get<double>()) : "";
  };
  const auto text_at = [](const Json& row, const char* key) {
    return row.contains(key) && row[key].is_string() ? row[key].get<std::string>() : "";
  };
  text += " for " + seconds_at(json, "waited_seconds") + " (" + text_at(json, "wait_reason") + ")";
  if (!json.contains("token_holders") || !json["token_holders"].is_array()) return text;
  for (const Json& holder : json["token_holders"]) {
    if (!holder.is_object()) continue;
    const std::string function = text_at(holder, "function");
    text += "; GPU " + text_at(holder, "gpu") + " is held by " +
            (function.empty() ? "a removed function or another tenant" : function);
    const std::string most = seconds_at(holder, "most_left_seconds");
    if (!most.empty()) text += ", for " + most + " more at most";
  }
  return text;
}

// What of a streamed answer has come: its pieces are written at once.
class StreamedAnswer {
 public:
  explicit StreamedAnswer(std::ostream& out) : out_(out) {}

  // Of an event stream, or of an error's text.
  bool take(std::string_view bytes) {
    if (text_.size() < kMostOfError) text_ += bytes;
    if (failure_) return true;  // perhaps it is text: its status tells
    decoder_.feed(bytes);
    for (;;) {
      auto frame = decoder_.next();
      if (!frame.ok()) {
        failure_ = frame.error();
        return true;
      }
      if (!*frame) return true;
      take_frame(**frame);
    }
  }

  const std::string& text() const { return text_; }
  // Whether the last line that was written has no end.
  bool within_line() const { return within_line_; }

  // How it went, as it would be told of an answer that came whole.
  Result<Answer> end() const {
    if (failure_) return *failure_;
    if (!end_.is_object()) {
      return Error{ErrorCode::kUnavailable, "the answer broke off: the worker went away"};
    }
    http::Response told;
    if (const auto outcome = end_.find("LambentOutcome"); outcome != end_.end()) {
      for (const auto& [name, value] : outcome->items()) {
        if (value.is_string()) told.headers.add(name, value.get<std::string>());
      }
    }
    const auto text_at = [this](const char* key) {
      const auto found = end_.find(key);
      return found != end_.end() && found->is_string() ? found->get<std::string>() : "";
    };
    if (const std::string log = text_at("LogResult"); !log.empty()) {
      told.headers.add("X-Amz-Log-Result", log);
    }
    told.body = text_at("ErrorDetails");
    Answer answer = answer_of(told);
    answer.function_failed = answer.function_failed || end_.contains("ErrorCode");
    return answer;
  }

 private:
  static constexpr size_t kMostOfError = 64 * 1024;

  void take_frame(const http::EventFrame& frame) {
    const std::string_view type = frame.header(":event-type");
    if (type == "PayloadChunk") {
      out_ << frame.payload;
      out_.flush();
      if (!frame.payload.empty()) within_line_ = frame.payload.back() != '\n';
    } else if (type == "InvokeComplete") {
      end_ = Json::parse(frame.payload, nullptr, false);
    }
  }

  std::ostream& out_;
  bool within_line_ = false;
  http::EventStreamDecoder decoder_;
  std::string text_;
  std::optional<Error> failure_;
  Json end_;
};

// Only for people: programs read what a terminal does not show.
std::unique_ptr<Transport> watcher_of(const Console& console, const InvokeOptions& options) {
  const bool waits = !options.asynchronous && !console.json && console.err_is_terminal;
  return waits && options.connect ? options.connect() : nullptr;
}

int stream(Transport& transport, Console& console, const InvokeOptions& options,
           const http::Request& request) {
  std::ofstream file;
  if (options.output) {
    file.open(*options.output, std::ios::binary | std::ios::trunc);
    if (!file) {
      return fail(console, {ErrorCode::kInvalidArgument, "open " + *options.output + " to write"});
    }
  }
  StreamedAnswer streamed(options.output ? static_cast<std::ostream&>(file) : console.out);
  WaitNotice notice(watcher_of(console, options), console.err,
                    {.function = options.name, .every = options.notice_every});
  auto response = transport.stream(request, options.timeout, [&](std::string_view bytes) {
    notice.stop();
    return streamed.take(bytes);
  });
  notice.stop();
  if (response.ok() && response->status != 200) response->body = streamed.text();
  if (const auto fine = good(std::move(response)); !fine.ok()) return fail(console, fine.error());
  file.close();
  if (options.output && !file) {
    return fail(console, {ErrorCode::kStorageFull, "write " + *options.output});
  }
  const auto answer = streamed.end();
  if (!answer.ok()) return fail(console, answer.error());
  if (answer->function_failed) console.out << "\n" << answer->payload << "\n";
  console.out.flush();
  // The answer stays as it is; what is told of it begins a line of its own.
  if (!options.output && !answer->function_failed && streamed.within_line()) console.err << "\n";
  if (!answer->log_tail.empty()) console.err << answer->log_tail;
  console.err << readable_failure(*answer) << (answer->function_failed ? "function error   " : "")
              << phases_line(*answer) << "\n";
  return answer->function_failed ? kExitFunctionError : 0;
}

}  // namespace

int run_invoke(Transport& transport, Console& console, const InvokeOptions& options) {
  auto payload = payload_of(options);
  if (!payload.ok()) return fail(console, payload.error());
  if (options.streams) {
    if (options.asynchronous || console.json) {
      return fail(console, {ErrorCode::kInvalidArgument,
                            "--stream shows the answer as it comes: not with --async or --json"});
    }
    return stream(transport, console, options, request_of(options, std::move(*payload)));
  }
  WaitNotice notice(watcher_of(console, options), console.err,
                    {.function = options.name, .every = options.notice_every});
  const auto response =
      good(transport.send(request_of(options, std::move(*payload)), options.timeout));
  notice.stop();
  if (!response.ok()) return fail(console, response.error());
  const Answer answer = answer_of(*response);
  if (!options.asynchronous) return show(console, answer, options.output);
  if (console.json) {
    console.out << Json{{"id", answer.id}}.dump(2) << "\n";
  } else {
    console.out << answer.id << "\n";
  }
  return 0;
}

int run_result(Transport& transport, Console& console, const ResultOptions& options) {
  const http::Request request{.method = "GET",
                              .target = "/v1/invocations/" + http::percent_encode(options.id)};
  const SystemClock clock;
  const Instant until = clock.now() + options.timeout;
  for (;;) {
    const auto response = good(transport.send(request, seconds(60)));
    if (!response.ok()) return fail(console, response.error());
    if (response->headers.get("x-lambent-outcome") == "rejected") {
      // The exchange was good, the outcome was not.
      const std::string destination(response->headers.get("x-lambent-destination"));
      if (!destination.empty() && !console.json)
        console.err << "destination   " << destination << "\n";
      return fail(console, error_of(*response));
    }
    if (response->status != 202) {
      Answer answer = answer_of(*response);
      if (answer.id.empty() || answer.id != options.id) answer.id = options.id;
      return show(console, answer, options.output);
    }
    if (!options.wait) {
      return fail(console, {ErrorCode::kUnavailable, "invocation " + options.id + " is " +
                                                         progress_of(response->body) +
                                                         "; wait for it with --wait"});
    }
    if (clock.now() >= until) {
      return fail(console, {ErrorCode::kDeadlineExceeded,
                            "invocation " + options.id + " is still queued or running"});
    }
    std::this_thread::sleep_for(options.poll_every);
  }
}

}  // namespace lambent::cli
