#include "edge/cli/why.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "core/base/ids.h"
#include "edge/cli/api_json.h"
#include "edge/cli/text_table.h"
#include "edge/cli/wait_words.h"

namespace lambent::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string text(const Json& row, const char* key) {
  const auto found = row.find(key);
  if (found == row.end() || found->is_null()) return "-";
  return found->is_string() ? found->get<std::string>() : found->dump();
}

double number(const Json& row, const char* key) {
  const auto found = row.find(key);
  return found != row.end() && found->is_number() ? found->get<double>() : 0;
}

std::string ms(const Json& row, const char* key) {
  char shown[48];
  std::snprintf(shown, sizeof(shown), "%.1f", number(row, key));
  return shown;
}

Json list(const Json& row, const char* key) {
  const auto found = row.find(key);
  return found != row.end() && found->is_array() ? *found : Json::array();
}

// "no free slice held it; most of them were with 'blur'".
std::string wait_sentence(const Json& wait) {
  const std::string reason = text(wait, "reason");
  std::string words(wait_in_words(reason));
  if (words.empty()) words = reason;
  const auto other = wait.find("other");
  if (other == wait.end()) return words;
  const std::string who =
      other->is_string() ? "'" + other->get<std::string>() + "'" : "another tenant's function";
  return words + (reason == "no_slice" ? "; most of them were with " : ": ") + who;
}

std::string component_words(const Json& stage) {
  std::string words;
  for (const Json& each : list(stage, "components")) {
    words += (words.empty() ? "" : ", ") + text(each, "component") + " " + ms(each, "ms");
    if (number(each, "ran") != 1) words += " for " + text(each, "ran") + " requests";
  }
  return words;
}

// What it waited for, and then a row for each stage process: before which stage it queued, what it
// received and sent.
std::string pipeline_text(const Json& trace) {
  std::string story = "queue " + ms(trace, "queue_ms") + " | sandbox " + ms(trace, "sandbox_ms") +
                      " | memory " + ms(trace, "memory_ms") + " | run " + ms(trace, "run_ms") +
                      "   (ms)\n";
  for (const Json& wait : list(trace, "waits")) {
    story += "  waited " + ms(wait, "ms") + " ms: " + wait_sentence(wait) + "\n";
  }
  if (number(trace, "lost_ms") > 0) {
    story += "  lost " + ms(trace, "lost_ms") + " ms in instances that ended under it\n";
  }
  if (trace.contains("instance")) {
    story += "  ran in instance " + text(trace, "instance") + ", " + text(trace, "start");
    if (number(trace, "requests_in_job") > 1) {
      story += ", in a job of " + text(trace, "requests_in_job") + " requests";
    }
    story += "\n";
  }
  const Json stages = list(trace, "stages");
  if (stages.empty()) return story;
  TextTable table({">STAGE", "SLICE", ">AT", ">QUEUE", ">WAIT FOR INPUT", ">RECEIVE", ">WORK",
                   ">SEND", "COMPONENTS (MS)"});
  for (const Json& stage : stages) {
    table.add({text(stage, "stage"), text(stage, "slice"), ms(stage, "at_ms"),
               ms(stage, "queue_ms"), ms(stage, "wait_ms"), ms(stage, "receive_ms"),
               ms(stage, "work_ms"), ms(stage, "send_ms"), component_words(stage)});
  }
  return story + table.str();
}

std::string workflow_text(const Json& trace) {
  TextTable table({"COMPONENT", "FUNCTION", ">AT", ">TOOK", ">QUEUE", ">SANDBOX", ">INIT",
                   ">MEMORY", ">RUN", "START", "WAITED BECAUSE", "INVOCATION"});
  const Json calls = list(trace, "calls");
  for (const Json& call : calls) {
    std::string why(wait_in_words(text(call, "wait_reason")));
    if (call.contains("failed")) why = "failed: " + text(call, "failed");
    table.add({text(call, "component"), text(call, "function"), ms(call, "at_ms"),
               ms(call, "took_ms"), ms(call, "queue_ms"), ms(call, "sandbox_ms"),
               ms(call, "init_ms"), ms(call, "memory_ms"), ms(call, "run_ms"), text(call, "start"),
               why, text(call, "invocation")});
  }
  std::string story = table.str();
  const double more = number(trace, "calls_ended") - static_cast<double>(calls.size());
  if (more >= 1) story += "and " + Json(static_cast<uint64_t>(more)).dump() + " more calls\n";
  return story;
}

