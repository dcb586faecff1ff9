// LogReader: reads a function's log, on this node or on all nodes of a cluster at once. On the loop
// thread.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/domain/invocation_service.h"
#include "core/loop/event_loop.h"
#include "edge/frontend/log_merge.h"
#include "edge/frontend/node_answers.h"

namespace lambent::frontend {

class LogReader {
 public:
  // All that is given outlives it.
  LogReader(InvocationService& service, loop::EventLoop& loop, OtherNodes others);

  struct Question {
    FunctionName function;
    NodeCursor from;
    bool at_end = false;  // instead: no lines, only where more would come
    bool only_here = false;
    LogMergeOptions merge = {};  // where other nodes are asked, lines wait as that says
    // One that has read before: while a node that may have the function is silent, it is not gone.
    bool goes_on = false;
  };
  struct Answer {
    MergedLog log;
    bool is_alone = true;             // there are no other nodes, or they were not to be asked
    std::string next_offset;          // what a client asks for next; followers ask for log.next
    std::vector<std::string> nodes;   // that have lines of it
    std::vector<std::string> silent;  // that did not answer in time: their lines are missing
  };
  // `done` comes once; in this turn where there are no other nodes. NOT_FOUND; UNAVAILABLE: a node
  // that may have the function does not answer, and no other has it.
  void read(const Question& question, std::function<void(Result<Answer>)> done);
  // Whether read() asks others.
  bool asks_others(const Question& question) const;

 private:
  LogPart own_part(const FunctionName& function, uint64_t offset, size_t most) const;
  std::vector<LogPart> own_parts(const Question& question, size_t most) const;

  InvocationService& service_;
  loop::EventLoop& loop_;
  const OtherNodes others_;
};

// Where a node tells its part of a log: /v1/cluster/log/TENANT/NAME.
std::string log_part_target(std::string_view tenant, const std::string& function, uint64_t offset,
                            size_t most);

}  // namespace lambent::frontend
