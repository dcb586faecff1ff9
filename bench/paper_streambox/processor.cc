#include "bench/paper_streambox/processor.h"

#include <algorithm>

namespace lambent::paper_streambox {

scheduling::RunningFunction Job::running() const {
  const double begun_s = kernel == 0 ? 0 : model->ends_s[kernel - 1];
  return {&model->profile, kernel, from_seconds(std::max(0.0, done_s - begun_s))};
}

void Processor::add(Job& job) {
  advance();
  jobs_.push_back(&job);
  reschedule();
}

void Processor::set_limit(Job& job, double limit_s) {
  advance();
  job.limit_s = limit_s;
  reschedule();
}

void Processor::advance() {
  const double passed_s = events_.now() - since_s_;
  since_s_ = events_.now();
  if (passed_s <= 0) return;
  for (Job* job : jobs_) {
    if (stalls(*job)) {
      job->stalled_s += passed_s;
      continue;
    }
    const double rate = most(*job) / job->model->demand * crowding_;
    job->done_s = std::min(job->limit_s, job->done_s + passed_s * rate);
    const auto& ends = job->model->ends_s;
    while (job->kernel < ends.size() && ends[job->kernel] - job->done_s < 1e-12) ++job->kernel;
  }
}

void Processor::reschedule() {
  double asked = 0;
  for (const Job* job : jobs_) {
    if (!stalls(*job)) asked += most(*job);
  }
  crowding_ = asked > 1 ? 1 / asked : 1;
  double next_s = -1;
  for (const Job* job : jobs_) {
    if (stalls(*job)) continue;
    const double rate = most(*job) / job->model->demand * crowding_;
    const double left_s = (job->limit_s - job->done_s) / rate;
    if (next_s < 0 || left_s < next_s) next_s = left_s;
  }
  const unsigned long generation = ++generation_;
  if (next_s < 0) return;
  events_.after(next_s + 1e-12, [this, generation] {
    if (generation == generation_) look();
  });
}

void Processor::look() {
  advance();
  std::vector<Job*> finished;
  std::erase_if(jobs_, [&](Job* job) {
    const bool ends = job->model->alone_s - job->done_s < 1e-12;
    if (ends) finished.push_back(job);
    return ends;
  });
  reschedule();
  for (Job* job : finished) job->finished();
}

}  // namespace lambent::paper_streambox
