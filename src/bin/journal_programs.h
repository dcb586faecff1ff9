// JournalPrograms: answers questions to the worker's journal with lambent-why and
// lambent-simulator, one at a time, since a replay may take seconds and gigabytes. Used by
// lambent-worker's main, on the loop thread.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "bin/child_run.h"
#include "core/domain/journal_service.h"

namespace lambent {

class JournalPrograms final : public JournalService {
 public:
  struct Options {
    std::string why;  // the programs' paths
    std::string simulator;
    std::string journal;  // the folder
    ChildLimits limits = {};
  };

  // The loop outlives it.
  JournalPrograms(loop::EventLoop& loop, Options options)
      : loop_(loop), options_(std::move(options)) {}

  void why(InvocationId invocation, Done done) override;
  void what_if(WhatIfQuery query, Done done) override;

 private:
  struct Question {
    std::vector<std::string> arguments;
    Done done;
  };
  void ask(Question question);
  void next();

  loop::EventLoop& loop_;
  const Options options_;
  std::deque<Question> waiting_;
  std::unique_ptr<ChildRun> running_;
};

}  // namespace lambent
