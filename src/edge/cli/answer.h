// Answer: what the worker says about one invocation, in the headers and body of its response. A
// value; read by invoke, result and replay.
#pragma once

#include <optional>
#include <string>

#include "core/domain/invocation.h"
#include "core/http/message.h"

namespace lambent::cli {

struct Answer {
  std::string id;
  bool function_failed = false;  // X-Amz-Function-Error: the payload tells what happened
  // What the worker says about where the time went; nothing if it does not.
  std::optional<Phases> phases;
  std::optional<StartClass> start;
  std::optional<bool> in_time;  // kept its function's SLO; nothing if that has none
  std::string device;           // where it ran: "0", "0,1", "0:2" (a MIG instance) or "cpu"
  std::string wait_reason;      // what held it back in the queue, in the worker's word
  unsigned runs = 0;            // of an asynchronous one: how often it ran
  std::string destination;      // where its outcome was sent; empty: nowhere
  Bytes device_memory_peak;
  std::string payload;
  std::string log_tail;  // decoded; only if it was asked for
};

Answer answer_of(const http::Response& response);

// "312 ms  queue 4 (every GPU ran as many as it may at once) | sandbox 2 | init 80 | run 226   cold
// gpu 0   id 4f2c..."
std::string phases_line(const Answer& answer);

// What a failed function answered, for people: "KeyError: 'a'" and the lines of its stack trace.
// Nothing where there is no trace: the answer can be read as it is. Without control characters.
std::string readable_failure(const Answer& answer);

}  // namespace lambent::cli
