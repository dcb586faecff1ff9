// InferStatistics and RunCounts: what Triton counts of a model: requests, and runs by their size.
// Values.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "core/base/time.h"
#include "edge/inference/infer_response.h"

namespace lambent::inference {

// Nanoseconds and times.
struct InferStatistics {
  struct Sum {
    uint64_t count = 0;
    Duration time{};
    void add(Duration more) {
      ++count;
      time += more;
    }
  };
  Sum success, fail, queue, input, infer, output;
  uint64_t inferences = 0;  // of batches, each of its elements
  Duration last{};          // since the Unix epoch; zero: none yet
};

// Runs of one size.
struct BatchCount {
  uint64_t count = 0;
  Duration time{};
};

// Runs of a model.
struct RunCounts {
  uint64_t executions = 0;
  // By how many elements a run had, for as many sizes as are kept.
  std::map<uint64_t, BatchCount> batches;

  void add_batch(uint64_t elements, Duration time);
};

// {"model_stats": [...]}
std::string statistics_json(const ModelIdentity& model, const InferStatistics& sums,
                            const RunCounts& runs);

}  // namespace lambent::inference