// As lambent-why tells it.
std::string story_text(const Json& why) {
  std::string story;
  for (const Json& moment : list(why, "story")) {
    char at[32];
    std::snprintf(at, sizeof(at), "%+12.6f s  ", number(moment, "at_ms") / 1000);
    story += at + text(moment, "what") + "\n";
  }
  return story;
}

// Of what the worker itself does not remember, its journal tells. `no_trace`: why there is no
// trace.
int run_why_of_journal(Transport& transport, Console& console, const std::string& invocation,
                       const Error& no_trace) {
  const auto why = ask_json(transport, "GET", "/v1/invocations/" + invocation + "/why");
  // Where a node that may have a trace is silent, a journal without a story is not the cause.
  const bool may_have_trace = no_trace.code == ErrorCode::kUnavailable;
  if (!why.ok()) return fail(console, may_have_trace ? no_trace : why.error());
  if (console.json) {
    console.out << why->dump(2, ' ', false, Json::error_handler_t::replace) << "\n";
  } else {
    console.out << "invocation " << invocation << " of " << text(*why, "function") << "\n"
                << story_text(*why);
  }
  return 0;
}

// The slowest of a function's last invocations, by its id; without a name, of all functions'.
Result<std::string> slowest_of(Transport& transport, Console& console, const std::string& name) {
  const std::string escaped = http::percent_encode(name);
  const auto there = name.empty() ? Result<Json>(Json())
                                  : ask_json(transport, "GET", "/v1/activity/functions/" + escaped);
  if (!there.ok()) {
    return Error{there.error().code,
                 there.error().message +
                     " (an invocation's id looks like 0e6c9d1e-4f2c-4c33-9a52-6f1b1b3f0f7a)"};
  }
  ASSIGN_OR_RETURN(const Json ended, ask_json(transport, "GET",
                                              "/v1/activity/invocations?limit=500" +
                                                  (name.empty() ? "" : "&function=" + escaped)));
  const Json rows = list(ended, "invocations");
  const auto slowest = std::max_element(rows.begin(), rows.end(), [](const Json& a, const Json& b) {
    return number(a, "took_ms") < number(b, "took_ms");
  });
  if (slowest == rows.end()) {
    return Error{
        ErrorCode::kNotFound,
        "no invocation" + (name.empty() ? "" : " of '" + name + "'") + " that ended is remembered"};
  }
  if (!console.json) {
    console.out << "the slowest of the last " << rows.size() << (name.empty() ? "" : " of " + name)
                << ", " << ms(*slowest, "took_ms") << " ms:\n";
  }
  return text(*slowest, "invocation");
}

}  // namespace

int run_why(Transport& transport, Console& console, const std::string& which) {
  std::string invocation = which;
  if (!invocation_id_from_string(which)) {
    auto found = slowest_of(transport, console, which);
    if (!found.ok()) return fail(console, found.error());
    invocation = *std::move(found);
  }
  const auto answer = ask_json(transport, "GET", "/v1/invocations/" + invocation + "/trace");
  // No node that answers has a trace; one of them may tell by its journal.
  const bool has_no_trace = !answer.ok() && (answer.error().code == ErrorCode::kNotFound ||
                                             answer.error().code == ErrorCode::kUnavailable);
  if (has_no_trace) {
    return run_why_of_journal(transport, console, invocation, answer.error());
  }
  if (!answer.ok()) return fail(console, answer.error());
  const Json& trace = *answer;
  if (console.json) {
    console.out << trace.dump(2, ' ', false, Json::error_handler_t::replace) << "\n";
    return 0;
  }
  console.out << invocation << " of '" << text(trace, "function") << "': " << text(trace, "state")
              << " after " << ms(trace, "took_ms") << " ms";
  if (trace.contains("failed")) console.out << ": " << text(trace, "failed");
  console.out << "\n" << (trace.contains("calls") ? workflow_text(trace) : pipeline_text(trace));
  return 0;
}

}  // namespace lambent::cli
