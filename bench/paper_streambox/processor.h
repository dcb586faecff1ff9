// The multiprocessors of one modelled device: jobs share them in proportion to what each can fill,
// and stall at kernels whose weights have not arrived. One thread.
#pragma once

#include <functional>
#include <vector>

#include "bench/paper_streambox/events.h"
#include "bench/paper_streambox/networks.h"
#include "decide/scheduling/pool_scaling.h"

namespace lambent::paper_streambox {

struct Job {
  const BatchModel* model = nullptr;
  double share = 1;  // of the multiprocessors, at most
  // Seconds of the time that it takes alone.
  double done_s = 0;
  double limit_s = 0;  // up to here its weights are there
  double stalled_s = 0;
  size_t kernel = 0;
  std::function<void()> finished;

  scheduling::RunningFunction running() const;
};

class Processor {
 public:
  explicit Processor(Events& events) : events_(events) {}

  // The job is the caller's, and ends with its finished().
  void add(Job& job);
  void set_limit(Job& job, double limit_s);
  // Brings the progress of all jobs up to now.
  void advance();

 private:
  static double most(const Job& job) {  // of the multiprocessors
    return job.share < job.model->demand ? job.share : job.model->demand;
  }
  static bool stalls(const Job& job) { return job.limit_s - job.done_s < 1e-12; }
  void reschedule();
  void look();

  Events& events_;
  std::vector<Job*> jobs_;
  double since_s_ = 0;
  double crowding_ = 1;  // what everybody's rate is multiplied with
  unsigned long generation_ = 0;
};

}  // namespace lambent::paper_streambox
