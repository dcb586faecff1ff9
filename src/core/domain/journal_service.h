// JournalService: questions that the worker's journal answers: the story of an invocation, and what
// would have been under other settings. On the loop thread; the work is another process's.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/ids.h"
#include "core/base/result.h"
#include "core/base/time.h"

namespace lambent {

struct WhatIfQuery {
  Duration last = std::chrono::minutes(10);  // the arrivals of this time until now
  // D, policy, pool, gpus, memory, ... and their values, as `lambent simulate --what-if` has them.
  std::vector<std::pair<std::string, std::string>> changes;
};

class JournalService {
 public:
  // JSON, as the programs print it with --json.
  using Done = std::function<void(Result<std::string>)>;

  virtual ~JournalService() = default;
  // FAILED_PRECONDITION: there is no journal; RESOURCE_EXHAUSTED: too many ask; DEADLINE_EXCEEDED;
  // of the programs: NOT_FOUND, INVALID_ARGUMENT, DATA_LOSS.
  virtual void why(InvocationId invocation, Done done) = 0;
  virtual void what_if(WhatIfQuery query, Done done) = 0;
};

}  // namespace lambent
