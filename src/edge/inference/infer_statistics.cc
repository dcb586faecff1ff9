#include "edge/inference/infer_statistics.h"

#include <chrono>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/base/json_text.h"

namespace lambent::inference {
namespace {

using Json = nlohmann::ordered_json;

// How many sizes of runs are counted apart.
constexpr size_t kMostSizes = 128;

Json json_of(const InferStatistics::Sum& sum) {
  return {{"count", sum.count}, {"ns", sum.time.count()}};
}

}  // namespace

void RunCounts::add_batch(uint64_t elements, Duration time) {
  if (batches.size() >= kMostSizes && !batches.contains(elements)) return;
  BatchCount& count = batches[elements];
  ++count.count;
  count.time += time;
}

std::string statistics_json(const ModelIdentity& identity, const InferStatistics& sums,
                            const RunCounts& runs) {
  const InferStatistics::Sum none;
  Json batches = Json::array();
  for (const auto& [size, count] : runs.batches) {
    batches.push_back({{"batch_size", size},
                       {"compute_infer", {{"count", count.count}, {"ns", count.time.count()}}}});
  }
  const Json model = {
      {"name", identity.name},
      {"version", identity.version},
      {"last_inference", std::chrono::duration_cast<milliseconds>(sums.last).count()},
      {"inference_count", sums.inferences},
      {"execution_count", runs.executions},
      {"inference_stats",
       {{"success", json_of(sums.success)},
        {"fail", json_of(sums.fail)},
        {"queue", json_of(sums.queue)},
        {"compute_input", json_of(sums.input)},
        {"compute_infer", json_of(sums.infer)},
        {"compute_output", json_of(sums.output)},
        {"cache_hit", json_of(none)},
        {"cache_miss", json_of(none)}}},
      {"batch_stats", std::move(batches)}};
  return json_text(Json{{"model_stats", Json::array({model})}});
}

}  // namespace lambent::inference
