// Refusals: tells the worker over a pipe what a sandbox was refused, each of it once in an interval
// with how often. Used by one Relay on its loop's thread; parse_refusal is pure.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/fd.h"
#include "core/loop/event_loop.h"

namespace lambent::network {

struct Refusal {
  uint64_t times = 1;
  std::string destination;  // 10.0.0.1:80, or a name
  std::string why;

  bool operator==(const Refusal&) const = default;
};

// A line without its end; none if it is not one.
std::string write_refusal(const Refusal& refusal);
std::optional<Refusal> parse_refusal(std::string_view line);

class Refusals {
 public:
  // `pipe`: non-blocking; what does not fit is lost. May be invalid: nothing is told.
  Refusals(loop::EventLoop& loop, OwnedFd pipe) : loop_(loop), pipe_(std::move(pipe)) {}
  ~Refusals() { loop_.cancel(timer_); }
  Refusals(const Refusals&) = delete;
  Refusals& operator=(const Refusals&) = delete;

  void add(const std::string& destination, const std::string& why);

 private:
  void tell(const Refusal& refusal);
  void end_interval();

  loop::EventLoop& loop_;
  OwnedFd pipe_;
  std::map<std::pair<std::string, std::string>, uint64_t> counts_;  // since they were told
  uint64_t others_ = 0;
  bool in_interval_ = false;
  loop::TimerId timer_;
};

// Reads them at the worker's end. On the loop thread.
class RefusalReader {
 public:
  using OnRefusal = std::function<void(const Refusal&)>;

  RefusalReader(loop::EventLoop& loop, OwnedFd pipe, OnRefusal on_refusal);
  // A bounded part of what has come.
  void read_more();
  // For another reader; this one reads nothing more.
  OwnedFd release() {
    watch_.reset();
    return std::move(pipe_);
  }

 private:
  OwnedFd pipe_;
  OnRefusal on_refusal_;
  std::string line_;  // what came of the next one
  loop::Watch watch_;
};

}  // namespace lambent::network
