// PipelineMeasurement: a pipeline function measured on purpose, on a slice of each shape that
// no instance has. Owned by PipelineHost, on the loop thread.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/loop/event_loop.h"
#include "node/worker/pipeline_functions.h"
#include "node/worker/pipeline_instances.h"

namespace lambent::worker {

class PipelineMeasurement {
 public:
  using Done = std::function<void(Result<std::string>)>;

  // All outlive it.
  struct Dependencies {
    loop::EventLoop& loop;
    const PipelineSetting& setting;
    const slice_scheduling::SliceDispatcher& dispatcher;
    PipelineFunctions& functions;
    PipelineInstances& instances;
    // Takes a slice from dispatch and ends the instances on it; gives it back.
    std::function<void(DeviceId, const Error& why)> take_slice;
    std::function<void(DeviceId)> offer_slice;
    // It is over: destroys this, before `done` is called.
    std::function<void()> on_finished;
  };

  PipelineMeasurement(Dependencies dependencies, FunctionId function,
                      std::shared_ptr<const PipelinePackage> package, std::string event,
                      unsigned repeat, Done done);
  ~PipelineMeasurement();
  PipelineMeasurement(const PipelineMeasurement&) = delete;
  PipelineMeasurement& operator=(const PipelineMeasurement&) = delete;

  void begin();
  // It ends with this error, as soon as what runs for it is gone.
  void cancel(Error error);

  FunctionId function() const { return function_; }
  // Whether it has this slice now.
  bool has(DeviceId slice) const { return slice_ != nullptr && slice_->id == slice; }

 private:
  void next_shape();
  // False: it cannot be measured on slice_, and why was noted.
  bool measure_here();
  // Starts as soon as no instance is on slice_ any more.
  void start_when_free();
  void skip(const std::string& why) { skipped_.emplace_back(slice_->shape.name, why); }
  void give();
  void job_ended(const JobEnd& end);
  void instance_ended(const InstanceEnd& end);
  void keep_medians();
  void finish();
  // Gives slice_ back.
  void leave_slice();

  const Dependencies uses_;
  const FunctionId function_;
  // What is measured: another revision is not.
  const std::shared_ptr<const PipelinePackage> package_;
  const std::string event_;
  const unsigned repeat_;
  Done done_;
  std::deque<const Slice*> shapes_;  // a slice of each shape that is to be measured
  const Slice* slice_ = nullptr;     // the one at work
  std::unique_ptr<PipelineInstance> instance_;
  loop::TimerId next_;  // what comes next, when its time has come
  pipeline::Placement placement_;
  unsigned given_ = 0;
  std::string failure_;                                       // of a job on this slice
  std::map<size_t, std::vector<ComponentReading>> readings_;  // by component
  std::optional<Error> cancelled_;
  loop::TimerId limit_;
  std::vector<std::string> measured_;
  std::vector<std::pair<std::string, std::string>> skipped_;  // shapes, and why
};

}  // namespace lambent::worker
