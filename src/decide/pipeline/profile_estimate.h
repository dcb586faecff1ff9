// ProfileEstimate: what production runs tell of a pipeline function's components, as a profile that
// follows them. Pure; kept by the worker for each function.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "decide/pipeline/profile_json.h"

namespace lambent::pipeline {

// What one job told of one component.
struct ComponentRun {
  size_t component = 0;
  // Of the job; zero: it says nothing of how often the component runs.
  unsigned requests = 1;
  unsigned ran = 1;       // for so many of them; the rest passed through
  Duration time{};        // for all that ran
  bool together = false;  // they were one batch
  Bytes memory;           // with nothing of other components; zero: not known
  Bytes weights;
  Bytes output;  // of one request: the largest is kept
};

class ProfileEstimate {
 public:
  // Begins with what was measured before, if anything was: it counts as much as kTrusted runs.
  ProfileEstimate(MeasuredProfile measured, size_t components);

  static constexpr unsigned kTrusted = 20;

  // Batches of 2, 4, 8 and so on are learnt. Another size counts for the next smaller one of these,
  // which then seems to take somewhat longer than it does.

  void add(const ComponentRun& run, const SliceShape& shape);
  // What a measurement made on purpose found: it takes the place of what was known.
  void replace(const ComponentRun& run, const SliceShape& shape);
  // Of a process of the function, from its start until it took work.
  void add_start(Duration start);

  const MeasuredProfile& measured() const { return measured_; }
  // Whether some figure has moved by more than a tenth since this last said so (or, at first, since
  // the beginning): then plans made with it are stale.
  bool is_news();

 private:
  struct Weight {
    uint64_t runs = 0;
    bool warm = false;  // a first run has prepared what others find
    // Of the newest: as in a mean over all at first, and never too small to follow a change.
    double next();
  };

  void know(const SliceShape& shape);
  void learn_time(const ComponentRun& run, const SliceShape& shape);

  MeasuredProfile measured_;
  MeasuredProfile told_;
  std::map<std::tuple<size_t, std::string, unsigned>, Weight> times_;  // by number of requests
  std::vector<Weight> chances_;
  Weight starts_;
};

}  // namespace lambent::pipeline
