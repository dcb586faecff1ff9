// SimulatedJournal: the journal of a simulation, recorded as a worker records its own. Made by the
// simulator's main for one run; one thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/base/log.h"
#include "core/base/random.h"
#include "decide/journal/recorder.h"
#include "node/journal_store/segment_store.h"
#include "sim/simulator/simulation.h"

namespace lambent::bin {

// Records the run whose dispatcher it is given, as a worker would, but waits for the disk.
class SimulatedJournal {
 public:
  static Result<std::unique_ptr<SimulatedJournal>> open(const std::string& folder, Bytes most_size,
                                                        journal::RunFacts facts);

  void begin(const simulator::Simulation& simulation, const std::vector<std::string>& names);
  void record(const dispatch::Event& event, Instant now) {
    recorder_->record(event, now, *dispatcher_);
  }
  // Closes it; without this it shows that it is of a part of the run. An error if something could
  // not be written.
  Result<void> finish();
  ~SimulatedJournal();
  SimulatedJournal(const SimulatedJournal&) = delete;
  SimulatedJournal& operator=(const SimulatedJournal&) = delete;

 private:
  SimulatedJournal() : log_(LogFormat::kText, LogLevel::kWarning) {}

  SystemClock clock_;
  SpdlogSink log_;
  std::unique_ptr<journal_store::SegmentStore> store_;
  std::unique_ptr<journal::Recorder> recorder_;
  const dispatch::Dispatcher* dispatcher_ = nullptr;
};

}  // namespace lambent::bin
