#include "bin/journal_programs.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "core/base/error.h"

namespace lambent {
namespace {

constexpr size_t kMostWaiting = 4;

// What a program of ours says on its error stream with --json.
Error error_of(const ChildEnd& end) {
  const auto last_line = end.errors.rfind("{\"error\"");
  if (last_line != std::string::npos) {
    const auto told = nlohmann::json::parse(end.errors.substr(last_line), nullptr, false);
    if (told.is_object() && told["error"].is_object()) {
      const auto code = error_code_from_name(told["error"].value("code", ""));
      return {code.value_or(ErrorCode::kInternal), told["error"].value("message", "")};
    }
  }
  return {ErrorCode::kInternal, "the program that reads the journal ended with " +
                                    std::to_string(end.exit_code) +
                                    (end.errors.empty() ? "" : ": " + end.errors.substr(0, 512))};
}

}  // namespace

void JournalPrograms::why(InvocationId invocation, Done done) {
  ask({{options_.why, to_string(invocation), "--journal", options_.journal, "--json"},
       std::move(done)});
}

void JournalPrograms::what_if(WhatIfQuery query, Done done) {
  std::vector<std::string> arguments = {options_.simulator,
                                        "--replay",
                                        options_.journal,
                                        "--last",
                                        std::to_string(to_seconds(query.last)),
                                        "--json"};
  for (const auto& [key, value] : query.changes) {
    arguments.insert(arguments.end(), {"--what-if", key + "=" + value});
  }
  ask({std::move(arguments), std::move(done)});
}

void JournalPrograms::ask(Question question) {
  if (waiting_.size() >= kMostWaiting) {
    return question.done(Error{ErrorCode::kResourceExhausted,
                               "other questions to the journal are being answered; try again"});
  }
  waiting_.push_back(std::move(question));
  if (running_ == nullptr) next();
}

void JournalPrograms::next() {
  while (running_ == nullptr && !waiting_.empty()) {
    Question question = std::move(waiting_.front());
    waiting_.pop_front();
    auto started = ChildRun::start(loop_, std::move(question.arguments), options_.limits,
                                   [this, done = question.done](Result<ChildEnd> end) {
                                     // Not from within its own call.
                                     const std::unique_ptr<ChildRun> ended =
                                         std::exchange(running_, nullptr);
                                     next();
                                     if (!end.ok()) return done(end.error());
                                     if (end->exit_code != 0) return done(error_of(*end));
                                     done(std::move(end->output));
                                   });
    if (started.ok()) {
      running_ = std::move(*started);
    } else {
      question.done(started.error());
    }
  }
}

}  // namespace lambent
